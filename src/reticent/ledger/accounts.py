"""Accounts, the caps on them, and what is left."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from reticent.errors import InvalidParameterError, RelationMismatchError
from reticent.guarantees import Budget, Certificate, rho_within
from reticent.guarantees.numbers import exact
from reticent.ledger.charges import REPLACE_ONE, Charge
from reticent.ledger.units import (
    DELTA_UNITS,
    EPSILON_UNITS,
    LARGEST,
    NOTHING,
    RHO_UNITS,
    Spend,
    as_float,
    units_down,
    whole,
)

_LONGEST_NAME = 200
_CAP_FIELDS = (
    "relation",
    "epsilon",
    "delta",
    "slack",
    "rho",
    "answers",
    "certificate",
)


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


class Method(Enum):
    """How the charges of one account add up, fixed when the account is opened."""

    BASIC = "basic"
    ZCDP = "zcdp"
    COUNT = "count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """The most an account may spend, and by which method that is counted.

    Use the constructors `basic`, `zcdp`, `count` and `within`; the fields are whole
    units, see `Spend`.

    Guarantee
    ---------
    The method is fixed before the first charge and never changes, so the cap is a
    privacy *filter*: charges may be chosen adaptively, each after seeing all earlier
    answers, and everything charged together stays within the cap. This holds for
    sums of epsilon and delta (``basic``) and for sums of rho (``zcdp``). Exact or
    numerical composition needs its steps fixed in advance, so ``count`` admits one
    kind of answer only, named by its certificate. Taking the better of two methods
    afterwards would be no filter, and cannot be asked for.

    References
    ----------
    :cite:`RogersEtAl2016` for filters on sums of epsilon and delta;
    :cite:`WhitehouseEtAl2023` for sums of rho.
    """

    method: Method
    relation: str = REPLACE_ONE
    epsilon: int | None = None
    delta: int | None = None
    slack: int = 0
    rho: int | None = None
    answers: int | None = None
    certificate: str | None = None
    #: What may be spent of each kind; `LARGEST` where nothing is limited.
    limits: Spend = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta", "slack", "rho", "answers"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(name, getattr(self, name)))
        needed = {
            Method.BASIC: (self.epsilon, self.delta),
            Method.ZCDP: (self.rho,),
            Method.COUNT: (self.answers, self.certificate),
        }[self.method]
        if None in needed:
            raise InvalidParameterError(
                f"a cap by method={self.method.value!r} misses a limit; build it with "
                f"Cap.{self.method.value}(...)."
            )
        object.__setattr__(self, "limits", _limits(self))

    @classmethod
    def basic(
        cls, *, epsilon: float, delta: float = 0.0, relation: str = REPLACE_ONE
    ) -> Cap:
        """Cap the sum of epsilons and the sum of deltas."""
        return cls(
            method=Method.BASIC,
            relation=relation,
            epsilon=units_down("epsilon", epsilon, EPSILON_UNITS),
            delta=units_down("delta", delta, DELTA_UNITS),
        )

    @classmethod
    def zcdp(
        cls,
        *,
        epsilon: float,
        delta: float,
        slack: float = 0.0,
        relation: str = REPLACE_ONE,
    ) -> Cap:
        """Cap the sum of rhos so that all of it together is (epsilon, delta)-DP.

        `slack` is the part of `delta` kept for the deltas that answers bring
        themselves; the rest serves the conversion from zCDP. With 0 only answers
        without a delta fit.
        """
        promise = units_down("epsilon", epsilon, EPSILON_UNITS)
        total = units_down("delta", delta, DELTA_UNITS)
        kept = units_down("slack", slack, DELTA_UNITS)
        if not (promise > 0 and kept < total):
            raise InvalidParameterError(
                f"epsilon={epsilon!r}, delta={delta!r}, slack={slack!r}: a cap by "
                "method='zcdp' needs epsilon > 0 and delta > slack. Use Cap.basic for "
                "delta=0."
            )
        conversion = float(exact(delta) - exact(slack))
        rho = rho_within(epsilon, math.nextafter(conversion, 0.0))
        return cls(
            method=Method.ZCDP,
            relation=relation,
            epsilon=promise,
            delta=total,
            slack=kept,
            rho=units_down("rho", rho, RHO_UNITS),
        )

    @classmethod
    def count(cls, total: Certificate[Any]) -> Cap:
        """Cap the number of equal answers whose composition was fixed in advance.

        Parameters
        ----------
        total : Certificate
            What the answers promise together: ``repeat(certificate, times,
            delta=...)``. Only answers with exactly that `certificate` are admitted,
            `times` of them.
        """
        loss, counts = Charge.of(total), total.parameter("counts")
        if not (
            loss.epsilon is not None
            and len(total.premises) == 1
            and isinstance(counts, tuple)
            and len(counts) == 1
        ):
            raise InvalidParameterError(
                f"total={total.headline()!r} must be the (epsilon, delta) total of "
                "equal answers; make it with repeat(certificate, times, delta=...)."
            )
        return cls(
            method=Method.COUNT,
            relation=loss.relation,
            epsilon=loss.epsilon,
            delta=loss.delta,
            answers=whole("answers", counts[0]),
            certificate=total.premises[0].id,
        )

    @classmethod
    def within(cls, budget: Budget, *, relation: str = REPLACE_ONE) -> Cap:
        """Cap by a budget: zCDP if it has a delta to use, else plain sums."""
        make = cls.zcdp if budget.delta > 0 else cls.basic
        return make(epsilon=budget.epsilon, delta=budget.delta, relation=relation)

    @property
    def exhausted(self) -> Spend:
        """The spend at which nothing is left."""
        return Spend(*(0 if limit == LARGEST else limit for limit in self.limits))

    def cost(self, charge: Charge, answers: int) -> Spend:
        """Return what `answers` answers cost an account with this cap."""
        if charge.relation != self.relation:
            raise RelationMismatchError(
                f"an account under the relation {self.relation!r} cannot count a "
                f"charge under {charge.relation!r}; open one for that relation."
            )
        if self.method is Method.BASIC and charge.epsilon is not None:
            return Spend(charge.epsilon * answers, charge.delta * answers, 0, answers)
        if self.method is Method.ZCDP and charge.rho is not None:
            return Spend(0, charge.delta * answers, charge.rho * answers, answers)
        if self.method is Method.COUNT and charge.certificate == self.certificate:
            return Spend(answers=answers)
        raise InvalidParameterError(
            f"certificate={charge.certificate!r} cannot be counted by an account with "
            f"method={self.method.value!r}: basic needs an epsilon, zcdp a rho, and "
            "count the one certificate it was opened for."
        )

    def same_kind(self, other: Cap) -> bool:
        """Return whether only the limits differ."""
        return (self.method, self.relation, self.certificate) == (
            other.method,
            other.relation,
            other.certificate,
        )

    def to_json(self) -> str:
        """Return canonical JSON."""
        data = {name: getattr(self, name) for name in _CAP_FIELDS}
        data["method"] = self.method.value
        return json.dumps(data, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Cap:
        """Read what `to_json` wrote."""
        data: Mapping[str, Any] = json.loads(text)
        return cls(**{**data, "method": Method(data["method"])})


def _limits(cap: Cap) -> Spend:
    limited: dict[str, int | None]
    if cap.method is Method.BASIC:
        limited = {"epsilon": cap.epsilon, "delta": cap.delta}
    elif cap.method is Method.ZCDP:
        limited = {"rho": cap.rho, "delta": cap.slack}
    else:
        limited = {"answers": cap.answers}
    everything = Spend(LARGEST, LARGEST, LARGEST, LARGEST)
    return everything._replace(**{k: v for k, v in limited.items() if v is not None})


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
    spent: Spend = NOTHING

    @property
    def remaining(self) -> Spend:
        """What is left of each kind that is limited, zero for the others."""
        return self.cap.exhausted.minus(self.spent)

    def answers_left(self, charge: Charge) -> int:
        """Return how many answers at this charge still fit."""
        cost, limits = self.cap.cost(charge, 1), self.cap.limits
        fits = [
            (limit - spent) // price if spent < limit else 0
            for price, limit, spent in zip(cost, limits, self.spent, strict=True)
            if price
        ]
        return min(fits)

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
        parts = [f"{kind} {spent[kind]:.10g} of {cap[kind]:.10g}" for kind in spent]
        return f"{self.account}: {', '.join(parts)}"


def _shown(spend: Spend, cap: Cap) -> dict[str, float]:
    if cap.method is Method.BASIC:
        return {
            "epsilon": as_float(spend.epsilon, EPSILON_UNITS),
            "delta": as_float(spend.delta, DELTA_UNITS),
        }
    if cap.method is Method.ZCDP:
        return {
            "rho": as_float(spend.rho, RHO_UNITS),
            "delta": as_float(spend.delta, DELTA_UNITS),
        }
    return {"answers": spend.answers}


def _float(count: int | None, units: int) -> float | None:
    return None if count is None else as_float(count, units)
