"""Caps: the most an account may spend, and how that is counted."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any

from reticent._numbers import exact
from reticent.errors import InvalidParameterError, RelationMismatchError
from reticent.guarantees import (
    SLACK_OF_DELTA,
    TOTALS_OF_DELTA,
    Budget,
    Certificate,
    Filter,
    rho_within,
)
from reticent.ledger.charges import REPLACE_ONE, Charge
from reticent.ledger.units import (
    DELTA_UNITS,
    EPSILON_UNITS,
    MAX_UNITS,
    NO_SPEND,
    RHO_UNITS,
    Spend,
    units_down,
    units_to_float,
    units_up,
    whole,
)

_CAP_FIELDS = ("relation", "epsilon", "delta", "slack", "rho", "answers", "certificate")
# The parts of a budget's delta that `Cap.within` tries for answers with a delta.
_SLACK_SHARES = (SLACK_OF_DELTA, Fraction(1, 2), Fraction(9, 10), Fraction(1))


class Method(Enum):
    """How the charges of one account add up, fixed when the account is opened."""

    BASIC = "basic"
    ZCDP = "zcdp"
    EITHER = "either"
    COUNT = "count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """The most an account may spend, and by which method that is counted.

    Use the constructors `within`, `either`, `basic`, `zcdp` and `count`; the fields are
    whole units, see `Spend`.

    Guarantee
    ---------
    The method, and the split of delta, are fixed before the first charge and never
    change, so the cap is a privacy *filter*: charges may be chosen adaptively, each
    after seeing all earlier answers, and everything charged together stays within the
    cap. This holds for sums of epsilon and delta (``basic``), for sums of rho
    (``zcdp``), and for charges of which one sum *or* the other stays within its limit
    (``either``; the proof is in `reticent.guarantees.totals`). Exact or numerical
    composition needs its steps fixed in advance, so ``count`` admits one kind of answer
    only, named by its certificate. A decision to change a cap should not depend on
    answers.

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
    totals: int = 0
    #: What may be spent of each kind; `MAX_UNITS` where nothing is limited.
    limits: Spend = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta", "slack", "rho", "answers", "totals"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(name, getattr(self, name)))
        needed = {
            Method.BASIC: (self.epsilon, self.delta),
            Method.ZCDP: (self.rho,),
            Method.EITHER: (self.epsilon, self.delta, self.rho),
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

        `slack` is the part of `delta` kept for answers that have a delta of their own;
        the rest serves the conversion from zCDP. With 0, only answers without a delta
        fit.
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
    def either(
        cls,
        *,
        epsilon: float,
        delta: float,
        slack: float | None = None,
        totals: float | None = None,
        relation: str = REPLACE_ONE,
    ) -> Cap:
        """Cap sums of epsilon or sums of rho, whichever lasts longer.

        Every charge with an epsilon or a rho can be counted, so models and releases of
        all kinds can share the budget.

        Parameters
        ----------
        epsilon, delta : float
            What everything charged together satisfies.
        slack : float, default=None
            The part of delta kept for answers that have a delta of their own; None
            keeps one twentieth.
        totals : float, default=None
            The part kept for printed totals, so that they hold at every moment; None
            keeps one twentieth, or what `slack` leaves if that is less.
        relation : str, default='replace-one'
            Kind of neighbours.
        """
        total = units_down("delta", delta, DELTA_UNITS)
        kept = (
            math.floor(total * SLACK_OF_DELTA)
            if slack is None
            else units_down("slack", slack, DELTA_UNITS)
        )
        shown = (
            min(math.floor(total * TOTALS_OF_DELTA), total - kept)
            if totals is None
            else units_down("totals", totals, DELTA_UNITS)
        )
        promise = units_down("epsilon", epsilon, EPSILON_UNITS)
        if not (promise > 0 and 0 <= shown <= total - kept):
            raise InvalidParameterError(
                f"epsilon={epsilon!r}, delta={delta!r}, slack={slack!r}, "
                f"totals={totals!r}: a cap needs epsilon > 0, and slack and totals are "
                "parts of delta."
            )
        return _either(relation, promise, total, kept, shown)

    @classmethod
    def count(cls, total: Certificate[Any], *, totals: float = 0.0) -> Cap:
        """Cap the number of equal answers whose composition was fixed in advance.

        Parameters
        ----------
        total : Certificate
            What the answers promise together: ``repeat(certificate, times,
            delta=...)``. Only answers with exactly that `certificate` are admitted,
            `times` of them.
        totals : float, default=0.0
            A delta in addition to the total's, for printed totals that hold at every
            moment.
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
            delta=loss.delta + units_up("totals", totals, DELTA_UNITS),
            totals=units_down("totals", totals, DELTA_UNITS),
            answers=whole("answers", counts[0]),
            certificate=total.premises[0].id,
        )

    @classmethod
    def within(
        cls,
        budget: Budget,
        *,
        relation: str = REPLACE_ONE,
        charge: Charge | None = None,
    ) -> Cap:
        """Cap by a budget: by sums of epsilon, or of rho if it has a delta to use.

        A `charge` with a delta chooses the part of the budget's delta that is kept for
        such answers, so that most of them fit.
        """
        epsilon, delta = budget.epsilon, budget.delta
        if not delta > 0:
            return cls.basic(epsilon=epsilon, relation=relation)
        cap = cls.either(epsilon=epsilon, delta=delta, relation=relation)
        if charge is None or not charge.delta:
            return cap
        caps = [with_shares(cap, share, TOTALS_OF_DELTA) for share in _SLACK_SHARES]
        return max(caps, key=lambda each: each.answers_left(charge))

    @property
    def promise(self) -> tuple[int | None, int | None]:
        """The epsilon and delta of everything charged together."""
        return self.epsilon, self.delta

    @property
    def budget(self) -> Budget:
        """The promise as a budget."""
        return Budget(
            units_to_float(self.epsilon or 0, EPSILON_UNITS),
            units_to_float(self.delta or 0, DELTA_UNITS),
        )

    @property
    def filter(self) -> Filter:
        """The cap in real numbers, for computing totals."""
        epsilon, delta = self.budget.epsilon, self.budget.delta
        if self.method is Method.BASIC:
            return Filter(epsilon, delta, delta)
        parts = (
            units_to_float(part, DELTA_UNITS) for part in (self.slack, self.totals)
        )
        return Filter(epsilon, delta, *parts)

    @property
    def exhausted(self) -> Spend:
        """The spend at which nothing is left."""
        return Spend(*(0 if limit == MAX_UNITS else limit for limit in self.limits))

    def allows(self, spent: Spend) -> bool:
        """Return whether this total may be spent."""
        epsilon, delta, rho, answers = self.limits
        if spent.delta > delta or spent.answers > answers:
            return False
        if self.method is Method.EITHER:
            return spent.epsilon <= epsilon or spent.rho <= rho
        return spent.epsilon <= epsilon and spent.rho <= rho

    def answers_left(self, charge: Charge, spent: Spend = NO_SPEND) -> int:
        """Return how many answers at this charge fit on top of what is spent."""
        cost = self.cost(charge, 1)
        fits = [
            (limit - used) // price if price else MAX_UNITS if used <= limit else 0
            for price, limit, used in zip(cost, self.limits, spent, strict=True)
        ]
        if self.method is Method.EITHER:
            if not self.allows(self.after(spent, cost)):
                return 0
            fits[0] = fits[2] = max(fits[0], fits[2])
        return max(0, min(fits))

    def cost(self, charge: Charge, answers: int) -> Spend:
        """Return what `answers` answers cost an account with this cap."""
        if charge.relation != self.relation:
            raise RelationMismatchError(
                f"an account under the relation {self.relation!r} cannot count a "
                f"charge under {charge.relation!r}; open one for that relation."
            )
        epsilon, delta, rho = charge.epsilon, charge.delta, charge.rho
        if self.method is Method.EITHER:
            # A loss that one sum cannot count exceeds every limit on that sum.
            spend = Spend(
                MAX_UNITS if epsilon is None else epsilon * answers,
                delta * answers,
                MAX_UNITS if rho is None else rho * answers,
                answers,
            )
            return spend.counted()
        if self.method is Method.BASIC and epsilon is not None:
            return Spend(epsilon * answers, delta * answers, 0, answers)
        if self.method is Method.ZCDP and rho is not None:
            return Spend(0, delta * answers, rho * answers, answers)
        if self.method is Method.COUNT and charge.certificate == self.certificate:
            return Spend(answers=answers)
        raise InvalidParameterError(
            f"certificate={charge.certificate!r} cannot be counted by an account with "
            f"method={self.method.value!r}: basic needs an epsilon, zcdp a rho, and "
            "count the one certificate it was opened for."
        )

    def after(self, spent: Spend, cost: Spend) -> Spend:
        """Return what is spent after a cost; sums above `MAX_UNITS` are cut off."""
        total = spent.plus(cost)
        return total.counted() if self.method is Method.EITHER else total

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
        # The text of older caps must not change.
        if self.method is Method.EITHER or self.totals:
            data["totals"] = self.totals
        return json.dumps(data, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Cap:
        """Read what `to_json` wrote."""
        data: Mapping[str, Any] = json.loads(text)
        return cls(**{**data, "method": Method(data["method"])})


def _either(relation: str, epsilon: int, delta: int, slack: int, totals: int) -> Cap:
    parts = (units_to_float(part, DELTA_UNITS) for part in (delta, slack, totals))
    rho = Filter(units_to_float(epsilon, EPSILON_UNITS), *parts).rho
    # Below MAX_UNITS, which stands for a loss that could not be counted.
    most = MAX_UNITS - 1
    return Cap(
        method=Method.EITHER,
        relation=relation,
        epsilon=min(epsilon, most),
        delta=delta,
        slack=slack,
        rho=min(math.floor(exact(rho) * RHO_UNITS), most),
        totals=totals,
    )


def with_shares(cap: Cap, slack: Fraction, totals: Fraction) -> Cap:
    """Return a cap by `either` whose delta is split in these shares."""
    delta = cap.delta or 0
    kept = math.floor(delta * slack)
    shown = min(math.floor(delta * totals), delta - kept)
    return _either(cap.relation, cap.epsilon or 0, delta, kept, shown)


def _limits(cap: Cap) -> Spend:
    limited: dict[str, int | None] = {"answers": cap.answers}
    if cap.method is Method.BASIC:
        limited = {"epsilon": cap.epsilon, "delta": cap.delta}
    elif cap.method is Method.ZCDP:
        limited = {"rho": cap.rho, "delta": cap.slack}
    elif cap.method is Method.EITHER:
        limited = {"epsilon": cap.epsilon, "delta": cap.slack, "rho": cap.rho}
    everything = Spend(MAX_UNITS, MAX_UNITS, MAX_UNITS, MAX_UNITS)
    return everything._replace(**{k: v for k, v in limited.items() if v is not None})
