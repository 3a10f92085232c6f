"""Small sets of points that distinguish a labeling from all others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Bools, Floats
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.hypotheses import (
    FiniteClass,
    HypothesisClass,
    Stumps,
    Thresholds,
    distinct_rows,
    point_matrix,
)

# The largest product of labelings, labelings and points to compare: a tenth of a
# second.
_MOST_COMPARED = 1 << 24


def teaching_size(hypotheses: HypothesisClass[Any], points: NDArray[Any]) -> int:
    """Return a number of points that suffices to teach any labeling of `points`.

    A set teaches a labeling if every other labeling of the class differs from it
    somewhere on the set. The sets are chosen greedily if the labelings can be listed;
    otherwise the set of all points is used.

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class, for points of this width.
    points : ndarray of shape (m, n_features)
        Distinct points.

    Notes
    -----
    For thresholds two points suffice, for stumps twice the number of features.
    *Proof.* For a constant take the smallest and the largest point of every feature:
    a stump that is not constant on the points is not constant on those two. For
    another stump take the neighbours of its cut, which rule out its own feature, and
    on any other feature at least one direction, because a rising and a falling cut
    cannot both put them apart in the same way. The other direction is ruled out by
    the two points, one of each label, that lie the furthest on the wrong side, unless
    it is the same labeling.
    """
    m = len(points)
    bound = m
    if isinstance(hypotheses, Thresholds | Stumps):
        bound = min(m, 2 * points.shape[1])
    count = most_labelings(hypotheses, m)
    if bound > 2 and count * count * m <= _MOST_COMPARED:
        bound = min(bound, _greedy(hypotheses.project(points).labels.astype(bool)))
    return bound


def most_labelings(hypotheses: HypothesisClass[Any], m: int) -> int:
    """Bound the labelings of any `m` points without listing them."""
    if isinstance(hypotheses, FiniteClass):  # its VC dimension may take long
        return min(len(hypotheses), 2**m)
    return hypotheses.growth(m)


def identification_set(
    hypotheses: HypothesisClass[Any], domain: ArrayLike | None = None
) -> Floats:
    """Return points of a finite domain that distinguish all hypotheses on it (M5).

    Points are taken one by one, each distinguishing as many pairs as possible.

    Parameters
    ----------
    hypotheses : HypothesisClass
        A class whose labelings of the domain can be listed.
    domain : array-like of shape (n_points, n_features), default=None
        All possible rows. None takes the domain of a `FiniteClass` that was built from
        a table.

    Returns
    -------
    ndarray of shape (m, n_features)
        Not always the smallest set. It depends on class and domain alone.

    Examples
    --------
    >>> from reticent.hypotheses import Conjunctions
    >>> from itertools import product
    >>> cube = list(product([0, 1], repeat=4))
    >>> len(identification_set(Conjunctions(negations=False), cube))
    4
    """
    if domain is None:
        table = getattr(hypotheses, "_table", None)
        if not isinstance(hypotheses, FiniteClass) or table is None:
            raise InvalidParameterError(
                "domain=None: only a FiniteClass.from_table knows its domain. Give all "
                "possible rows, or points=... that distinguish all hypotheses."
            )
        domain = table.domain
    points, _ = distinct_rows(point_matrix(domain))
    family = hypotheses.on(points.shape[1])
    labels = family.project(points).labels.astype(bool)
    chosen: list[int] = []
    # Hypotheses that agree on all chosen points share a group.
    group = np.zeros(len(labels), dtype=np.intp)
    while len(np.unique(group)) < len(labels):
        sizes = np.bincount(group)
        best, fewest = -1, np.inf
        for place in range(len(points)):
            ones = np.bincount(group, weights=labels[:, place], minlength=len(sizes))
            # Pairs that this point would not distinguish.
            together = float((ones**2 + (sizes - ones) ** 2).sum())
            if together < fewest:
                best, fewest = place, together
        chosen.append(best)
        _, group = np.unique(2 * group + labels[:, best], return_inverse=True)
    if not chosen:
        raise InvalidDataError(
            "all hypotheses agree on the domain, so nothing can be learned from it."
        )
    return points[np.sort(chosen)]


def _greedy(labels: Bools) -> int:
    """Return the size of the largest teaching set, each chosen greedily."""
    largest = 1
    for own in labels:
        differs = labels != own
        open_ = differs.any(axis=1)
        size = 0
        while open_.any():
            best = int(np.argmax(differs[open_].sum(axis=0)))
            open_ &= ~differs[:, best]
            size += 1
        largest = max(largest, size)
    return largest
