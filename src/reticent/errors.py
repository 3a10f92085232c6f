"""Every error reticent raises, as one tree.

::

    ReticentError
    ├── InvalidParameterError (ValueError)      a number or choice that cannot be
    │   ├── InvalidGuaranteeError               a guarantee whose numbers are not valid
    │   ├── InvalidDataError                    rows, labels or units of the wrong shape
    │   ├── TooFewRecordsError                  fewer units than the method needs
    │   └── CannotJudgeError                    an audit that cannot see all it must
    ├── RuleError (ValueError)                  a rule applied where it does not fit
    │   ├── RelationMismatchError               neighbouring relations that do not mix
    │   └── NoDerivationError                   no rule leads from here to there
    ├── CertificateError (ValueError)           a certificate that does not re-derive
    ├── BudgetExhaustedError                    the budget does not cover the answer
    ├── NotDeployableError                      a certificate the service must refuse
    ├── SolverError (RuntimeError)              a preset target was not reached at fit
    ├── LedgerError                             the ledger cannot vouch for its state
    ├── ModelFileError (ValueError)             a model directory not to be trusted
    └── InternalError                           a bug in reticent, please report it

A message says what was asked, what is needed and what to do; it never holds a
record's value.
"""

from __future__ import annotations

__all__ = [
    "BudgetExhaustedError",
    "CannotJudgeError",
    "CertificateError",
    "InternalError",
    "InvalidDataError",
    "InvalidGuaranteeError",
    "InvalidParameterError",
    "LedgerError",
    "ModelFileError",
    "NoDerivationError",
    "NotDeployableError",
    "RelationMismatchError",
    "ReticentError",
    "RuleError",
    "SolverError",
    "TooFewRecordsError",
]


class ReticentError(Exception):
    """The root of the tree."""


class InvalidParameterError(ReticentError, ValueError):
    """A parameter has a value that cannot be meant."""


class InvalidGuaranteeError(InvalidParameterError):
    """A guarantee was built from numbers that promise nothing."""


class InvalidDataError(InvalidParameterError):
    """Rows, labels or units do not have the shape or kind that is needed."""


class TooFewRecordsError(InvalidParameterError):
    """There are fewer units than the method needs."""


class CannotJudgeError(InvalidParameterError):
    """An audit cannot see everything that its verdict would depend on."""


class RuleError(ReticentError, ValueError):
    """A rule was applied to a certificate that it does not fit."""


class RelationMismatchError(RuleError):
    """Certificates under different neighbouring relations were mixed."""


class NoDerivationError(RuleError):
    """No rule derives the guarantee that was asked for."""


class CertificateError(ReticentError, ValueError):
    """A certificate does not follow from its own premises, or cannot be read."""


class BudgetExhaustedError(ReticentError):
    """The budget does not cover what was asked; nothing was answered."""


class NotDeployableError(ReticentError):
    """A certificate rests on an assumption that must not hold in service."""


class SolverError(ReticentError, RuntimeError):
    """A solver did not reach the target that the certificate was set for."""


class LedgerError(ReticentError):
    """The ledger cannot vouch for its state, so it refuses to answer."""


class ModelFileError(ReticentError, ValueError):
    """A model directory is damaged, unsigned, open to others, or cannot be made."""


class InternalError(ReticentError):
    """A state that reticent believes impossible."""
