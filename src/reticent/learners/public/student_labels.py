"""Private labels for public rows under one budget that is settled in advance (M6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from reticent._arrays import Ints
from reticent._numbers import whole
from reticent._search import doubled_until, last_that_holds
from reticent._sklearn import MatrixLike, safe_indexing
from reticent.errors import BudgetExhaustedError, InvalidParameterError, RuleError
from reticent.guarantees import (
    CLOSED_FORMS,
    QUICK_METHODS,
    ZCDP,
    BoundedRange,
    Budget,
    Certificate,
    PureDP,
    ReplaceOne,
    Scope,
    answers_within,
    claim,
    repeat,
    zcdp_composition,
)
from reticent.mechanisms import UNSTABLE, RandomSource
from reticent.prediction import (
    PrivateVotingClassifier,
    ShardConsensus,
    VoteRule,
    canonical_rows,
)

# Closed forms of composition: PLD is no better for the votes, and takes seconds.
# The soft rule is taken if it may spend this many times more on an answer.
_WORTH = 1.1


@dataclass(frozen=True)
class TeacherLabels:
    """The labels that a teacher gave to public rows, and what they cost."""

    rows: Ints  # places of the public rows that were answered
    labels: NDArray[Any]  # their private labels
    asked: int  # how many different rows were asked about; settled in advance
    # What all answers, and the lack of answers to the other rows, promise together.
    certificate: Certificate[Any]
    # The same as zCDP, if every answer is.
    concentrated: Certificate[ZCDP] | None = None


def distinct_rows(public: MatrixLike) -> Ints:
    """Return the place of the first of each set of equal rows, in order."""
    first: dict[bytes, int] = {}
    for place, key in enumerate(canonical_rows(public)):
        first.setdefault(key, place)
    return np.fromiter(first.values(), dtype=np.int64, count=len(first))


def asked_rows(public: MatrixLike, n_labels: Any) -> Ints:
    """Return the places of the different public rows that may be asked about."""
    rows = distinct_rows(public)
    if isinstance(n_labels, str) and n_labels == "all":
        return rows
    return rows[: whole("StudentClassifier", "n_labels", n_labels)]


def prepared_teacher(
    teacher: Any, budget: Budget, asked: int, n_classes: int, *, spread: bool
) -> Any:
    """Return a fresh teacher; with `spread`, one whose answers fill the budget.

    Only public quantities decide: the budget, the number of answers and of labels.
    """
    fresh = clone(teacher)
    if not spread:
        return fresh
    if "epsilon" not in fresh.get_params(deep=False):
        raise InvalidParameterError(
            f"teacher={type(teacher).__name__}(...) has no epsilon to spread the "
            "budget over. Set spread=False and the teacher's own parameters."
        )
    if not isinstance(fresh, PrivateVotingClassifier):
        epsilon = _largest(_one_pure_answer, budget, asked)
        return fresh.set_params(epsilon=epsilon)
    if fresh.rule == "gaussian" and fresh.delta == 0 and budget.delta > 0:
        fresh.set_params(delta=budget.delta)
    names: tuple[str, ...] = (fresh.rule,)
    if fresh.rule == "auto":
        names = ("geometric" if n_classes == 2 else "permute-and-flip", "soft")
    found = {
        name: _largest(_one_vote(fresh, name, n_classes), budget, asked)
        for name in names
    }
    chosen = names[0]
    if len(names) > 1 and found["soft"] > _WORTH * found[chosen]:
        chosen = "soft"
    return fresh.set_params(rule=chosen, epsilon=found[chosen])


def _one_pure_answer(epsilon: float) -> Certificate[Any]:
    return claim(
        PureDP(epsilon), ReplaceOne(1), Scope.ANSWER, statement="a pure answer"
    )


def _one_vote(
    teacher: PrivateVotingClassifier, name: str, n_classes: int
) -> Callable[[float], Certificate[Any]]:
    trial = clone(teacher).set_params(rule=name)

    def certify(epsilon: float) -> Certificate[Any]:
        rule = VoteRule.choose(trial.set_params(epsilon=epsilon), n_classes)
        return rule.certificate(1)

    return certify


def _largest(
    certify: Callable[[float], Certificate[Any]], budget: Budget, asked: int
) -> float:
    """Return the largest epsilon of one answer so that `asked` of them fit."""

    def fits(epsilon: float, methods: Sequence[str] = CLOSED_FORMS) -> bool:
        try:
            total = repeat(certify(epsilon), asked, delta=budget.delta, methods=methods)
        except RuleError:
            return False
        return budget.covers(total.guarantee)

    low, high = 0.0, 1.01 * budget.epsilon
    if fits(high):  # noise that is analysed for many answers at once
        _, high = doubled_until(lambda e: e >= 2.0**11 or not fits(e), 2 * high)
        low = high / 2
    largest = last_that_holds(fits, low, high, halvings=60)
    if largest > 0 and isinstance(certify(largest).guarantee, BoundedRange):
        # Value iteration allows a few percent more, and takes longer.
        largest = last_that_holds(
            lambda epsilon: fits(epsilon, QUICK_METHODS),
            largest,
            1.25 * largest,
            relative=1e-3,
        )
    if not largest > 0:
        raise BudgetExhaustedError(
            f"n_labels={asked} private labels do not fit into {budget}. Ask for fewer, "
            "or raise the budget."
        )
    return largest * (1 - 2.0**-40)


def separate_answers(
    teacher: Any, budget: Budget, public: MatrixLike, rows: Ints
) -> TeacherLabels:
    """Let a fitted teacher label rows, each paid for; as many as the budget covers."""
    certificate = getattr(teacher, "certificate_", None)
    if not isinstance(certificate, Certificate) or certificate.scope is not (
        Scope.ANSWER
    ):
        raise InvalidParameterError(
            f"teacher={type(teacher).__name__}(...) does not certify its answers; take "
            "a classifier of reticent.prediction."
        )
    count = min(len(rows), answers_within(certificate, budget))
    if count < 1:
        raise BudgetExhaustedError(
            f"one answer costs {certificate.guarantee}; {budget} covers none. Raise "
            "the budget, or let it be spread: spread=True."
        )
    total = repeat(certificate, count, delta=budget.delta, methods=QUICK_METHODS)
    asked = rows[:count]
    labels = teacher.predict(safe_indexing(public, asked))
    rho = None
    if isinstance(certificate.guarantee, (PureDP, BoundedRange, ZCDP)):
        rho = zcdp_composition(certificate, counts=[count], answers=count)
    return TeacherLabels(asked, np.asarray(labels), count, total, rho)


def consensus_answers(
    teacher: Any,
    budget: Budget,
    public: MatrixLike,
    rows: Ints,
    doubts: Any,
    source: RandomSource,
) -> TeacherLabels:
    """Let the shards of a fitted vote label the rows on which nearly all agree (P9).

    Rows in doubt get no label, and after `doubts` of them no row does. One price,
    fixed in advance, pays for all.
    """
    law = teacher.law_
    consensus = ShardConsensus(
        law,
        epsilon=budget.epsilon,
        delta=budget.delta,
        queries=len(rows),
        unstable=whole("StudentClassifier", "doubts", doubts),
        source=source,
    )
    places = consensus.places(law.votes(safe_indexing(public, rows)))
    sure = np.flatnonzero(places != UNSTABLE)
    labels = np.asarray(law.classes)[places[sure]]
    certificate = law.certified(consensus.certificate)
    return TeacherLabels(rows[sure], labels, len(rows), certificate)
