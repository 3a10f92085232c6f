"""What one answer costs, in whole units, and which certificate says so."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

from reticent._numbers import shown
from reticent.errors import InvalidParameterError, NotDeployableError
from reticent.guarantees import (
    SEEDED_NOISE,
    ZCDP,
    AddRemove,
    ApproxDP,
    BoundedRange,
    Certificate,
    PureDP,
    ReplaceOne,
    ZeroOut,
    step_rho,
)
from reticent.ledger.units import (
    DELTA_UNITS,
    EPSILON_UNITS,
    RHO_UNITS,
    units_to_float,
    units_up,
    whole,
)

#: The relation of accounts that name no other.
REPLACE_ONE = ReplaceOne.name

_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._:@/-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """The loss of one answer, in whole units (see `Spend`), each rounded up.

    Parameters
    ----------
    epsilon, rho : int or None
        None where the loss cannot be stated in that way; accounts that count by it
        then refuse the charge.
    delta : int, default=0
        Slack that goes with `epsilon` and with `rho`.
    certificate : str
        Id of the certificate that promises this loss.
    relation : str, default='replace-one'
        Kind of neighbours it is about. One account never mixes charges under
        different relations.
    """

    epsilon: int | None = None
    delta: int = 0
    rho: int | None = None
    certificate: str
    relation: str = REPLACE_ONE

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta", "rho"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(name, getattr(self, name)))
        if self.epsilon is None and self.rho is None:
            raise InvalidParameterError(
                "a charge states an epsilon, a rho or both; got neither."
            )
        for name in ("certificate", "relation"):
            value = getattr(self, name)
            if not (isinstance(value, str) and _ID.fullmatch(value)):
                raise InvalidParameterError(
                    f"{name}={value!r} must be 1 to 128 letters, digits or ._:@/-."
                )

    def __str__(self) -> str:
        """Say what one answer costs."""
        losses = self.as_floats()
        said = "rho" if self.epsilon is None else "epsilon"
        names = (said, "delta") if self.delta else (said,)
        return ", ".join(f"{name} {shown(losses[name] or 0.0)}" for name in names)

    def as_floats(self) -> dict[str, float | None]:
        """Return epsilon, delta and rho as numbers, None where there is none."""
        return {
            name: None if count is None else units_to_float(count, units)
            for name, count, units in (
                ("epsilon", self.epsilon, EPSILON_UNITS),
                ("delta", self.delta, DELTA_UNITS),
                ("rho", self.rho, RHO_UNITS),
            )
        }

    @classmethod
    def of(cls, certificate: Certificate[Any]) -> Charge:
        """Return the charge for one release under `certificate`.

        Raises
        ------
        NotDeployableError
            If the certificate assumes a secret seed: with the seed the noise can be
            subtracted, so no budget describes what was lost.
        InvalidParameterError
            If the certificate does not promise differential privacy.
        """
        if SEEDED_NOISE.code in {a.code for a in certificate.assumptions}:
            raise NotDeployableError(
                f"this certificate assumes SEEDED_NOISE ({SEEDED_NOISE.statement}). "
                "Refit with random_state=None before anything is charged for it."
            )
        relation, loss = certificate.relation, certificate.guarantee
        if not (
            isinstance(relation, (ReplaceOne, AddRemove, ZeroOut))
            and isinstance(loss, (PureDP, BoundedRange, ApproxDP, ZCDP))
        ):
            raise InvalidParameterError(
                f"certificate={certificate.headline()!r} does not promise "
                "differential privacy, so it has no loss to charge. Charge for the "
                "private release that it was derived from."
            )
        group = "" if relation.group == 1 else f"/{relation.group}"
        return cls.loss(
            epsilon=None if isinstance(loss, ZCDP) else loss.epsilon,
            delta=loss.delta if isinstance(loss, ApproxDP) else 0.0,
            # An epsilon near zero squares to a subnormal number; charge one unit.
            rho=max(step_rho(loss), sys.float_info.min),
            certificate=certificate.id,
            relation=relation.name + group,
        )

    @classmethod
    def loss(
        cls,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        rho: float | None = None,
        certificate: str,
        relation: str = REPLACE_ONE,
    ) -> Charge:
        """Return the charge for a loss given as real numbers, rounded up.

        Examples
        --------
        >>> Charge.loss(epsilon=0.1, certificate="c").epsilon
        100000000
        """
        return cls(
            epsilon=None
            if epsilon is None
            else units_up("epsilon", epsilon, EPSILON_UNITS),
            delta=units_up("delta", delta, DELTA_UNITS),
            rho=None if rho is None else units_up("rho", rho, RHO_UNITS),
            certificate=certificate,
            relation=relation,
        )
