"""What the premises of a composition have in common (G22)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from reticent._numbers import exact, probability, whole
from reticent.errors import RelationMismatchError, RuleError
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.subject import Scope
from reticent.guarantees.types import ApproxDP


def joined(
    rule_id: str,
    premises: Sequence[Certificate[Any]],
    counts: Sequence[int],
    answers: int | None,
) -> tuple[list[int], Any, Scope]:
    """Check that premises belong together; return counts, relation and scope."""
    if not premises:
        raise RuleError(f"rule {rule_id} needs at least one certificate; got none.")
    if len(counts) != len(premises):
        raise RuleError(
            f"rule {rule_id} needs one count per premise; got {len(counts)} counts "
            f"for {len(premises)} premises."
        )
    first = premises[0].relation
    for premise in premises[1:]:
        if premise.relation != first:
            raise RelationMismatchError(
                f"rule {rule_id} needs one relation; got '{first}' and "
                f"'{premise.relation}'. Convert an add/remove certificate with "
                "to_replace_one(), or refit on the same units."
            )
    numbers = [whole(f"rule {rule_id}", "count", count) for count in counts]
    if answers is not None and answers != answers_in(premises, numbers):
        raise RuleError(
            f"rule {rule_id} needs answers={answers_in(premises, numbers)} for these "
            f"premises and counts; got answers={answers!r}."
        )
    return numbers, first, joint_scope(premises)


def joint_scope(premises: Sequence[Certificate[Any]]) -> Scope:
    """Return what several premises are about together.

    Models are a model, and anything else is answers. A choice of settings stays one:
    it says nothing about the answers that the chosen settings give.
    """
    scopes = {premise.scope for premise in premises}
    if Scope.CHOICE in scopes:
        return Scope.CHOICE
    return Scope.MODEL if scopes == {Scope.MODEL} else Scope.INTERFACE


def answers_in(
    premises: Sequence[Certificate[Any]], counts: Sequence[int]
) -> int | None:
    """Return the total number of answers, if every premise states its own."""
    covered = [each for p in premises if (each := p.answer_count()) is not None]
    if len(covered) < len(premises):
        return None
    return sum(each * count for each, count in zip(covered, counts, strict=True))


def own_slack(premises: Sequence[Certificate[Any]], counts: Sequence[int]) -> Fraction:
    """Sum the steps' own deltas."""
    return sum(
        (
            exact(premise.guarantee.delta) * count
            for premise, count in zip(premises, counts, strict=True)
            if isinstance(premise.guarantee, ApproxDP)
        ),
        Fraction(0),
    )


def delta_beyond(rule_id: str, delta: float, slack: Fraction) -> float:
    """Return how much of `delta` a method may use beyond the steps' own deltas."""
    target = exact(probability(f"rule {rule_id}", "delta", delta))
    if not slack < target:
        raise no_delta_left(rule_id, delta, slack)
    return math.nextafter(float(target - slack), 0.0)


def no_delta_left(rule_id: str, delta: float, slack: Fraction) -> RuleError:
    """Say that the steps' own deltas leave nothing of `delta`."""
    return RuleError(
        f"rule {rule_id} needs a delta above the {float(slack):.3g} that the steps "
        f"bring themselves; got delta={delta!r}."
    )
