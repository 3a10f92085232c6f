"""How rows are spread over numeric columns, released by noisy counts (L13)."""

from __future__ import annotations

import math

import numpy as np

from reticent._arrays import Floats
from reticent.estimators.partitions.codes import STEPS, CodedColumns
from reticent.estimators.partitions.rounds import Rounds
from reticent.estimators.partitions.rows import UnitRows
from reticent.estimators.partitions.trees import Shares

# Counts are multiples of this power of two, so that a unit's rows may share its count.
_BITS = 12
_BINS = 256


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
    found: list[Floats | None] = [None] * len(columns)
    width = STEPS // _BINS
    for j in numeric:
        codes = rows.codes[:, j]
        known = codes < STEPS
        counts = np.bincount(
            codes[known] // width,
            weights=weights[known],
            minlength=_BINS,
        ).astype(np.int64)
        noisy = np.maximum(rounds.noisy(counts, scale), 0).astype(np.float64)
        # A little everywhere, so that no stretch of the range is left without cuts.
        noisy += max(noisy.sum(), 1.0) * 0.02 / _BINS
        ends = np.concatenate([[0.0], np.cumsum(noisy) / noisy.sum()])
        codes_at = (np.arange(STEPS) + 0.5) / width
        found[j] = np.interp(codes_at, np.arange(_BINS + 1), ends)
    return tuple(found)


def noisy_label_shares(rows: UnitRows, rounds: Rounds, *, share: float) -> Floats:
    """Release how many rows have each label, as shares of the units.

    One round: a unit counts once, its rows in equal parts. Counts never point apart.
    With one score, its target is 1 for the second label.

    Parameters
    ----------
    rows : UnitRows
        The rows.
    rounds : Rounds
        The rounds in which noise is added and units pay.
    share : float
        What each unit pays, as a share of its budget.
    """
    hits = (
        rows.targets
        if len(rows.targets) > 1
        else np.vstack([1 - rows.targets, rows.targets])
    )
    norm = 2.0**_BITS
    scale = rounds.budget.scale(norm, share=share, times=1, acute=True)
    squares = np.full(rows.n_units, norm * norm * (1 + 2.0**-40))
    speaks = rounds.admit(slice(None), squares, scale, acute=True)
    weights = (np.floor(norm / rows.sizes) * speaks)[rows.unit]
    counts = (hits * weights).sum(axis=1).astype(np.int64)
    return np.asarray(np.maximum(rounds.noisy(counts, scale), 0) / norm / rows.n_units)
