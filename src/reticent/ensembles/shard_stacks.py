"""Stacks shards of the same size, so that one product serves many of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats, Ints

# Shards are stacked in groups whose designs and Hessians have this many floats, so that
# they stay in the processor's cache. Chosen by measurement.
_GROUP_FLOATS = 1 << 18

# Rows are filled up with zeros to a multiple of this, so that shards of nearly the
# same size are solved together. The size depends on the shard alone.
_ROW_MULTIPLE = 32


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Shards to be stacked: same number of rows, same labels present."""

    shards: list[int]
    rows: list[Ints]
    n_rows: int
    present: Ints | None


def group_shards(
    Z: Floats,
    targets: NDArray[Any],
    shards: list[Ints],
    n_classes: int | None,
    unknowns: int,
) -> Iterator[Group]:
    """Yield the shards that can be trained, those of the same form together."""
    alike: dict[tuple[int, bytes], Group] = {}
    for shard, rows in enumerate(shards):
        present = None if n_classes is None else np.unique(targets[rows])
        numbers = Z[rows] if present is not None else np.c_[Z[rows], targets[rows]]
        one_label = present is not None and len(present) < 2
        if one_label or not np.isfinite(numbers).all():
            continue
        n_rows = -(-len(rows) // _ROW_MULTIPLE) * _ROW_MULTIPLE
        key = (n_rows, b"" if present is None else present.tobytes())
        group = alike.setdefault(key, Group([], [], n_rows, present))
        group.shards.append(shard)
        group.rows.append(rows)
    for group in alike.values():
        floats = max(group.n_rows * (Z.shape[1] + 1), unknowns**2)
        size = max(1, _GROUP_FLOATS // floats)
        for start in range(0, len(group.shards), size):
            some = slice(start, start + size)
            yield Group(
                group.shards[some], group.rows[some], group.n_rows, group.present
            )


def stack(
    Z: Floats, targets: NDArray[Any], group: Group, *, signed: bool
) -> tuple[Floats, Floats]:
    """Return designs with a column of ones, and targets, rows filled up with zeros."""
    n_columns = Z.shape[1]
    n_scores = 1 if group.present is None else count_scores(len(group.present))
    design = np.zeros((len(group.rows), group.n_rows, n_columns + 1))
    target = np.zeros((len(group.rows), group.n_rows, n_scores))
    for place, rows in enumerate(group.rows):
        design[place, : len(rows), :n_columns] = Z[rows]
        design[place, : len(rows), n_columns] = 1
        own = target[place, : len(rows)]
        if group.present is None:
            own[:, 0] = targets[rows]
            continue
        labels = group.present[-n_scores:]
        own[:] = targets[rows][:, None] == labels
        if signed:
            own[:] = 2 * own - 1
    return design, target


def standardise(design: Floats, filled: Floats) -> tuple[Floats, Floats]:
    """Standardise each shard's columns in place; return centres and scales."""
    n_problems, _, n_columns = design.shape
    centre = np.empty((n_problems, n_columns - 1))
    scale = np.empty((n_problems, n_columns - 1))
    ones = design[:, :, -1:]
    values = design[:, :, :-1]
    for place in range(n_problems):
        rows = values[place, ones[place, :, 0] > 0]
        centre[place] = rows.mean(axis=0)
        variance = ((rows - centre[place]) ** 2).mean(axis=0)
        # As scikit-learn does, columns that are constant up to rounding stay as
        # they are.
        noise = filled[place] * np.finfo(np.float64).eps
        constant = variance <= noise * variance + (noise * centre[place]) ** 2
        scale[place] = np.sqrt(np.where(constant, 1, variance))
    values -= centre[:, None, :]
    values /= scale[:, None, :]
    values *= ones
    return centre, scale


def count_scores(n_classes: int | None) -> int:
    """Return the number of scores of a linear model: one margin, or one per label."""
    return 1 if n_classes is None or n_classes == 2 else n_classes
