"""Accuracy, log loss, R2, AUC, confusion and calibration as private numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reticent._numbers import positive, probability
from reticent.errors import InvalidDataError
from reticent.estimators import (
    NO_BALLOT,
    Labels,
    UnitIds,
    check_bounds,
    unit_positions,
)
from reticent.evaluation.inputs import given_to_truth, paired
from reticent.evaluation.intervals import (
    count_interval,
    mean_interval,
    share_interval,
)
from reticent.evaluation.metric import PrivateMetric
from reticent.evaluation.sums import (
    UNIT_STEPS,
    NoisySums,
    in_steps,
    score_noise,
    unit_counts,
    unit_sums,
)
from reticent.guarantees import Certificate, Sensitivity
from reticent.mechanisms import RandomSource, noise_source

#: Called with the certificate before noise is drawn; it may refuse by raising.
Pay: TypeAlias = Callable[[Certificate[Any]], None]
Values: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """How to evaluate: price, confidence, who pays.

    Parameters
    ----------
    epsilon : float
        Privacy cost of the metric, for the units that are looked at.
    confidence : float, default=0.95 Of the interval.
    pay : callable or None, default=None
        Called with the certificate before any noise is drawn, so that a ledger can
        charge it or refuse.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Guarantee
    ---------
    Each metric is a function of sums or counts with discrete Laplace noise, which are
    `epsilon`-DP under replacement of one unit (rules E-sums, E-counts and G5). What a
    model says about a row must not depend on other units of the evaluated rows: a
    released model's answers do not; a predictor's answers are paid for on their own.
    Intervals assume that units are independent draws; the promise does not.
    """

    epsilon: float
    confidence: float = 0.95
    pay: Pay | None = None
    random_state: Any = None

    def __post_init__(self) -> None:
        positive("Evaluation", "epsilon", self.epsilon)
        probability("Evaluation", "confidence", self.confidence)

    def accuracy(
        self, truth: Any, answers: Any, *, units: UnitIds = None
    ) -> PrivateMetric:
        """Return the share of right answers.

        Parameters
        ----------
        truth, answers : array-like of shape (n_rows,)
            Labels.
        units : array-like of shape (n_rows,), default=None
            The unit of each row; every unit weighs the same.
        """
        truth, answers = paired(truth, answers)
        right = (truth == answers).astype(np.float64)
        if units is not None:
            return self._mean("accuracy", right, units, scale=1.0)
        n = len(right)
        source = noise_source(self.random_state)
        counted = np.array([int(right.sum())])
        sums = self._drawn(counted, unit_sums(n=n, steps=1), source)
        hits = float(sums.values[0])
        low, high = count_interval(hits, n, sums.noise.scale, 1 - self.confidence)
        value = min(max(hits / n, 0.0), 1.0)
        return self._metric("accuracy", value, low, high, n, sums)

    def log_loss(
        self,
        truth: Any,
        probabilities: Any,
        classes: Any,
        *,
        floor: float = 0.01,
        units: UnitIds = None,
    ) -> PrivateMetric:
        """Return the mean of ``-log`` of the right label's probability.

        Parameters
        ----------
        truth : array-like of shape (n_rows,)
            Labels.
        probabilities : array-like of shape (n_rows, n_classes)
            What the model says, in the order of `classes`.
        classes : array-like of shape (n_classes,)
            The public labels.
        floor : float, default=0.01
            Smaller probabilities count as this one: it bounds what a row can add.
        units : array-like of shape (n_rows,), default=None
            The unit of each row.
        """
        floor = probability("log_loss", "floor", floor)
        own = given_to_truth(truth, probabilities, classes)
        most = -math.log(floor)
        losses = -np.log(np.clip(own, floor, 1.0)) / most
        return self._mean("log loss", losses, units, scale=most)

    def r2(
        self, truth: Any, answers: Any, bounds: tuple[float, float]
    ) -> PrivateMetric:
        """Return R2: one minus the mean squared error over the variance.

        Parameters
        ----------
        truth, answers : array-like of shape (n_units,)
            Numbers, one row per unit; both are clipped to the bounds.
        bounds : (float, float)
            Public range of the targets.
        """
        truth, answers = paired(truth, answers)
        low, high = check_bounds(bounds)
        told, true = (
            (np.clip(np.nan_to_num(np.asarray(v, np.float64)), low, high) - low)
            / (high - low)
            for v in (answers, truth)
        )
        n = len(true)
        source = noise_source(self.random_state)
        pairs = _pairs(n, source)
        # Half the squared difference of two independent targets is their variance.
        apart = (true[pairs[:, 0]] - true[pairs[:, 1]]) ** 2
        totals = [
            int(in_steps((told - true) ** 2, None, n).sum()),
            int(in_steps(apart, None, len(pairs)).sum()),
        ]
        moved = unit_sums(n=n, steps=UNIT_STEPS, dimension=2)
        sums = self._drawn(np.array(totals), moved, source)
        error, twice = (float(value) / UNIT_STEPS for value in sums.values)
        m, scale = len(pairs), sums.noise.scale / UNIT_STEPS
        failure = (1 - self.confidence) / 2
        errors = _widened(mean_interval(error, n, scale, failure))
        spreads = _widened(mean_interval(twice, m, scale, failure))
        worst = 1 - errors[1] / (spreads[0] / 2) if spreads[0] > 0 else -math.inf
        best = 1 - errors[0] / (spreads[1] / 2)
        spread = max(twice / m / 2, _STEP)
        value = min(1.0, 1 - max(error / n, 0.0) / spread)
        return self._metric("R2", value, worst, best, n, sums)

    def auc(self, truth: Any, scores: Any, positive_label: Any) -> PrivateMetric:
        """Return the probability that a positive unit scores above a negative one.

        Units are paired at random. Of the pairs with one unit of each kind, the share
        in the right order is the metric; ties are settled by a coin.

        Parameters
        ----------
        truth, scores : array-like of shape (n_units,)
            Labels and scores, one row per unit.
        positive_label : object
            The label that large scores stand for.
        """
        truth, scores = paired(truth, scores)
        yes = truth == positive_label
        points = np.nan_to_num(np.asarray(scores, dtype=np.float64))
        n = len(yes)
        source = noise_source(self.random_state)
        pairs = _pairs(n, source)
        first, second = pairs[:, 0], pairs[:, 1]
        mixed = yes[first] != yes[second]
        above = np.where(yes[first], first, second)
        below = np.where(yes[first], second, first)
        coins = source.words(len(pairs)) & np.uint64(1)
        gap = points[above] - points[below]
        right = mixed & ((gap > 0) | ((gap == 0) & (coins == 1)))
        counts = np.array([int(right.sum()), int((mixed & ~right).sum())])
        sums = self._drawn(counts, unit_counts(n=n, dimension=2), source)
        value, low, high = self._share(sums, 0, 1, intervals=1)
        return self._metric("AUC", value, low, high, n, sums)

    def confusion(self, truth: Any, answers: Any, classes: Any) -> PrivateMetric:
        """Return the share of units with each label (row) and answer (column).

        Parameters
        ----------
        truth, answers : array-like of shape (n_units,)
            Labels, one row per unit; units with other labels are not counted.
        classes : array-like of shape (n_classes,)
            The public labels, each once.
        """
        truth, answers = paired(truth, answers)
        labels = Labels(classes)
        n, k = len(truth), len(labels)
        # One place each, so that a unit is in one count, however labels compare.
        row, column = labels.indices(truth), labels.indices(answers)
        cells = (row * k + column)[(row != NO_BALLOT) & (column != NO_BALLOT)]
        counts = np.bincount(cells, minlength=k * k).reshape(k, k)
        source = noise_source(self.random_state)
        sums = self._drawn(counts, unit_counts(n=n, dimension=k * k), source)
        failure = (1 - self.confidence) / (k * k)
        found = np.empty((3, k * k))
        for place, count in enumerate(sums.values.ravel().tolist()):
            ends = count_interval(count, n, sums.noise.scale, failure)
            found[:, place] = min(max(count / n, 0.0), 1.0), *ends
        value, low_, high_ = (part.reshape(k, k) for part in found)
        return self._metric("confusion", value, low_, high_, n, sums)

    def calibration(
        self, truth: Any, scores: Any, positive_label: Any, *, bins: int = 10
    ) -> PrivateMetric:
        """Return the share of positive units in each bin of predicted probability.

        Parameters
        ----------
        truth, scores : array-like of shape (n_units,)
            Labels and predicted probabilities of `positive_label`, one row per unit.
        positive_label : object
            The label that the probabilities are of.
        bins : int, default=10
            Number of equally wide bins from 0 to 1.
        """
        truth, scores = paired(truth, scores)
        yes = truth == positive_label
        points = np.clip(np.nan_to_num(np.asarray(scores, np.float64)), 0.0, 1.0)
        places = np.minimum((points * bins).astype(np.int64), bins - 1)
        counts = np.concatenate(
            [np.bincount(places[chosen], minlength=bins) for chosen in (yes, ~yes)]
        )
        n = len(yes)
        source = noise_source(self.random_state)
        sums = self._drawn(counts, unit_counts(n=n, dimension=2 * bins), source)
        rows = [self._share(sums, b, bins + b, intervals=bins) for b in range(bins)]
        value, low, high = np.array(rows).T
        return self._metric("calibration", value, low, high, n, sums)

    def _share(
        self, sums: NoisySums, hit: int, miss: int, *, intervals: int
    ) -> tuple[float, float, float]:
        """Return the share of one count in two, with its interval."""
        hits, misses = float(sums.values[hit]), float(sums.values[miss])
        failure = (1 - self.confidence) / intervals
        low, high = share_interval(hits, misses, sums.noise.scale, failure)
        total = max(hits, 0.0) + max(misses, 0.0)
        return (max(hits, 0.0) / total if total > 0 else 0.5), low, high

    def _mean(
        self, name: str, values: Values, units: UnitIds, *, scale: float
    ) -> PrivateMetric:
        positions, n = unit_positions(units, len(values))
        steps = in_steps(values, None if units is None else positions, n)
        source = noise_source(self.random_state)
        total_steps = np.array([int(steps.sum())])
        sums = self._drawn(total_steps, unit_sums(n=n, steps=UNIT_STEPS), source)
        total, spread = (
            float(sums.values[0]) / UNIT_STEPS,
            sums.noise.scale / UNIT_STEPS,
        )
        low, high = _widened(mean_interval(total, n, spread, 1 - self.confidence))
        value = min(max(total / n, 0.0), 1.0)
        return self._metric(name, scale * value, scale * low, scale * high, n, sums)

    def _drawn(
        self,
        sums: NDArray[np.int64],
        sensitivity: Certificate[Sensitivity],
        source: RandomSource,
    ) -> NoisySums:
        """Let the certificate be paid for, then draw."""
        if self.pay is not None:
            noise = score_noise(
                sensitivity, self.epsilon, len(sums), seeded=source.seeded
            )
            self.pay(noise.certificate)
        return NoisySums.drawn(sums, sensitivity, self.epsilon, source)

    def _metric(
        self, name: str, value: Any, low: Any, high: Any, n: int, sums: NoisySums
    ) -> PrivateMetric:
        return PrivateMetric(
            name, value, low, high, self.confidence, n, sums.certificate
        )


# Rounding down to a step loses at most this much of a mean.
_STEP = 1 / UNIT_STEPS


def _widened(interval: tuple[float, float]) -> tuple[float, float]:
    """Return an interval of rounded numbers for the numbers themselves."""
    return interval[0], min(1.0, interval[1] + _STEP)


def _pairs(n: int, source: RandomSource) -> NDArray[np.int64]:
    """Return units in pairs, dealt at random by position alone."""
    if n < 2:
        raise InvalidDataError(f"two units are needed; got n_units={n}.")
    return source.permutation(n)[: n // 2 * 2].reshape(-1, 2)
