r"""Caps that many models share, and totals that hold at every moment (G22).

**A cap counts two ways at once.** Charges `(epsilon_t, delta_t, rho_t)` are chosen one
after the other, each after seeing all earlier answers. A step keeps its charge if,
outside one event of probability `delta_t`, it is both `epsilon_t`-DP and
`rho_t`-zCDP. A charge is admitted as long as the sum of deltas stays within `slack`,
and

- (a) the sum of epsilons stays within `E`, *or*
- (b) the sum of rhos stays within `R`, where R-zCDP is `(E, conversion)`-DP.

*Then all answers together are* `(E, slack + conversion)`-*DP.* Proof. Let `P` and `Q`
be the laws of the transcript for two neighbours, and `P0`, `Q0` the parts of them on
which no exceptional event happened; `P` has mass at most `slack` outside `P0`, because
the sum of deltas never exceeds it, and `Q >= Q0`. Sums only grow, so a transcript that
satisfies (a) in the end satisfied it throughout: there `P0 <= e^E Q0`, point by point.
All others satisfy (b) in the end, hence throughout: on them `P0` and `Q0` are, up to
one factor of at most 1, those of the process that a filter on rhos stops, which is
R-zCDP (WhitehouseEtAl2023). So ``P0(W) - e^E Q0(W) <= conversion`` for every set `W` of
them. Adding up, ``P(W) <= e^E Q(W) + slack + conversion`` for every `W`.

The split of delta is fixed in advance. A split that gives what is left of delta to the
conversion after seeing answers would not be a filter.

**A total in between.** The cost `epsilon(k)` of k answers, with k fixed in advance,
says nothing about a k that was chosen by looking at answers: an analyst who stops at
the worst moment exceeds it far more often than `delta`. Three totals hold at every
stopping time:

- the sum of epsilons, which bounds the loss of every transcript, if no step has a
  delta; with deltas, together with the whole `slack`;
- the cap itself;
- a *level*: for each number `r` of a fixed list, transcripts stopped while their rhos
  sum to at most `r` are transcripts of a filter at `r`. With `totals / len(LEVELS)` as
  the delta of each, all levels hold at once, so that the smallest level above what is
  spent may be stated after looking at answers.

With ``slack + conversion + totals <= delta`` these hold together: whatever rule says
when to stop, the transcripts whose printed epsilon is exceeded have an excess of at
most `delta` in total.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from reticent._numbers import (
    below_one,
    ceil_float,
    exact,
    nonnegative,
    positive,
)
from reticent.errors import RuleError
from reticent.guarantees.budget import Budget
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.compose import basic_composition
from reticent.guarantees.concentrated import rho_within, step_rho, zcdp_epsilon
from reticent.guarantees.convert import NEIGHBOURS, epsilon_delta
from reticent.guarantees.premises import answers_in, joined, own_slack
from reticent.guarantees.rule import Conclusion, rule
from reticent.guarantees.subject import Assumption
from reticent.guarantees.types import ZCDP, ApproxDP, BoundedRange, PureDP

#: Sums of rho for which a total holds even if chosen afterwards: 1e-6 to 4096.
LEVELS = tuple(2.0 ** (power / 4) for power in range(-80, 49))

#: Shares of a budget's delta that are set aside: for steps with a delta of their own,
#: and for totals in between. Together they cost less than one answer in a hundred.
SLACK_OF_DELTA = TOTALS_OF_DELTA = Fraction(1, 20)

OTHER_CHARGES = Assumption(
    "OTHER_CHARGES",
    "what else was charged to the account keeps the promise of its own certificate",
)

_AT_EVERY_MOMENT: dict[str, Any] = {
    "source": "RogersEtAl2016; WhitehouseEtAl2023; reticent.guarantees.totals",
    "takes": (PureDP, BoundedRange, ApproxDP, ZCDP),
    "gives": (PureDP, ApproxDP),
    "relations": NEIGHBOURS,
    "adaptivity": "fully adaptive",
}


# Caps are read, and totals worked out, far more often than caps change.
_rho_within = lru_cache(maxsize=1024)(rho_within)


@dataclass(frozen=True)
class Filter:
    """A cap that counts epsilons or rhos, whichever lasts longer."""

    #: What everything charged together satisfies.
    epsilon: float
    delta: float = 0.0
    slack: float = 0.0  #: the part of delta for steps that bring a delta of their own
    totals: float = 0.0  #: the part of delta for totals in between

    def __post_init__(self) -> None:
        positive("Filter", "epsilon", self.epsilon)
        for name in ("delta", "slack", "totals"):
            below_one("Filter", name, getattr(self, name))
        if self._left() < 0:
            raise RuleError(
                f"slack={self.slack!r} and totals={self.totals!r} are parts of "
                f"delta={self.delta!r} and exceed it together."
            )

    def _left(self) -> Fraction:
        return exact(self.delta) - exact(self.slack) - exact(self.totals)

    @cached_property
    def conversion(self) -> float:
        """The part of delta that the conversion from zCDP may use, rounded down."""
        left = self._left()
        return math.nextafter(float(left), 0.0) if left > 0 else 0.0

    @cached_property
    def rho(self) -> float:
        """The largest sum of rhos, rounded down."""
        conversion = self.conversion
        return _rho_within(self.epsilon, conversion) if conversion > 0 else 0.0

    def __str__(self) -> str:
        return str(Budget(self.epsilon, self.delta))


@dataclass(frozen=True)
class Others:
    """Sums of charges whose certificates are not available."""

    #: Their sums; None where some charge has none.
    epsilon: float | None = 0.0
    delta: float = 0.0  #: sum of their deltas
    rho: float | None = 0.0
    answers: int = 0  #: how many there are


@dataclass(frozen=True)
class _Sums:
    """Exact sums over an account; None where some charge has no such number."""

    epsilon: Fraction | None
    delta: Fraction
    rho: Fraction | None


def _sums(
    premises: Sequence[Certificate[Any]], counts: Sequence[int], others: Others
) -> _Sums:
    steps = list(zip([p.guarantee for p in premises], counts, strict=True))
    known = not any(isinstance(step, ZCDP) for step, _ in steps)
    epsilon = rho = None
    if known and others.epsilon is not None:
        own = sum(exact(epsilon_delta(step)[0]) * times for step, times in steps)
        epsilon = own + exact(others.epsilon)
    if others.rho is not None:
        own = sum(exact(step_rho(step)) * times for step, times in steps)
        rho = own + exact(others.rho)
    return _Sums(epsilon, own_slack(premises, counts) + exact(others.delta), rho)


def _others(
    epsilon: float | None, delta: float, rho: float | None, answers: int
) -> Others:
    for name, value in (("epsilon", epsilon), ("delta", delta), ("rho", rho)):
        if value is not None:
            nonnegative("rule G22", f"other_{name}", value)
    return Others(epsilon, delta, rho, answers)


def _about(
    rule_id: str,
    premises: Sequence[Certificate[Any]],
    counts: Sequence[int],
    others: Others,
    answers: int | None,
) -> tuple[_Sums, Any, Any, frozenset[Assumption]]:
    """Check what belongs together; return sums, relation, scope and assumptions."""
    alone = others == Others()
    checked = answers if alone else None
    numbers, relation, scope = joined(rule_id, premises, counts, checked)
    assumed = frozenset() if alone else frozenset({OTHER_CHARGES})
    return _sums(premises, numbers, others), relation, scope, assumed


@rule(
    "G22-filter",
    name="a cap that holds at every moment",
    statement="sums of epsilon or of rho within the cap, whichever lasts longer",
    **_AT_EVERY_MOMENT,
)
def within_filter(
    *premises: Certificate[Any],
    counts: Sequence[int],
    epsilon: float,
    delta: float = 0.0,
    slack: float = 0.0,
    totals: float = 0.0,
    answers: int | None = None,
    other_epsilon: float | None = 0.0,
    other_delta: float = 0.0,
    other_rho: float | None = 0.0,
    other_answers: int = 0,
) -> Conclusion[Any]:
    """Conclude the cap's own promise from charges that it admitted."""
    cap = Filter(epsilon, delta, slack, totals)
    others = _others(other_epsilon, other_delta, other_rho, other_answers)
    sums, relation, scope, assumed = _about(
        "G22-filter", premises, counts, others, answers
    )
    pure = sums.epsilon is not None and sums.epsilon <= exact(cap.epsilon)
    concentrated = sums.rho is not None and sums.rho <= exact(cap.rho)
    if sums.delta > exact(cap.slack) or not (pure or concentrated):
        raise RuleError(f"rule G22-filter needs charges within {cap}; got more.")
    promise: Any = PureDP(epsilon) if delta == 0 else ApproxDP(epsilon, delta)
    return Conclusion(promise, relation, scope, assumed)


@rule(
    "G22-odometer",
    name="a total that holds at every moment",
    statement="the sum of epsilons, or the next level above the sum of rhos",
    **_AT_EVERY_MOMENT,
)
def running_total(
    *premises: Certificate[Any],
    counts: Sequence[int],
    delta: float = 0.0,
    slack: float = 0.0,
    totals: float = 0.0,
    answers: int | None = None,
    other_epsilon: float | None = 0.0,
    other_delta: float = 0.0,
    other_rho: float | None = 0.0,
    other_answers: int = 0,
) -> Conclusion[Any]:
    """Conclude a total that holds even if the moment was chosen by seeing answers."""
    cap = Filter(1.0, delta, slack, totals)
    others = _others(other_epsilon, other_delta, other_rho, other_answers)
    sums, relation, scope, assumed = _about(
        "G22-odometer", premises, counts, others, answers
    )
    if sums.delta > exact(cap.slack):
        raise RuleError(
            f"rule G22-odometer needs steps with deltas of at most slack={slack!r}; "
            f"got {float(sums.delta):.3g}."
        )
    level = None if sums.rho is None else level_epsilon(sums.rho, totals)
    if sums.epsilon is not None and (level is None or sums.epsilon <= exact(level)):
        added = ceil_float(sums.epsilon)
        total: Any = ApproxDP(added, delta) if sums.delta > 0 else PureDP(added)
        return Conclusion(total, relation, scope, assumed)
    if level is None:
        raise RuleError(
            "rule G22-odometer has no total for these charges: some have no epsilon, "
            f"and no level above their rhos is paid for by totals={totals!r}."
        )
    return Conclusion(ApproxDP(level, delta), relation, scope, assumed)


def level_epsilon(rho: Fraction, totals: float) -> float | None:
    """Return the epsilon of the next level; None without one that `totals` pays for."""
    place = bisect_left(LEVELS, rho)
    share = totals / len(LEVELS)
    if place == len(LEVELS) or not share > 0:
        return None
    return zcdp_epsilon(LEVELS[place], share)


def spent_total(
    tally: Mapping[Certificate[Any], int],
    cap: Filter,
    others: Others | None = None,
) -> Certificate[Any]:
    """Return the smallest total that holds at every moment.

    Parameters
    ----------
    tally : mapping of Certificate to int
        What was charged, and how often; at least one.
    cap : Filter
        What admitted the charges.
    others : Others, default=None
        Charges whose certificates are not available.

    Returns
    -------
    Certificate
        Its `rule` says which total it is: "G22-basic", the sum of epsilons;
        "G22-odometer", a level; "G22-filter", the cap itself.
    """
    premises, counts = tuple(tally), tuple(tally.values())
    rest = Others() if others is None else others
    answers = answers_in(premises, counts)
    known: dict[str, Any] = {
        "counts": counts,
        "answers": None if answers is None else answers + rest.answers,
        "delta": cap.delta,
        "slack": cap.slack,
        "totals": cap.totals,
        "other_epsilon": rest.epsilon,
        "other_delta": rest.delta,
        "other_rho": rest.rho,
        "other_answers": rest.answers,
    }
    found = _totals(premises, cap, known)
    if not found:  # the cap was lowered below what is spent
        wide = _widened(cap, _sums(premises, counts, rest))
        known.update(delta=wide.delta, slack=wide.slack, totals=wide.totals)
        found = [running_total(*premises, **known)]
    best = min(
        found, key=lambda c: (c.guarantee.epsilon, type(c.guarantee) is ApproxDP)
    )
    if (
        isinstance(best.guarantee, PureDP)
        and rest == Others()
        and best.rule != "G22-filter"
    ):
        return basic_composition(*premises, counts=counts, answers=answers)
    return best


def whole_cap(
    certificate: Certificate[Any], cap: Filter, times: int, answers: int | None = None
) -> Certificate[Any]:
    """Return what a cap promises for some charges and for all else that it admits.

    Parameters
    ----------
    certificate : Certificate
        What each of these charges is.
    cap : Filter
        What admits charges; it refuses these, with a `RuleError`, if they never fit.
    times : int
        How many of these charges there may be.
    answers : int or None, default=None
        How many answers there may be in all, if that is known.
    """
    sums = _sums((certificate,), (times,), Others())
    pure = sums.epsilon is not None and sums.epsilon <= exact(cap.epsilon)
    return within_filter(
        certificate,
        counts=(times,),
        epsilon=cap.epsilon,
        delta=cap.delta,
        slack=cap.slack,
        totals=cap.totals,
        answers=answers,
        # As large as the cap lets them be, so that it holds whatever they are.
        other_epsilon=_left(cap.epsilon, sums.epsilon) if pure else None,
        other_delta=_left(cap.slack, sums.delta),
        other_rho=None if pure else _left(cap.rho, sums.rho),
        other_answers=0 if answers is None else answers - times,
    )


def _left(limit: float, spent: Fraction | None) -> float:
    """Return what is left of a limit, rounded down; 0 if nothing is."""
    left = exact(limit) - (spent or 0)
    return math.nextafter(float(left), 0.0) if left > 0 else 0.0


def _totals(
    premises: Sequence[Certificate[Any]], cap: Filter, known: Mapping[str, Any]
) -> list[Certificate[Any]]:
    found: list[Certificate[Any]] = []
    with suppress(RuleError):
        found.append(running_total(*premises, **known))
    with suppress(RuleError):
        found.append(within_filter(*premises, epsilon=cap.epsilon, **known))
    return found


def _widened(cap: Filter, sums: _Sums) -> Filter:
    """Return a cap with room for these deltas and for a total."""
    totals, slack = cap.totals or cap.delta, ceil_float(sums.delta)
    return Filter(cap.epsilon, ceil_float(exact(slack) + exact(totals)), slack, totals)
