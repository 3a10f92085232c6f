"""Features of parts, in whole numbers: noise is added to their sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats, Ints
from reticent.estimators.partitions.codes import STEPS, CodedColumn, CodedColumns
from reticent.estimators.partitions.trees import (
    VALUE_OF_CODE,
    VALUES,
    Partitions,
    Shares,
)

# The feature of a tree's part. Others are multiples of it that need rounding.
_TREE = 64
# A feature of norm one becomes this number where there are no trees.
_ALONE = 4096
_KNOTS, _FEW_KNOTS = 16, 8


@dataclass(frozen=True, eq=False)
class PartFeatures:
    """What each part of a partition adds to the features of its rows.

    The features of a row are those of its parts, one after the other. Parts of single
    columns have the features of `maps`; each part of the other partitions has a feature
    of its own, of size `tree`.

    Attributes
    ----------
    partitions : Partitions
        Single columns first, then trees.
    maps : tuple of ndarray of int
        For each single column, the features of its parts, one row per part.
    tree : int
        The feature of a part of a tree.
    """

    partitions: Partitions
    maps: tuple[NDArray[np.int64], ...]
    tree: int

    @cached_property
    def square(self) -> int:
        """A public bound on the squared norm of any row's features."""
        single = sum(int((each * each).sum(axis=1).max()) for each in self.maps)
        return single + self.tree**2 * (len(self.partitions) - len(self.maps))

    @cached_property
    def _ends(self) -> tuple[list[int], list[int]]:
        """Where the parts and the features of each single column end."""
        parts = np.cumsum([0, *(len(each) for each in self.maps)])
        places = np.cumsum([0, *(each.shape[1] for each in self.maps)])
        return parts.tolist(), places.tolist()

    @property
    def n_features(self) -> int:
        """Number of features."""
        parts, places = self._ends
        return int(self.partitions.n_parts.sum()) - parts[-1] + places[-1]

    @property
    def squares(self) -> Floats:
        """The squared norm of the features of each part."""
        own = [(each * each).sum(axis=1) for each in self.maps]
        n_parts = self.partitions.n_parts[len(self.maps) :].sum()
        trees = np.full(n_parts, self.tree**2)
        return np.concatenate([*own, trees])[None].astype(np.float64)

    def values(self, point: Floats) -> Floats:
        """Return what parts add to the scores, for coefficients of features."""
        places = self._ends[1]
        own = [
            point[:, start:end] @ each.T
            for each, start, end in zip(self.maps, places[:-1], places[1:], strict=True)
        ]
        return np.concatenate([*own, point[:, places[-1] :] * self.tree], axis=1)

    def sums(self, sums: Ints) -> Ints:
        """Return sums over rows of features times a number, from sums over parts."""
        parts = self._ends[0]
        own = [
            sums[:, start:end] @ each
            for each, start, end in zip(self.maps, parts[:-1], parts[1:], strict=True)
        ]
        return np.concatenate([*own, sums[:, parts[-1] :] * self.tree], axis=1)


def part_features(
    columns: CodedColumns,
    shares: Shares,
    singles: Partitions,
    trees: Partitions | None,
    *,
    linear: float,
    bins: float,
    relevance: Floats | None = None,
) -> PartFeatures:
    """Join single columns and trees, so that each kind has its share of the norm.

    Parameters
    ----------
    columns, shares
        The columns, and how rows are spread over them.
    singles, trees : Partitions
        Partitions by single columns, and by several columns.
    linear, bins : float
        The shares of what is linear in a column and of its bins; trees have the rest.
    relevance : ndarray of float, optional
        Released weights of columns, of sum one; None gives all the same.
    """
    rest = max(1.0 - linear - bins, 0.0)
    # Numbers have two kinds of features, by range and by share: they count twice.
    weights = np.array([2.0 if column.numeric else 1.0 for column in columns.columns])
    if relevance is not None:
        weights *= relevance * len(relevance)
    norms = _ALONE * np.sqrt(weights)
    if trees is not None:
        square = (1 - rest) / rest * len(trees)
        norms = _TREE * np.sqrt(square * weights / weights.sum())
    maps = tuple(
        np.rint(norm * _features(column, share, linear, bins)).astype(np.int64)
        for norm, column, share in zip(norms, columns.columns, shares, strict=True)
    )
    partitions = singles if trees is None else singles.joined(trees)
    return PartFeatures(partitions, maps, _TREE)


def _features(
    column: CodedColumn, share: Floats | None, linear: float, bins: float
) -> Floats:
    """Return features of the parts of a column, of norm at most one.

    Numbers have two linear features and two sets of overlapping bins: by their place in
    the range, and by the share of rows below them. A missing value is the middle, and a
    bin of its own.
    """
    if not column.numeric:
        return np.eye(column.n_codes)
    by_range = (np.arange(VALUES) + 0.5) / VALUES
    by_share = by_range
    if share is not None:
        by_share = _per_value(share) / _per_value(np.ones(STEPS))
    found = []
    for place in (by_range, by_share):
        straight = np.append(2 * place - 1, 0.0)[:, None]
        inside = np.zeros((VALUES + 1, _KNOTS + 1))
        inside[:-1, :-1] = _hats(place)
        inside[-1, -1] = 1.0
        found += [straight * math.sqrt(linear / 2), inside * math.sqrt(bins / 2)]
    return np.concatenate(found, axis=1) / math.sqrt(linear + bins)


def additive_maps(columns: CodedColumns) -> tuple[Floats, ...]:
    """Return features of the parts of each column, by public facts alone.

    Overlapping bins of a number by its place in the range, a feature per level, and one
    for missing values. Those of a part are not negative and add up to one.
    """
    hats = np.zeros((VALUES + 1, _FEW_KNOTS + 1))
    hats[:-1, :-1] = _hats((np.arange(VALUES) + 0.5) / VALUES, _FEW_KNOTS)
    hats[-1, -1] = 1.0
    return tuple(
        hats if column.numeric else np.eye(column.n_codes) for column in columns.columns
    )


def _per_value(numbers: Floats) -> Floats:
    """Return the sum of numbers, one per code, over the codes of each part."""
    sums = np.bincount(VALUE_OF_CODE, weights=numbers, minlength=VALUES)
    return np.asarray(sums, dtype=np.float64)


def _hats(place: Floats, knots: int = _KNOTS) -> Floats:
    """Return how near places in [0, 1] are to the two knots beside them."""
    scaled = np.clip(place, 0.0, 1.0) * (knots - 1)
    left = np.minimum(scaled.astype(np.int64), knots - 2)
    right = scaled - left
    found = np.zeros((len(place), knots))
    found[np.arange(len(place)), left] = 1 - right
    found[np.arange(len(place)), left + 1] = right
    return found


def curvature(features: PartFeatures, columns: CodedColumns, shares: Shares) -> float:
    """Return how curved a square loss is at most, from 0 to 1, by released numbers.

    No row's features have a larger mean product with those of others. Columns are
    taken to be independent within a tree, and all rows to have the same levels.
    """
    density = [
        None if share is None else np.diff(np.concatenate([[0.0], share]))
        for share in shares
    ]
    total = 0.0
    for place, each in enumerate(features.maps):
        own = density[place]
        if own is None:
            total += float((each * each).sum(axis=1).max())
            continue
        mass = _per_value(own)
        known = each[:-1].astype(np.float64)
        products = np.abs(known @ known.T) @ (mass / mass.sum())
        total += float(products.max())
    partitions, first = features.partitions, len(features.maps)
    for asked, tables in zip(
        partitions.columns[first:], partitions.tables[first:], strict=True
    ):
        chance = 1.0
        for place, table in zip(asked.tolist(), tables, strict=True):
            own = density[place]
            if own is not None:
                above = float(own[table[:STEPS] > 0].sum() / own.sum())
                chance *= max(above, 1 - above)
        total += features.tree**2 * chance
    return min(total / features.square, 1.0)
