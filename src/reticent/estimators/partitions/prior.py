"""A released model: a sum over partitions, learnt by noisy gradients (L12 to L14)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils.validation import check_consistent_length

from reticent.estimators.partitions.codes import STEPS, CodedColumns, Codes
from reticent.estimators.partitions.rounds import Rounds
from reticent.estimators.partitions.sums import part_scores, part_sums
from reticent.estimators.partitions.trees import (
    Partitions,
    Shares,
    random_trees,
    single_columns,
)
from reticent.mechanisms import RandomSource

Float = NDArray[np.float64]

# Residuals are multiples of this power of two, so that their sums are exact.
_BITS = 12
# Shares of rows are counted in this many bins of a column.
_BINS_FOR_SHARES = 256
_MOMENTUM = 0.9
# Defaults, settled on some public tables and on generated ones; see the page on
# releases. None depends on the rows.
_STEPS = 96
_BINS = 16
_TREES = 128
_PACE = 1.5
_CLIP = 0.5
_ROWS_PER_PART = 150.0
_LONGEST_STEP = {True: 400.0, False: 1.2}


@dataclass(frozen=True, eq=False)
class UnitRows:
    """Rows of all units, unit after unit.

    Attributes
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        The rows.
    targets : ndarray of shape (n_scores, n_rows)
        0 or 1 for each score, or a number between -1 and 1.
    unit : ndarray of int
        The unit of each row, not decreasing.
    starts : ndarray of int
        The first row of each unit, and the number of rows.
    """

    codes: Codes
    targets: Float
    unit: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many rows each unit has."""
        return np.diff(self.starts)

    @classmethod
    def of(
        cls,
        codes: Codes,
        targets: Float,
        positions: NDArray[np.int64],
        n_units: int,
        source: RandomSource,
    ) -> UnitRows:
        """Sort rows by unit, units in random order: some of them are then like all.

        Parameters
        ----------
        codes, targets
            Rows in any order.
        positions : ndarray of int
            The unit of each row.
        n_units : int
            Number of units.
        source : RandomSource
            The source of the order.
        """
        check_consistent_length(codes, targets.T)
        shuffled = source.permutation(n_units)[positions]
        order = np.argsort(shuffled, kind="stable")
        unit = shuffled[order]
        starts = np.searchsorted(unit, np.arange(n_units + 1))
        return cls(codes[order], targets[:, order], unit, starts)

    def per_unit(self, numbers: Float) -> Float:
        """Return the sum of a number over the rows of each unit."""
        if len(numbers) == self.n_units:
            return numbers
        return np.asarray(np.add.reduceat(numbers, self.starts[:-1]))


@dataclass(frozen=True, eq=False)
class PartitionModel:
    """Scores that add up over partitions.

    Attributes
    ----------
    partitions : Partitions
        How rows are divided.
    values : ndarray of shape (n_scores, n_parts)
        What each part adds to the scores, partition after partition.
    logistic : bool
        Whether scores are log-odds; otherwise they are numbers between -1 and 1.
    """

    partitions: Partitions
    values: Float
    logistic: bool

    def scores(self, codes: Codes) -> Float:
        """Return the scores of rows, of shape (n_scores, n_rows)."""
        parts = self.partitions.parts(codes)
        return part_scores(parts, self.partitions.n_parts, self.values)

    def mean(self, codes: Codes) -> Float:
        """Return predicted probabilities or numbers, of shape (n_scores, n_rows)."""
        return self.from_scores(self.scores(codes))

    def from_scores(self, scores: Float) -> Float:
        """Return probabilities or numbers for scores."""
        return np.asarray(expit(scores) if self.logistic else np.clip(scores, -1, 1))


def noisy_shares(
    rows: UnitRows, columns: CodedColumns, rounds: Rounds, *, share: float
) -> Shares:
    """Release how the rows are spread over each numeric column (L13).

    One round: every unit counts once in each numeric column, its rows in equal parts.
    Counts never point apart.
    """
    numeric = [j for j, column in enumerate(columns.columns) if column.numeric]
    if not numeric:
        return (None,) * len(columns)
    norm = math.sqrt(len(numeric)) * 2**_BITS
    scale = rounds.budget.scale(norm, share=share, times=1, acute=True)
    squares = np.full(rows.n_units, norm * norm * (1 + 2.0**-40))
    speaks = rounds.admit(slice(None), squares, scale, acute=True)
    weight = np.floor(2.0**_BITS / rows.sizes) * speaks
    weights = weight[rows.unit]
    found: list[Float | None] = [None] * len(columns)
    width = STEPS // _BINS_FOR_SHARES
    for j in numeric:
        codes = rows.codes[:, j]
        known = codes < STEPS
        counts = np.bincount(
            codes[known] // width,
            weights=weights[known],
            minlength=_BINS_FOR_SHARES,
        ).astype(np.int64)
        noisy = np.maximum(rounds.noisy(counts, scale), 0).astype(np.float64)
        # A little everywhere, so that no stretch of the range is left without cuts.
        noisy += max(noisy.sum(), 1.0) * 0.02 / _BINS_FOR_SHARES
        ends = np.concatenate([[0.0], np.cumsum(noisy) / noisy.sum()])
        codes_at = (np.arange(STEPS) + 0.5) / width
        found[j] = np.interp(codes_at, np.arange(_BINS_FOR_SHARES + 1), ends)
    return tuple(found)


def plan_partitions(
    columns: CodedColumns, shares: Shares, rounds: Rounds, *, n_units: int, share: float
) -> Partitions:
    """Choose how many parts there are by public facts, and draw them."""
    signal = n_units * math.sqrt(share * rounds.budget.cap / 2)
    depth = round(math.log2(max(signal / _ROWS_PER_PART, 1)))
    depth = min(max(depth, 3), 8)
    additive = single_columns(columns, shares, _BINS)
    trees = random_trees(
        columns, shares, n_trees=_TREES, depth=depth, source=rounds.source
    )
    return additive.joined(trees)


def fit_prior(
    rows: UnitRows,
    partitions: Partitions,
    rounds: Rounds,
    *,
    logistic: bool,
    share: float,
) -> PartitionModel:
    r"""Learn the values of parts by noisy gradient descent.

    Each step sums the slopes of the loss over all units. A unit's
    contribution is the same number in one part of each partition, so its norm is that
    number times a public constant, and the unit pays for the norm that it really had:
    units that the model fits well keep most of their budget.

    Parameters
    ----------
    rows : UnitRows
        The rows.
    partitions : Partitions
        How they are divided.
    rounds : Rounds
        Whose noise is added, and who pays.
    logistic : bool
        Whether targets are labels.
    share : float
        What a unit that is never fitted pays, as a share of its budget.
    """
    weights, total = _weights(partitions)
    n, n_scores = rows.n_units, len(rows.targets)
    norm = math.sqrt(total) * 2.0**_BITS
    scale = rounds.budget.scale(_CLIP * norm, share=share, times=_STEPS, acute=False)
    # In time t noise moves a score by about t scale / (n norm sqrt(steps)), and more
    # time is of no use once that is large.
    time = _PACE * n * norm * math.sqrt(_STEPS) / scale
    rate = min(time * (1 - _MOMENTUM) / _STEPS, _LONGEST_STEP[logistic])
    parts = partitions.parts(rows.codes)
    sizes, root = partitions.n_parts, math.sqrt(total)
    spread = np.repeat(weights, sizes)
    point = np.zeros((n_scores, len(spread)))
    velocity, mean = np.zeros_like(point), np.zeros_like(point)
    for step in range(_STEPS):
        ahead = (point + _MOMENTUM * velocity) * (spread / root)
        slopes = _slopes(part_scores(parts, sizes, ahead), rows.targets, logistic)
        whole = np.trunc(slopes * (2.0**_BITS / rows.sizes[rows.unit]))
        squares = _squares(whole, rows) * total
        whole *= rounds.admit(slice(None), squares, scale, acute=False)[rows.unit]
        sums = part_sums(parts, sizes, whole) * spread
        slope = rounds.noisy(sums, scale) / (n * norm)
        velocity = _MOMENTUM * velocity - rate * slope
        point = point + velocity
        if step >= _STEPS // 2:
            mean += point
    mean *= spread / (root * (_STEPS - _STEPS // 2))
    return PartitionModel(partitions, mean, logistic)


def _weights(partitions: Partitions) -> tuple[NDArray[np.int64], int]:
    """Return whole weights by which single columns count as much as trees do."""
    single = np.array([len(columns) == 1 for columns in partitions.columns])
    n_single, n_trees = int(single.sum()), int((~single).sum())
    heavy = 1 if not n_single else max(1, round(math.sqrt(n_trees / n_single)))
    weights = np.where(single, heavy, 1).astype(np.int64)
    return weights, int((weights**2).sum())


def _slopes(scores: Float, targets: Float, logistic: bool) -> Float:
    """Return slopes of the loss in the scores, clipped to a norm."""
    slopes = (expit(scores) if logistic else scores) - targets
    if len(slopes) == 1:
        return np.asarray(np.clip(slopes, -_CLIP, _CLIP))
    norms = np.sqrt((slopes * slopes).sum(axis=0))
    return np.asarray(slopes * (_CLIP / np.maximum(norms, _CLIP)))


def _squares(whole: Float, rows: UnitRows) -> Float:
    """Return bounds on the square of each unit's sum; its rows may point anywhere."""
    norms = np.sqrt((whole * whole).sum(axis=0)) * (1 + 2.0**-40)
    total = rows.per_unit(norms) * (1 + 2.0**-40)
    return np.asarray(total * total)
