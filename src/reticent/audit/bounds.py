"""Lower bounds on epsilon from samples of a black box."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from reticent._arrays import Floats
from reticent._numbers import (
    below_one,
    nonnegative,
    positive,
    probability,
    shown_down,
    whole,
)
from reticent.errors import InvalidParameterError


@dataclass(frozen=True)
class LowerBound:
    """A statistical lower bound on the privacy loss of one pair of datasets."""

    #: With probability at least `confidence`, the mechanism is not (epsilon', delta)-DP
    #: for any epsilon' below this.
    epsilon: float
    delta: float  #: the slack that was allowed
    confidence: float  #: one minus the level of the audit
    trials: int  #: samples from each of the two datasets, selection included
    #: The outcomes whose probability differs most, chosen on held-out samples.
    event: tuple[Any, ...]
    #: The largest bound that these samples could have given, if every outcome that
    #: occurred again had been impossible for the other dataset. No claim of this
    #: epsilon or more could have been refuted.
    ceiling: float

    @property
    def powerless(self) -> bool:
        """Whether these samples could not have refuted any claim."""
        return not self.ceiling > 0

    def refutes(self, epsilon: float) -> bool:
        """Return whether a claim of this epsilon is refuted."""
        return self.epsilon > epsilon

    def __str__(self) -> str:
        samples = f"2 x {self.trials} samples at delta = {self.delta:g}"
        if self.powerless:
            return (
                f"nothing can be said about epsilon from {samples}: hardly any outcome "
                "occurred twice, so no probability can be estimated. Sort outcomes "
                "into public bins, or draw more samples"
            )
        if not self.epsilon > 0:
            return (
                f"no loss was found in {samples}; with confidence "
                f"{self.confidence:g}, no more than epsilon = {self.ceiling:.4g} could "
                "have been shown"
            )
        return (
            f"epsilon >= {shown_down(self.epsilon)} at delta = {self.delta:g} with "
            f"confidence {self.confidence:g}, from 2 x {self.trials} samples"
        )


def lower_bound(
    mechanism: Callable[[Any], Hashable],
    data: Any,
    neighbour: Any,
    *,
    trials: int = 20_000,
    confidence: float = 0.999,
    delta: float = 0.0,
    held_out: float = 0.3,
) -> LowerBound:
    """Lower-bound epsilon by sampling a mechanism on two neighbouring datasets.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(dataset)`` runs it once, with new randomness, and returns a hashable
        outcome.
    data, neighbour : object
        Two datasets that differ by one unit.
    trials : int, default=20000
        Samples from each dataset.
    confidence : float, default=0.999
        Probability that the bound is valid.
    delta : float, default=0.0
        Slack of the claim that is being tested.
    held_out : float, default=0.3
        Share of the samples that only choose the event; using the same samples to
        choose and to test would not be sound.

    Guarantee
    ---------
    Sound for every mechanism: the event is chosen on held-out samples, its two
    probabilities are bounded by Clopper-Pearson at half the level each, and
    ``P(E) <= e^epsilon Q(E) + delta`` is solved for epsilon. Rounded down, never
    negative. A bound of 0 is not evidence of privacy: `ceiling` says what could have
    been found, and is 0 if all outcomes differ.

    Examples
    --------
    >>> import random
    >>> coin = random.Random(0)
    >>> flip = lambda bit: bit ^ (coin.random() < 0.1)
    >>> found = lower_bound(flip, 0, 1, trials=4000)
    >>> 1.8 < found.epsilon < 2.2  # the truth is ln 9 = 2.197
    True
    """
    trials = whole("lower_bound", "trials", trials, least=10)
    confidence = probability("lower_bound", "confidence", confidence)
    delta = below_one("lower_bound", "delta", delta)
    first = round(trials * probability("lower_bound", "held_out", held_out))
    if not 1 <= first < trials:
        raise InvalidParameterError(
            f"held_out={held_out!r} of trials={trials} must leave some for both."
        )
    here = [mechanism(data) for _ in range(trials)]
    there = [mechanism(neighbour) for _ in range(trials)]
    # Two directions are tried, each at half of the level.
    level = (1 - confidence) / 2
    held = {*here[:first], *there[:first]}
    again = max(
        sum(outcome in held for outcome in sample[first:]) for sample in (here, there)
    )
    ceiling = epsilon_at_least(again, 0, trials - first, level=level, delta=delta)
    best = LowerBound(0.0, delta, confidence, trials, (), ceiling)
    for left, right in ((here, there), (there, here)):
        event = _best_event(left[:first], right[:first], delta)
        if not event:
            continue
        hits = sum(outcome in event for outcome in left[first:])
        other = sum(outcome in event for outcome in right[first:])
        epsilon = epsilon_at_least(
            hits, other, trials - first, level=level, delta=delta
        )
        if epsilon > best.epsilon:
            shown = tuple(sorted(event, key=repr))[:20]
            best = LowerBound(epsilon, delta, confidence, trials, shown, ceiling)
    return best


def epsilon_at_least(
    hits: int, others: int, trials: int, *, level: float, delta: float = 0.0
) -> float:
    """Return a lower bound on epsilon from counts of one event under two datasets.

    Parameters
    ----------
    hits, others : int
        How often the event occurred in `trials` samples from each dataset.
    level : float
        Probability that the bound may be wrong.
    delta : float, default=0.0
        Slack of the claim.

    Guarantee
    ---------
    Valid with probability ``1 - level`` for an event fixed in advance.
    """
    half = level / 2
    low = float(stats.beta.ppf(half, hits, trials - hits + 1)) if hits else 0.0
    high = (
        float(stats.beta.ppf(1 - half, others + 1, trials - others))
        if others < trials
        else 1.0
    )
    if not low > delta:
        return 0.0
    return max(0.0, math.log((low - delta) / high) * (1 - 1e-12))


def trials_needed(
    claimed: float,
    actual: float,
    *,
    confidence: float = 0.999,
    power: float = 0.95,
    rate: float = 0.1,
) -> int:
    """Return how many samples refute `claimed` when the truth is `actual`.

    Assumes an event of probability `rate` under one dataset and ``rate e^{-actual}``
    under the other. Use it to plan an audit before running it.
    """
    claimed = nonnegative("trials_needed", "claimed", claimed)
    actual = positive("trials_needed", "actual", actual)
    if not actual > claimed:
        raise InvalidParameterError(
            f"actual={actual!r} must be above claimed={claimed!r}; a true claim cannot "
            "be refuted."
        )
    level = (1 - probability("trials_needed", "confidence", confidence)) / 2
    miss = (1 - probability("trials_needed", "power", power)) / 2
    small = rate * math.exp(-actual)
    trials = 32
    while trials < 10**12:
        hits = int(stats.binom.ppf(miss, trials, rate))
        others = int(stats.binom.ppf(1 - miss, trials, small))
        if epsilon_at_least(hits, others, trials, level=level) > claimed:
            return math.ceil(trials / 0.7)  # adds the held-out share
        trials = trials * 5 // 4
    raise InvalidParameterError("no reasonable number of samples refutes this claim.")


def _best_event(
    left: list[Hashable], right: list[Hashable], delta: float
) -> frozenset[Hashable]:
    """Choose the outcomes that most favour left over right on held-out samples."""
    outcomes = sorted(set(left) | set(right), key=repr)
    place = {outcome: i for i, outcome in enumerate(outcomes)}
    counts = np.zeros((2, len(outcomes)))
    for side, sample in enumerate((left, right)):
        for outcome in sample:
            counts[side, place[outcome]] += 1
    # Smoothed, so that an outcome seen once does not look impossible on the other side.
    lean = np.log(counts[0] + 0.5) - np.log(counts[1] + 0.5)
    order = np.argsort(-lean, kind="stable")
    scores = _prefix_scores(counts[:, order], delta)
    best = int(np.argmax(scores))
    if not scores[best] > 0:
        return frozenset()
    return frozenset(outcomes[i] for i in order[: best + 1])


def _prefix_scores(counts: Floats, delta: float) -> Floats:
    """Return, for each prefix of outcomes, the epsilon that its counts suggest."""
    total = counts.sum(axis=1)
    sums = np.cumsum(counts, axis=1)
    # A crude lower and upper bound is enough to choose; the test itself is exact.
    low = sums[0] - 2 * np.sqrt(sums[0] + 1)
    high = sums[1] + 2 * np.sqrt(sums[1] + 1)
    kept = np.maximum(low / total[0] - delta, 1e-12)
    return np.asarray(np.log(kept) - np.log(high / total[1]))
