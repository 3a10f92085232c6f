"""Accounts, their caps, and what is left of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from reticent.errors import InvalidParameterError
from reticent.ledger.caps import Cap, Method
from reticent.ledger.charges import Charge
from reticent.ledger.units import (
    DELTA_UNITS,
    EPSILON_UNITS,
    MAX_UNITS,
    NO_SPEND,
    RHO_UNITS,
    Spend,
    units_to_float,
)

_LONGEST_NAME = 200


class AccountScope(Enum):
    """Whose exposure an account bounds."""

    DATASET = "dataset"
    MODEL = "model"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class AccountId:
    """The name of one account: a scope and a name within it.

    Examples
    --------
    >>> print(AccountId(AccountScope.CLIENT, "clinic-a"))
    client:clinic-a
    >>> AccountId.parse("dataset:adult@1").name
    'adult@1'
    """

    scope: AccountScope
    name: str
    _text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.scope, AccountScope):
            raise InvalidParameterError(
                f"scope={self.scope!r} must be an AccountScope: DATASET, MODEL or "
                "CLIENT."
            )
        if not (
            isinstance(self.name, str)
            and 0 < len(self.name) <= _LONGEST_NAME
            and self.name.isprintable()
        ):
            raise InvalidParameterError(
                f"name={self.name!r} of an account must be 1 to {_LONGEST_NAME} "
                "printable characters."
            )
        object.__setattr__(self, "_text", f"{self.scope.value}:{self.name}")

    def __str__(self) -> str:
        return self._text

    @classmethod
    def parse(cls, text: str) -> AccountId:
        """Read what `str` wrote."""
        scope, colon, name = text.partition(":")
        if not colon or scope not in {kind.value for kind in AccountScope}:
            raise InvalidParameterError(
                f"account={text!r} must read dataset:NAME, model:NAME or client:NAME."
            )
        return cls(AccountScope(scope), name)


@dataclass(frozen=True, slots=True)
class Balance:
    """An account with its cap and what was spent.

    Examples
    --------
    >>> client = AccountId(AccountScope.CLIENT, "a")
    >>> print(Balance(client, Cap.basic(epsilon=4.0), Spend(epsilon=3_800_000_000)))
    client:a: epsilon 3.8 of 4, delta 0 of 0
    """

    account: AccountId
    cap: Cap
    spent: Spend = NO_SPEND

    @property
    def remaining(self) -> Spend:
        """What is left of each kind that is limited, zero for the others."""
        return self.cap.exhausted.minus(self.spent)

    def answers_left(self, charge: Charge) -> int:
        """Return how many answers at this charge still fit."""
        return self.cap.answers_left(charge, self.spent)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; losses as decimals, rounded against us."""
        return {
            "account": str(self.account),
            "method": self.cap.method.value,
            "spent": _shown(self.spent, self.cap),
            "cap": _shown(self.cap.exhausted, self.cap),
            "promise": {
                "epsilon": _float(self.cap.epsilon, EPSILON_UNITS),
                "delta": _float(self.cap.delta, DELTA_UNITS),
            },
            "answers": self.spent.answers,
        }

    def __str__(self) -> str:
        spent, cap = _shown(self.spent, self.cap), _shown(self.cap.exhausted, self.cap)
        parts = {
            kind: f"{kind} {used:.10g} of {cap[kind]:.10g}"
            for kind, used in spent.items()
            if used is not None
        }
        if self.cap.method is Method.EITHER:
            sums = [parts.pop(kind) for kind in ("epsilon", "rho") if kind in parts]
            parts = {"sums": " or ".join(sums) or "an unknown amount", **parts}
        return f"{self.account}: {', '.join(parts.values())}"

    @property
    def share(self) -> tuple[float, str]:
        """The largest spent share among the kinds of loss, and that kind."""
        spent, cap = _shown(self.spent, self.cap), _shown(self.cap.exhausted, self.cap)
        shares = {
            kind: (math.inf if used is None else used / limit if limit else 0.0)
            for kind, used in spent.items()
            for limit in [cap[kind] or 0.0]
        }
        if self.cap.method is Method.EITHER:
            # A limit of zero admits nothing, so only the other sum counts.
            sums = {k: shares.pop(k) for k in ("epsilon", "rho") if cap[k]}
            longest = min(sums, key=lambda kind: sums[kind])
            shares[longest] = sums[longest]
        return max((share, kind) for kind, share in shares.items())


def _shown(spend: Spend, cap: Cap) -> dict[str, float | None]:
    """Return the losses that a cap counts; None for one above `MAX_UNITS`."""
    if cap.method is Method.COUNT:
        return {"answers": spend.answers}
    kinds = {
        "epsilon": (spend.epsilon, EPSILON_UNITS),
        "rho": (spend.rho, RHO_UNITS),
        "delta": (spend.delta, DELTA_UNITS),
    }
    left_out = {Method.BASIC: "rho", Method.ZCDP: "epsilon"}.get(cap.method)
    return {
        kind: None if count == MAX_UNITS else units_to_float(count, units)
        for kind, (count, units) in kinds.items()
        if kind != left_out
    }


def _float(count: int | None, units: int) -> float | None:
    return None if count is None else units_to_float(count, units)
