"""What a promise means to one person: how often a guess about them can be right."""

from __future__ import annotations

import math
from typing import Any

from reticent._numbers import down, up
from reticent.errors import RuleError
from reticent.guarantees.budget import Budget
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.stated import stated
from reticent.guarantees.subject import ReplaceOne
from reticent.guarantees.types import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    GaussianDP,
    Guarantee,
    PureDP,
)


def best_guess(promise: Guarantee | Budget | Certificate[Any]) -> float:
    """Return how often a guess between two equally likely neighbours can be right.

    Parameters
    ----------
    promise : Guarantee, Budget or Certificate
        What bounds the privacy loss.

    Guarantee
    ---------
    The number is at least the success probability of every rule that sees what was
    released and says which of two neighbouring datasets it came from, if both are
    equally likely before. That probability is ``(1 + TV) / 2``, with the total
    variation distance TV of the two laws. Under ``(epsilon, delta)``-DP every event
    has ``P(E) <= e^epsilon Q(E) + delta``, for the complement with P and Q exchanged;
    the sum of both gives ``TV <= (e^epsilon - 1 + 2 delta) / (e^epsilon + 1)``. A
    log-ratio within a range of `epsilon` has the largest TV if the range is centred:
    ``tanh(epsilon / 4)``. Under rho-zCDP the Kullback-Leibler divergence is at most
    rho, so ``TV <= sqrt(rho / 2)`` (Pinsker) and ``TV <= sqrt(1 - e^-rho)``
    (Bretagnolle and Huber). Under mu-GDP a guess is right with ``Phi(mu / 2)`` at most,
    by definition. All numbers are rounded up.

    Examples
    --------
    >>> round(best_guess(Budget(epsilon=0.25)), 3)
    0.562
    """
    if isinstance(promise, Certificate):
        promise = promise.guarantee
    if isinstance(promise, BoundedRange):
        return _guess(up(math.tanh(up(promise.epsilon / 4))))
    if isinstance(promise, ZCDP):
        rho = promise.rho
        pinsker, huber = math.sqrt(up(rho / 2)), math.sqrt(up(-math.expm1(-up(rho))))
        return _guess(up(min(pinsker, huber)))
    if isinstance(promise, GaussianDP):
        return min(1.0, up(math.erfc(-up(promise.mu / math.sqrt(8))) / 2))
    if isinstance(promise, (Budget, PureDP, ApproxDP)):
        odds = math.exp(-min(promise.epsilon, 700.0))
        slack = getattr(promise, "delta", 0.0)
        # TV = (1 - e^-epsilon + 2 delta e^-epsilon) / (1 + e^-epsilon)
        gain = up(up(1 - down(odds)) + up(2 * slack * odds))
        return _guess(up(gain / down(1 + down(odds))))
    raise RuleError(
        f"{promise} does not bound what can be guessed about one unit; give a privacy "
        "guarantee."
    )


def _guess(distance: float) -> float:
    return min(1.0, up((1 + distance) / 2))


def in_plain_words(
    promise: Guarantee | Budget | Certificate[Any],
    *,
    about: str = "one unit",
    delta: float = 0.0,
    relation: str = ReplaceOne.name,
) -> str:
    """Say epsilon and delta, and in one sentence what they mean to one person.

    Parameters
    ----------
    promise : Guarantee, Budget or Certificate
        What bounds the privacy loss.
    about : str, default="one unit"
        Who or what is protected, such as "one person" where the schema names the
        person of each row, or "one row" where it does not.
    delta : float, default=0.0
        The delta where the promise leaves the choice, see `stated`.
    relation : str, default="replace-one"
        As for `guess_in_words`.

    Guarantee
    ---------
    Those of `stated` and of `best_guess`, whose number is rounded up to a whole one.

    Examples
    --------
    >>> print(in_plain_words(Budget(epsilon=0.2), about="one person"))
    ε = 0.2. Whoever knows everything about everyone else, and has to choose between \
two equally likely facts about one person, guesses right at most 55 times in 100. A \
coin is right 50 times.
    """
    # Refuses what is not privacy.
    sentence = guess_in_words(promise, about=about, relation=relation)
    return f"{stated(promise, delta=delta)}. {sentence}"


def guess_in_words(
    promise: Guarantee | Budget | Certificate[Any],
    *,
    about: str = "one unit",
    relation: str = ReplaceOne.name,
) -> str:
    """Say in one sentence what a promise means to those whom it protects.

    Two facts about a unit are two datasets in which it is replaced. If a unit is left
    out of one dataset instead, the promise is about whether it contributed: two facts
    about it are further apart than that.

    Parameters
    ----------
    promise : Guarantee, Budget or Certificate
        What bounds the privacy loss.
    about : str, default="one unit"
        Who or what is protected.
    relation : str, default="replace-one"
        The relation of a promise that does not name its own, as accounts have it.
    """
    name, _, several = relation.partition("/")
    group = int(several) if several.isdecimal() else 1
    if isinstance(promise, Certificate):
        name, group = promise.relation.name, getattr(promise.relation, "group", 1)
    if group > 1:
        about = f"{group} units together"
    times = math.ceil(up(100 * best_guess(promise)))
    task = f"choose between two equally likely facts about {about}"
    if name != ReplaceOne.name:
        task = f"say whether {about} contributed at all, both equally likely"
    who = f"Whoever knows everything about everyone else, and has to {task},"
    if times >= 100:
        return (
            f"{who} may guess right more than 99 times in 100: this limit alone "
            "protects hardly anything."
        )
    return (
        f"{who} guesses right at most {times} times in 100. A coin is right 50 times."
    )
