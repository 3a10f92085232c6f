"""Covers and nets: few hypotheses, or few points, that stand for a class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._search import geometric_mean, last_that_holds

# Labels held at a time while distances between labelings are compared.
_WORKSPACE = 1 << 24


def cover_of(projection: Any, radius: float) -> NDArray[np.int64]:
    """Return representatives within `radius` of every labeling of the points.

    Distance is the share of points on which two labelings differ. The first labeling
    that is not yet covered is taken, until all are: a function of the points alone.
    """
    labels = np.asarray(projection.labels, dtype=np.int8)
    n_labelings, n_points = labels.shape
    reach = int(np.floor(radius * n_points))
    uncovered = np.ones(n_labelings, dtype=bool)
    kept = []
    step = max(1, _WORKSPACE // n_points)
    while uncovered.any():
        first = int(np.argmax(uncovered))
        kept.append(first)
        for start in range(0, n_labelings, step):
            part = slice(start, start + step)
            distance = (labels[part] != labels[first]).sum(axis=1)
            uncovered[part] &= distance > reach
    return np.array(kept, dtype=np.int64)


def net_error(hypotheses: Any, m: int) -> float:
    """Return the smallest error for which `m` random points are a net.

    Hypotheses that agree on a net differ on at most `error` of the population. The
    probability that `m` points are not a net is at most ``2 growth(2m)^2 2^(-error
    m/2)``, which is at most the error itself here. The result is accurate to one part
    in 10^9; it is 1 if no smaller error is possible.
    """
    growth = math.log(2) + 2 * math.log(hypotheses.growth(2 * m))

    def enough(error: float) -> bool:
        return growth - error * m / 2 * math.log(2) <= math.log(error)

    return last_that_holds(enough, 1.0, 1e-9, relative=1e-9, middle=geometric_mean)
