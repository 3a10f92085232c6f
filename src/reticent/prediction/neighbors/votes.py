"""How units vote on a question, and how the noisy sum becomes an answer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from reticent.estimators import Codes, PartitionModel, RoundBudget
from reticent.prediction.law import Locked

Int = NDArray[np.int64]
Float = NDArray[np.float64]

# What units pay is counted again from the log by ONE, LOUDEST, _QUIET and _CLIP: a
# change of one of them needs another `prediction.lasting.records.REPLAY`.
#: A vote of one, in whole numbers, and the largest weight that it is multiplied by.
ONE = 1024
LOUDEST = 64
#: Squares of the radii of shells, relative to that of a usual question, in 64ths.
#: Other ones need another `prediction.lasting.records.REPLAY`.
SHELLS = (36, 70, 134, 256)
#: The weight of a unit within the radius, on average in four dimensions.
MEAN_WEIGHT = 1 / 3
# Besides its vote a unit reports its weight, scaled by this. That costs little, and the
# sum over many questions says how much weight a counted unit has.
_QUIET = ONE // 8
# Votes of two labels are clipped to this, in units of one. They rarely are that large,
# and units pay for what they say, so a tighter clip would only bias the sum.
_CLIP = 1.0
# The variance of a label around its rate, as a part of what a vote varies by.
_LABEL_VARIANCE = 0.3
# Variance of a residual around the local mean, on the scale from -1 to 1.
_RESIDUAL_VARIANCE = 0.1


@dataclass(frozen=True)
class Trust:
    """How local rates and the released model are combined.

    Attributes
    ----------
    slope : float
        The mean rate where the model expects a rate of one.
    strength : float
        Variance of rates around that.
    noise : float
        Variance of the noise of a rate.
    """

    slope: float
    strength: float
    noise: float

    def weigh(self, rates: Float, expected: Float) -> Float:
        """Return the most likely rates, given noisy ones and expected ones."""
        known = self.slope * expected
        gain = self.strength / (self.strength + self.noise)
        return np.asarray(known + gain * (rates - known))


def _clipped(values: Int, most: int) -> Int:
    """Return values between `-most` and `most`; for few values faster than np.clip."""
    return np.asarray(np.maximum(np.minimum(values, most), -most))


@dataclass(frozen=True, eq=False)
class Votes(Locked, ABC):
    """What units say, in whole numbers.

    Attributes
    ----------
    said_by : ndarray
        What each row says. Secret.
    expected : ndarray of int
        What the released model expects each row to say, in parts of `ONE`.
    """

    said_by: NDArray[Any]
    expected: Int

    def part(self, rows: slice) -> Self:
        """Return what these rows say."""
        return replace(self, said_by=self.said_by[rows], expected=self.expected[rows])

    @property
    @abstractmethod
    def width(self) -> int:
        """How many numbers are released per question."""

    def here(self, prior: Float) -> int:
        """Return what the released model expects at the query, if votes depend on it.

        A whole number that is kept with the question: another processor may round the
        model's answer differently, and must charge the same.
        """
        return 0

    @abstractmethod
    def said(self, rows: Int, loud: Int, here: int) -> Int:
        """Return what rows contribute, of shape (n_rows, width)."""

    @abstractmethod
    def squares(self, said: Int, budget: RoundBudget) -> Float:
        """Return what contributions cost, in squares of a norm."""

    @abstractmethod
    def rates(self, released: Int, prior: Float, weight: float) -> tuple[Float, Float]:
        """Return what was said per weight, and what the model expects of that."""

    @abstractmethod
    def answer(
        self, rates: Float, expected: Float, prior: Float, trust: Trust
    ) -> float:
        """Return the answer: the place of a label, or a number."""

    def alone(self, prior: Float) -> float:
        """Return the answer of the released model."""
        rates, expected = self.rates(np.zeros(self.width, np.int64), prior, 1.0)
        return self.answer(rates, expected, prior, Trust(1.0, 0.0, 1.0))

    #: Whether the model expects rates that votes can contradict.
    expects = True

    def contrast(
        self, rates: Float, expected: Float, prior: Float
    ) -> tuple[float, float]:
        """Return by how much the model's first label leads, as said and as expected.

        On the scale of one rate.
        """
        return float(rates[0]), float(expected[0])

    def doubt(self, prior: Float) -> float:
        """Return how unsure the model is at a query, from 0 to 1.

        Local rates differ from the model more where it is unsure, as those of a Beta
        law around its rate do.
        """
        likely = float(prior.max()) if len(prior) > 1 else float(prior[0])
        return 4 * likely * (1 - likely)

    def noise(self, scale: float, weight: float) -> float:
        """Return the variance of a rate: of the noise, and of labels around it."""
        return (scale / (ONE * LOUDEST * weight)) ** 2 + self._variance / weight

    def spoken(self, seen: float, released: Int) -> tuple[float, float]:
        """Return how many were counted and the noisy weight of those who spoke.

        Zeros if the scale of rates does not matter to the answer.
        """
        return 0.0, 0.0

    def loudness(self, squares: Int, radius: int) -> Int:
        """Return weights that fall to zero at the radius, and stay there."""
        return np.maximum((LOUDEST * (radius - squares)) // radius, 0)

    def prior_of(self, model: PartitionModel | None, codes: Codes) -> Float:
        """Return what the model expects at queries, of shape (n_queries, n_scores)."""
        if model is None:
            return np.full((len(codes), self._n_scores), self._nothing)
        return np.ascontiguousarray(model.mean(codes).T)

    def named(self, answers: Float, classes: NDArray[Any] | None) -> NDArray[Any]:
        """Return answers as labels."""
        places = answers.astype(np.int64)
        return np.asarray(places if classes is None else classes[places])

    _n_scores = 1
    _nothing = 0.5
    _variance = _LABEL_VARIANCE


@dataclass(frozen=True, eq=False)
class TwoLabels(Votes):
    """Votes for one of two labels, moved to the query by the released model.

    A unit says ``y - 1/2 - (p(x) - p(q))``, clipped: how often the second label occurs
    at its place, corrected by how the model's rate changes from there to the query.
    """

    @property
    def width(self) -> int:
        """One number: votes for the second label minus those for the first."""
        return 1

    def here(self, prior: Float) -> int:
        """Return the model's rate of the second label at the query."""
        return round(float(prior[0]) * ONE)

    def said(self, rows: Int, loud: Int, here: int) -> Int:
        """Return what rows contribute."""
        clip = round(_CLIP * ONE)
        return np.asarray(
            (_clipped(self._votes.take(rows) + here, clip) * loud)[:, None]
        )

    @cached_property
    def _votes(self) -> Int:
        """What each row says, as far as it does not depend on the query."""
        return ONE * self.said_by.astype(np.int64) - ONE // 2 - self.expected

    def squares(self, said: Int, budget: RoundBudget) -> Float:
        """Return what contributions cost; they may point apart."""
        weight = budget.weight(acute=False)
        return weight * said[:, 0].astype(np.float64) ** 2

    def rates(self, released: Int, prior: Float, weight: float) -> tuple[Float, Float]:
        """Return how much more often the second label was voted for than half."""
        said = released[:1] / (ONE * LOUDEST * weight)
        return np.asarray(said), np.asarray(prior[:1] - 0.5)

    def answer(
        self, rates: Float, expected: Float, prior: Float, trust: Trust
    ) -> float:
        """Weigh the votes against the released model by the noise's own law."""
        return float(trust.weigh(rates, expected)[0] > 0)


@dataclass(frozen=True, eq=False)
class ManyLabels(Votes):
    """One vote per unit for its own label; contributions never point apart.

    Attributes
    ----------
    n_labels : int
        Number of labels.
    """

    n_labels: int = 3

    @property
    def width(self) -> int:
        """One number per label."""
        return self.n_labels

    @property
    def _n_scores(self) -> int:  # type: ignore[override]
        return self.n_labels

    @property
    def _nothing(self) -> float:  # type: ignore[override]
        return 1 / self.n_labels

    def said(self, rows: Int, loud: Int, here: int) -> Int:
        """Return what rows contribute."""
        found = np.zeros((len(rows), self.n_labels), dtype=np.int64)
        found[np.arange(len(rows)), self.said_by[rows]] = ONE * loud
        return found

    def squares(self, said: Int, budget: RoundBudget) -> Float:
        """Return what contributions cost."""
        return np.asarray((said.astype(np.float64) ** 2).sum(axis=1))

    def rates(self, released: Int, prior: Float, weight: float) -> tuple[Float, Float]:
        """Return how much more often labels were voted for than on average."""
        said = released / (ONE * LOUDEST * weight)
        return np.asarray(said - said.mean()), np.asarray(prior - prior.mean())

    def answer(
        self, rates: Float, expected: Float, prior: Float, trust: Trust
    ) -> float:
        """Return the label with most votes, those of the model included."""
        return float(np.argmax(trust.weigh(rates, expected)))

    def contrast(
        self, rates: Float, expected: Float, prior: Float
    ) -> tuple[float, float]:
        """Return by how much the model's first label leads its second."""
        second, first = np.argsort(prior, kind="stable")[-2:]
        root = math.sqrt(2.0)
        said = float(rates[first] - rates[second]) / root
        return said, float(expected[first] - expected[second]) / root

    def prior_of(self, model: PartitionModel | None, codes: Codes) -> Float:
        """Return the model's probabilities, which add up to one."""
        found = super().prior_of(model, codes)
        return np.asarray(found / found.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Numbers(Votes):
    """Residuals of a released model, clipped, and the weight of those that voted.

    Attributes
    ----------
    low, high : float
        The public bounds of the target, which -1 and 1 stand for.
    clip : float
        Where residuals are clipped, on that scale.
    """

    low: float = -1.0
    high: float = 1.0
    clip: float = 0.5

    expects = False  # of a residual
    _nothing = 0.0
    _variance = _RESIDUAL_VARIANCE

    @property
    def width(self) -> int:
        """Two numbers: the sum of residuals and the sum of weights."""
        return 2

    def said(self, rows: Int, loud: Int, here: int) -> Int:
        """Return what rows contribute; weights are scaled down, so they cost less."""
        residual = np.rint(self.said_by[rows] * ONE).astype(np.int64)
        residual -= self.expected[rows]
        clip = round(self.clip * ONE)
        said = _clipped(residual, clip) * loud
        return np.stack([said, loud * _QUIET], axis=1)

    def squares(self, said: Int, budget: RoundBudget) -> Float:
        """Return what contributions cost: residuals may point apart, weights do not."""
        real = said.astype(np.float64) ** 2
        return budget.weight(acute=False) * real[:, 0] + real[:, 1]

    def spoken(self, seen: float, released: Int) -> tuple[float, float]:
        """Return how many were counted and the noisy weight of those who spoke."""
        return seen, float(released[1]) / (_QUIET * LOUDEST)

    def rates(self, released: Int, prior: Float, weight: float) -> tuple[Float, Float]:
        """Return the mean residual; the model expects none."""
        said = released[:1] / (ONE * LOUDEST * weight)
        return np.asarray(said), np.zeros(1)

    def answer(
        self, rates: Float, expected: Float, prior: Float, trust: Trust
    ) -> float:
        """Return the model's number, moved by the share of the residuals to trust."""
        moved = float(prior[0] + trust.weigh(rates, expected)[0])
        share = (min(max(moved, -1.0), 1.0) + 1) / 2
        return self.low * (1 - share) + self.high * share

    def named(self, answers: Float, classes: NDArray[Any] | None) -> NDArray[Any]:
        """Return answers as they are."""
        return answers
