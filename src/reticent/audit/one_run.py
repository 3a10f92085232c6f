"""Lower bounds on epsilon from one run with many canaries, one coin each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from reticent._arrays import Bools
from reticent._numbers import (
    below_one,
    nonnegative,
    positive,
    probability,
    shown_down,
    whole,
)
from reticent._search import last_that_holds
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.mechanisms import RandomSource, SystemSource

# The bound is bisected to below 1e-6, and rounded down.
_LARGEST, _STRIDE, _HALVINGS = 64.0, 2.0**-4, 16


@dataclass(frozen=True)
class OneRun:
    """A statistical lower bound on epsilon from one run of a release."""

    #: With probability at least `confidence`, the release is not (epsilon', delta)-DP
    #: for any epsilon' below this.
    epsilon: float
    #: The slack that was allowed; one minus the level of the audit.
    delta: float
    confidence: float
    #: Numbers of coins thrown, of coins guessed, and of right guesses.
    canaries: int
    guesses: int
    correct: int

    def refutes(self, epsilon: float) -> bool:
        """Return whether a claim of this epsilon is refuted."""
        return self.epsilon > epsilon

    def __str__(self) -> str:
        return (
            f"epsilon >= {shown_down(self.epsilon)} at delta = {self.delta:g} with "
            f"confidence {self.confidence:g}, from one run: {self.correct} of "
            f"{self.guesses} guesses right, {self.canaries} canaries"
        )


def one_run(
    release: Callable[[Bools], Any],
    score: Callable[[Any], ArrayLike],
    canaries: int,
    *,
    guesses: int | None = None,
    confidence: float = 0.999,
    delta: float = 0.0,
    source: RandomSource | None = None,
) -> OneRun:
    """Lower-bound the epsilon of a release by running it once.

    Parameters
    ----------
    release : callable
        ``release(coins)`` runs it, with canary `i` in one of two states given by
        ``coins[i]``: one record or another (for replace-one), in or out (for
        add/remove).
    score : callable
        ``score(released)`` returns a number for each canary; larger means that its coin
        was more likely True.
    canaries : int
        Number of canaries, each a separate unit.
    guesses : int, default=None
        Number of coins to guess, those with the most extreme scores; None guesses all.
        Fixed in advance.
    confidence : float, default=0.999
        Probability that the bound is valid.
    delta : float, default=0.0
        Slack of the claim that is being tested.
    source : RandomSource, default=None
        The source of the coins.

    Guarantee
    ---------
    That of `one_run_p_value`, for every release and score.

    Examples
    --------
    >>> from reticent.mechanisms import flip_labels
    >>> source = SystemSource()
    >>> found = one_run(
    ...     lambda coins: flip_labels(coins.astype(int), 0.1, source),
    ...     lambda answers: answers,
    ...     canaries=2000,
    ... )
    >>> 1.0 < found.epsilon < 3.0  # the truth is ln 9 = 2.197
    True

    References
    ----------
    :cite:`SteinkeNasrJagielski2023`.
    """
    canaries = whole("one_run", "canaries", canaries)
    count = canaries if guesses is None else whole("one_run", "guesses", guesses)
    if not count <= canaries:
        raise InvalidParameterError(
            f"guesses={count} must not exceed canaries={canaries}."
        )
    source = SystemSource() if source is None else source
    coins = source.words(canaries) >> np.uint64(63) == 1
    scores = np.asarray(score(release(coins)), dtype=np.float64)
    if scores.shape != (canaries,) or not np.isfinite(scores).all():
        raise InvalidDataError(
            f"score must return one finite number for each of {canaries} canaries."
        )
    # The upper half of the guesses say True, the lower half False.
    order = np.argsort(scores, kind="stable")
    lower = order[: count // 2]
    upper = order[canaries - (count - count // 2) :]
    correct = int((~coins[lower]).sum() + coins[upper].sum())
    epsilon = epsilon_of_guesses(
        correct, count, canaries=canaries, confidence=confidence, delta=delta
    )
    return OneRun(epsilon, float(delta), float(confidence), canaries, count, correct)


def one_run_p_value(
    correct: int, guesses: int, *, canaries: int, epsilon: float, delta: float = 0.0
) -> float:
    r"""Return a bound on the probability of this many right guesses about one run.

    Parameters
    ----------
    correct, guesses : int
        Number of right guesses among `guesses` coins; `guesses` is fixed in advance.
    canaries : int
        Number of coins.
    epsilon, delta : float
        The claim about the release.

    Guarantee
    ---------
    Valid for every (epsilon, delta)-DP release. *Proof for delta = 0.* Given what was
    released and all other coins, a fair coin's posterior odds are within
    :math:`e^{\pm\varepsilon}`; so, coin after coin, a guess is right with probability
    at most :math:`q = e^\varepsilon/(1+e^\varepsilon)` whatever happened before, and
    the right guesses are below a binomial variable `W`. A delta adds at most
    :math:`2 m \delta \max_i \Pr[v > W \ge v - i]/i` for `m` coins and `v` right
    guesses: :cite:`SteinkeNasrJagielski2023`, Thm. 5.2.
    """
    guesses = whole("one_run_p_value", "guesses", guesses)
    correct = whole("one_run_p_value", "correct", correct, least=0)
    canaries = whole("one_run_p_value", "canaries", canaries)
    epsilon = nonnegative("one_run_p_value", "epsilon", epsilon)
    delta = below_one("one_run_p_value", "delta", delta)
    if not correct <= guesses <= canaries:
        raise InvalidParameterError(
            f"correct={correct} of guesses={guesses} of canaries={canaries} must not "
            "exceed one another."
        )
    chance = 1 / (1 + math.exp(-epsilon))
    tail = float(stats.binom.sf(correct - 1, guesses, chance))
    if delta == 0 or correct == 0:
        return min(1.0, tail)
    below = np.cumsum(stats.binom.pmf(np.arange(correct - 1, -1, -1), guesses, chance))
    steepest = float((below / np.arange(1, correct + 1)).max())
    return min(1.0, tail + 2 * canaries * delta * steepest)


def epsilon_of_guesses(
    correct: int,
    guesses: int,
    *,
    canaries: int | None = None,
    confidence: float = 0.999,
    delta: float = 0.0,
) -> float:
    """Return the lower bound on epsilon that a number of right guesses gives.

    Parameters
    ----------
    correct, guesses, delta
        As for `one_run_p_value`.
    canaries : int, default=None
        Number of coins; None is the number of guesses.
    confidence : float, default=0.999
        Probability that the bound is valid.
    """
    level = 1 - probability("epsilon_of_guesses", "confidence", confidence)
    coins = guesses if canaries is None else canaries

    def refuted(epsilon: float) -> bool:
        value = one_run_p_value(
            correct, guesses, canaries=coins, epsilon=epsilon, delta=delta
        )
        return value <= level

    if not refuted(0.0):
        return 0.0
    # The bound is valid only if every smaller claim is refuted too, so this looks for
    # the first claim that stands.
    low, high = 0.0, _STRIDE
    while high < _LARGEST and refuted(high):
        low, high = high, high + _STRIDE
    return last_that_holds(refuted, low, high, halvings=_HALVINGS)


def canaries_needed(
    claimed: float, actual: float, *, confidence: float = 0.999, power: float = 0.95
) -> int:
    """Return how many guesses refute `claimed` when each is as good as `actual` allows.

    Plant twice as many canaries. Half of the guesses are True and half False; among
    only as many canaries as guesses one of the two could be too rare, and the remaining
    guesses would be worse.

    Examples
    --------
    >>> canaries_needed(1.0, 2.0) < canaries_needed(1.0, 1.5)
    True
    """
    claimed = nonnegative("canaries_needed", "claimed", claimed)
    actual = positive("canaries_needed", "actual", actual)
    miss = 1 - probability("canaries_needed", "power", power)
    if not actual > claimed:
        raise InvalidParameterError(
            f"actual={actual!r} must be above claimed={claimed!r}; a true claim cannot "
            "be refuted."
        )
    chance = 1 / (1 + math.exp(-actual))
    level = 1 - probability("canaries_needed", "confidence", confidence)
    guesses = 16
    while guesses < 10**9:
        correct = int(stats.binom.ppf(miss, guesses, chance))
        value = one_run_p_value(correct, guesses, canaries=guesses, epsilon=claimed)
        if value <= level:
            return guesses
        guesses = guesses * 9 // 8 + 1
    raise InvalidParameterError("no reasonable number of canaries refutes this claim.")
