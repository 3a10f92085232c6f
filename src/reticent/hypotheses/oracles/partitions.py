"""The distinct ways of splitting a point set along a feature.

Two features can split a set the same way, so stumps on different features can be one
labeling. Splits are compared by fingerprints, and then every match is proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Bools, Floats
from reticent.hypotheses.oracles.labelings import first_of_each, pack

# How many matches are proved at a time: some ten million ranks, 80 MB.
_RANKS_AT_ONCE = 10_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """Splits of a point set into ``x < cut`` and ``x >= cut``, neither part empty."""

    feature: NDArray[np.intp]  # ascending
    # How many distinct points lie below the cut; ascending within a feature.
    size: NDArray[np.intp]
    cut: Floats  # the smallest value of the upper part

    def __len__(self) -> int:
        return len(self.feature)

    def subset(self, chosen: NDArray[Any]) -> Splits:
        """Return some of the splits."""
        return Splits(self.feature[chosen], self.size[chosen], self.cut[chosen])


def fingerprints(n_points: int) -> NDArray[np.uint64]:
    """Return fixed well-mixed 64-bit words, one per point (the splitmix64 sequence)."""
    with np.errstate(over="ignore"):
        state = np.arange(1, n_points + 1, dtype=np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def distinct_splits(points: Floats, words: NDArray[np.uint64] | None = None) -> Splits:
    """Return each split of the distinct `points` once, at its first feature.

    Splits into the same two parts are the same, whichever part lies below. Points are
    in lexicographic order; `words` are their fingerprints, the default ones if left
    out.
    """
    order = np.ascontiguousarray(np.argsort(points, axis=0).T)
    ascending = np.take_along_axis(points.T, order, axis=1)
    feature, last = np.nonzero(ascending[:, 1:] != ascending[:, :-1])
    splits = Splits(feature, last + 1, ascending[feature, last + 1])
    words = fingerprints(len(points)) if words is None else words
    # A part is named by the sum of its words; a split by its part without point 0.
    sums = np.cumsum(words[order], axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(len(points))[np.newaxis, :], axis=1)
    flipped = rank[feature, 0] <= last
    key = np.where(
        flipped, sums[feature, -1] - sums[feature, last], sums[feature, last]
    )
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    kept = first[group]
    copies = np.flatnonzero(kept != np.arange(len(kept)))
    if not _same_parts(splits, order, rank, flipped, copies, kept[copies]):
        first = _first_of_each(splits, rank)
    return splits.subset(np.sort(first))


def _same_parts(
    splits: Splits,
    order: NDArray[np.intp],
    rank: NDArray[np.intp],
    flipped: Bools,
    copies: NDArray[np.intp],
    kept: NDArray[np.intp],
) -> bool:
    """Prove that each copy splits the points as the kept one does.

    The first s points in one order are the first s in another if and only if none of
    them has a later rank there; a running maximum decides this for all s at once.
    """
    n_points = order.shape[1]
    turned = flipped[copies] != flipped[kept]
    sizes = np.where(turned, n_points - splits.size[copies], splits.size[copies])
    if (sizes != splits.size[kept]).any():
        return False
    n_features = order.shape[0]
    pair = (splits.feature[kept] * n_features + splits.feature[copies]) * 2 + turned
    pairs, member = np.unique(pair, return_inverse=True)
    step = max(1, _RANKS_AT_ONCE // n_points)
    for start in range(0, len(pairs), step):
        block = pairs[start : start + step]
        one, other = np.divmod(block // 2, n_features)
        ranks = rank[other[:, np.newaxis], order[one]]
        ranks = np.where((block % 2 == 1)[:, np.newaxis], n_points - 1 - ranks, ranks)
        latest = np.maximum.accumulate(ranks, axis=1)
        mine = (member >= start) & (member < start + step)
        place = splits.size[kept[mine]] - 1
        if (latest[member[mine] - start, place] > place).any():
            return False
    return True


def _first_of_each(splits: Splits, rank: NDArray[np.intp]) -> NDArray[np.intp]:
    """Compare the parts bit by bit; slow, for fingerprints that collide."""
    below = rank[splits.feature] < splits.size[:, np.newaxis]
    below ^= below[:, :1]
    return first_of_each(pack(below))
