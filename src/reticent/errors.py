"""Every error reticent raises, as one tree.

::

    ReticentError
    ├── InvalidParameterError (ValueError)      a number or choice that is not valid
    │   ├── InvalidGuaranteeError               a guarantee whose numbers are not valid
    │   ├── InvalidDataError                    rows, labels or units of the wrong shape
    │   ├── TooFewRecordsError                  fewer units than the method needs
    │   │   └── OnlyNoiseError                  answers would be hardly more than noise
    │   ├── CannotJudgeError                    an audit that cannot see all it must
    │   ├── AccountNotOpenError                 an account that nobody has opened
    │   ├── AccountOpenError                    an account open under another cap
    │   ├── IdempotencyKeyError                 text that cannot be such a key
    │   └── IdempotencyKeyReusedError           a key that belongs to another request
    ├── RuleError (ValueError)                  a rule applied where it does not fit
    │   ├── RelationMismatchError               neighbouring relations that do not mix
    │   └── NoDerivationError                   no rule leads from here to there
    ├── CertificateError (ValueError)           a certificate that does not re-derive
    ├── BudgetExhaustedError                    the budget does not cover the answer
    │   ├── AnswerLostError                     paid for, but its answer was lost
    │   └── ConsensusExhaustedError             no more answers in doubt are paid for
    ├── ServiceError                            a service refused, or is out of reach
    ├── NotDeployableError                      a certificate the service must refuse
    ├── SolverError (RuntimeError)              a preset target was not reached at fit
    ├── LedgerError                             the ledger cannot vouch for its state
    ├── ModelFileError (ValueError)             a model directory not to be trusted
    └── InternalError                           a bug in reticent, please report it

Warnings are a second tree::

    ReticentWarning (UserWarning)
    ├── NearChanceWarning                       answers will be near chance
    │   └── OnlyNoiseWarning                    answers will be hardly more than noise
    ├── ShardFailureWarning                     most shards could not be trained
    ├── SeparateBudgetsWarning                  two models may spend two budgets
    └── CuratorOnlyWarning                      a score that must not be released
        └── ClippedValuesWarning                most values lie outside a declared range

A message says what was asked, what is needed and what to do; it never holds a
record's value.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AccountNotOpenError",
    "AccountOpenError",
    "AnswerLostError",
    "BudgetExhaustedError",
    "CannotJudgeError",
    "CertificateError",
    "ClippedValuesWarning",
    "ConsensusExhaustedError",
    "CuratorOnlyWarning",
    "IdempotencyKeyError",
    "IdempotencyKeyReusedError",
    "InternalError",
    "InvalidDataError",
    "InvalidGuaranteeError",
    "InvalidParameterError",
    "LedgerError",
    "ModelFileError",
    "NearChanceWarning",
    "NoDerivationError",
    "NotDeployableError",
    "OnlyNoiseError",
    "OnlyNoiseWarning",
    "RelationMismatchError",
    "ReticentError",
    "ReticentWarning",
    "RuleError",
    "SeparateBudgetsWarning",
    "ServiceError",
    "ShardFailureWarning",
    "SolverError",
    "TooFewRecordsError",
]


class ReticentError(Exception):
    """The root of the tree."""


class InvalidParameterError(ReticentError, ValueError):
    """A parameter has a value that is not possible."""


class InvalidGuaranteeError(InvalidParameterError):
    """A guarantee was built from numbers that promise nothing."""


class InvalidDataError(InvalidParameterError):
    """Rows, labels or units do not have the shape or kind that is needed."""


class TooFewRecordsError(InvalidParameterError):
    """There are fewer units than the method needs."""


class OnlyNoiseError(TooFewRecordsError):
    """Answers would be hardly more than noise, whatever the models learn."""


class CannotJudgeError(InvalidParameterError):
    """An audit cannot see everything that its verdict would depend on."""


class AccountNotOpenError(InvalidParameterError):
    """An account that is to be charged or read is not open."""


class AccountOpenError(InvalidParameterError):
    """An account that is to be opened is open already, under another cap."""


class IdempotencyKeyError(InvalidParameterError):
    """A text does not have the form of an idempotency key."""


class IdempotencyKeyReusedError(InvalidParameterError):
    """An idempotency key was used before, for a different request."""


class RuleError(ReticentError, ValueError):
    """A rule was applied to a certificate that it does not fit."""


class RelationMismatchError(RuleError):
    """Certificates under different neighbouring relations were mixed."""


class NoDerivationError(RuleError):
    """No rule derives the guarantee that was asked for."""


class CertificateError(ReticentError, ValueError):
    """A certificate does not follow from its own premises, or cannot be read."""


class BudgetExhaustedError(ReticentError):
    """The budget does not cover what was asked.

    Attributes
    ----------
    answers : array or None
        The answers that were given, and paid for, before the budget ran out.
    """

    def __init__(self, message: str, *, answers: Any = None) -> None:
        super().__init__(message)
        self.answers = answers


class AnswerLostError(BudgetExhaustedError):
    """A request was charged, but its answer was lost and is never drawn again."""


class ConsensusExhaustedError(BudgetExhaustedError):
    """A consensus session has no more answers in doubt to give."""


class ServiceError(ReticentError):
    """A service refused a request, or could not be reached.

    Attributes
    ----------
    status : int
        The HTTP status; 0 if there was no response.
    code : str
        The service's stable name for the error.
    details : dict
        Numbers and names that programs may need.
    request_id : str
        Finds the request in the service's log; may be empty.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        details: dict[str, Any] | None = None,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.details = details or {}
        self.request_id = request_id


class NotDeployableError(ReticentError):
    """A certificate rests on an assumption that a service must not make."""


class SolverError(ReticentError, RuntimeError):
    """A solver did not reach the target that the certificate was set for."""


class LedgerError(ReticentError):
    """The ledger cannot vouch for its state, so it refuses to answer."""


class ModelFileError(ReticentError, ValueError):
    """A model directory is damaged, unsigned, open to others, or cannot be made."""


class InternalError(ReticentError):
    """A state that reticent believes impossible."""


class ReticentWarning(UserWarning):
    """The root of all warnings."""


class NearChanceWarning(ReticentWarning):
    """Answers will be near those of guessing, whatever the models learn."""


class OnlyNoiseWarning(NearChanceWarning):
    """Answers will be hardly more than noise, whatever the models learn."""


class ShardFailureWarning(ReticentWarning):
    """Most shards could not be trained, so most votes or numbers are fixed ones."""


class SeparateBudgetsWarning(ReticentWarning):
    """Models of one process have budgets of their own for what may be one dataset."""


class CuratorOnlyWarning(ReticentWarning):
    """A number was computed from records without noise: it must not be released."""


class ClippedValuesWarning(CuratorOnlyWarning):
    """Values lie outside the ranges that were declared, or that nobody declared."""
