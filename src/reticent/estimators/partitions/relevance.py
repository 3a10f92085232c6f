"""How much each column says about the target, released by noisy counts."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats
from reticent.estimators.partitions.codes import CodedColumn, CodedColumns
from reticent.estimators.partitions.rounds import Rounds
from reticent.estimators.partitions.rows import UnitRows
from reticent.estimators.partitions.trees import Shares

# Counts are multiples of this power of two, so that a unit's rows may share its count.
_BITS = 12
_BINS = 8
# A bin whose count is below this many deviations of the noise says nothing.
_LEAST_COUNT = 4.0
# This share of the weight is the same for all columns: some matter only together.
_EVEN = 0.5


def noisy_relevance(
    rows: UnitRows,
    columns: CodedColumns,
    shares: Shares,
    rounds: Rounds,
    *,
    share: float,
    logistic: bool,
) -> Floats:
    """Release weights of columns, of sum one, by how far the target varies with each.

    One round: every unit counts once in each column, in the cells of its bins and of
    its targets, its rows in equal parts. Counts never point apart. Half of each weight
    is the same for all columns; the rest follows the square root of the variance that
    the column explains by itself, minus what noise explains. Where noise explains much,
    weights become even.

    Parameters
    ----------
    rows : UnitRows
        The rows.
    columns : CodedColumns
        The columns.
    shares : tuple
        How rows are spread over columns, by which bins of numbers are chosen.
    rounds : Rounds
        The rounds in which noise is added and units pay.
    share : float
        What each unit pays, as a share of its budget.
    logistic : bool
        Whether targets are labels.
    """
    norm = math.sqrt(len(columns)) * 2**_BITS
    scale = rounds.budget.scale(norm, share=share, times=1, acute=True)
    squares = np.full(rows.n_units, norm * norm * (1 + 2.0**-40))
    speaks = rounds.admit(slice(None), squares, scale, acute=True)
    weight = (2.0**_BITS / rows.sizes * speaks)[rows.unit]
    # A row's numbers are not negative and add up to its weight at most.
    sides = [np.floor(side * weight) for side in _sides(rows.targets, logistic)]
    explained, doubts = np.zeros(len(columns)), np.zeros(len(columns))
    for place, column in enumerate(columns.columns):
        table, size = _bins(column, shares[place])
        bins = table[rows.codes[:, place]]
        counts = np.stack([np.bincount(bins, side, size) for side in sides])
        noisy = rounds.noisy(counts.astype(np.int64), scale)
        explained[place], doubts[place] = _explained(noisy.astype(np.float64), scale)
    even = 1 / len(columns)
    doubt = float(doubts.mean())
    if not 0 < doubt < math.inf:
        return np.full(len(columns), even)
    roots = np.sqrt(explained + doubt)
    return np.asarray(_EVEN * even + (1 - _EVEN) * roots / roots.sum())


def _sides(targets: Floats, logistic: bool) -> Floats:
    """Return numbers from 0 to 1 that add up to one: labels, or low and high."""
    if len(targets) > 1:
        return targets
    high = targets[0] if logistic else (targets[0] + 1) / 2
    return np.stack([1 - high, high])


def _bins(column: CodedColumn, share: Floats | None) -> tuple[NDArray[np.intp], int]:
    """Return the bin of each code, and how many bins there are."""
    if not column.numeric:
        return np.arange(column.n_codes), column.n_codes
    steps = column.n_codes - 1
    position = np.arange(steps) / steps if share is None else share
    inside = np.minimum((position * _BINS).astype(np.intp), _BINS - 1)
    return np.append(inside, _BINS), _BINS + 1


def _explained(counts: Floats, scale: float) -> tuple[float, float]:
    """Return the share of the targets' variance between bins, and the noise in it.

    Parameters
    ----------
    counts : ndarray of shape (n_targets, n_bins)
        Noisy counts.
    scale : float
        The deviation of their noise.

    Returns
    -------
    explained, doubt : float
        The share minus what noise adds to it, and the deviation of the noise that is
        left; infinite if there is nothing but noise.
    """
    sizes = counts.sum(axis=0)
    clear = sizes > _LEAST_COUNT * scale * math.sqrt(len(counts))
    total = sizes[clear].sum()
    if not total > 0:
        return 0.0, math.inf
    mean = np.maximum(counts[:, clear].sum(axis=1) / total, 0)
    away = counts[:, clear] - mean[:, None] * sizes[clear]
    noise = scale**2 * (1 - 2 * mean + len(mean) * mean**2)[:, None] / sizes[clear]
    spread = total * (mean * (1 - mean)).sum()
    if not spread > 0:
        return 0.0, math.inf
    between = (away**2 / sizes[clear] - noise).sum()
    doubt = math.sqrt(2 * float((noise**2).sum()))
    return float(max(between / spread, 0.0)), doubt / float(spread)
