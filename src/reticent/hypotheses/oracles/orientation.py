r"""The side of a hyperplane on which a point lies, decided exactly for given floats.

A hyperplane is given by `d` points in :math:`R^d`, `d` being 2 or 3; the side of `x` is
the sign of a determinant. It is computed in floating point together with a bound on its
error, and only signs in doubt are decided in integers of any length. With decimal data
doubt is common: (0.1, 0.3), (0.2, 0.6), (0.3, 0.9) are not on a line.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats

# Whole coordinates of this many bits have determinants below 2**53, which are exact.
_EXACT_BITS = {2: 24, 3: 15}
# Rounding errors: at most 16 of them, each half of 2**-52, on terms summed in the
# bound.
_RELATIVE = 16 * 2.0**-52
# Coordinates are scaled to at most 1, so underflow is far below this.
_ABSOLUTE = 1e-300


def sides(anchors: Floats, X: Floats) -> NDArray[np.int8]:
    """Return the side (-1, 0, 1) of each row of `X` for each of many hyperplanes.

    `anchors`, of shape (k, d, d), are the points that span each hyperplane. If they lie
    in a smaller flat, every side is 0.
    """
    flat, points, whole = _scaled(anchors, X)
    normal, size = _normals(flat)
    base = np.einsum("kj,kj->k", normal, flat[:, 0])
    value = normal @ points.T
    value -= base[:, np.newaxis]
    if whole:
        return np.sign(value).astype(np.int8)
    reach = np.abs(points).max(axis=0) + np.abs(flat[:, 0])
    doubt = _RELATIVE * (size * reach).sum(axis=1) + _ABSOLUTE
    found = np.sign(value).astype(np.int8)
    plane, point = np.nonzero(np.abs(value) <= doubt[:, np.newaxis])
    found[plane, point] = _exact(anchors[plane], X[point])
    return found


def paired_sides(anchors: Floats, X: Floats) -> NDArray[np.int8]:
    """Return the side of ``X[i]`` for the hyperplane ``anchors[i]``."""
    if len(X) == 0:
        return np.zeros(0, dtype=np.int8)
    flat, points, whole = _scaled(anchors, X)
    normal, size = _normals(flat)
    value = np.einsum("kj,kj->k", normal, points)
    value -= np.einsum("kj,kj->k", normal, flat[:, 0])
    found = np.sign(value).astype(np.int8)
    if whole:
        return found
    reach = np.abs(points) + np.abs(flat[:, 0])
    doubt = np.flatnonzero(
        np.abs(value) <= _RELATIVE * (size * reach).sum(axis=1) + _ABSOLUTE
    )
    found[doubt] = _exact(anchors[doubt], X[doubt])
    return found


def _scaled(anchors: Floats, X: Floats) -> tuple[Floats, Floats, bool]:
    """Scale every axis by a power of two; say whether what follows is exact.

    Scaling an axis changes no side. Where all coordinates are then short whole numbers,
    so are all products and sums below.
    """
    d = X.shape[1]
    largest = np.maximum(np.abs(anchors).max(axis=(0, 1)), np.abs(X).max(axis=0))
    exponent = np.frexp(largest)[1]
    bits = _EXACT_BITS[d]
    flat, points = (np.ldexp(part, bits - exponent) for part in (anchors, X))
    if (flat == np.rint(flat)).all() and (points == np.rint(points)).all():
        return flat, points, True
    return np.ldexp(anchors, -exponent), np.ldexp(X, -exponent), False


def _normals(anchors: Floats) -> tuple[Floats, Floats]:
    """Return normal vectors, and the same with every term taken positive."""
    edges = anchors[:, 1:] - anchors[:, :1]
    if anchors.shape[1] == 2:
        normal = np.stack([-edges[:, 0, 1], edges[:, 0, 0]], axis=1)
        return normal, np.abs(normal)
    one, other = edges[:, 0], edges[:, 1]
    after, before = [1, 2, 0], [2, 0, 1]
    plus, minus = one[:, after] * other[:, before], one[:, before] * other[:, after]
    return plus - minus, np.abs(plus) + np.abs(minus)


def _exact(anchors: Floats, X: Floats) -> NDArray[np.int8]:
    """Decide signs in Python integers; anchors themselves lie on their hyperplane."""
    found = np.zeros(len(X), dtype=np.int8)
    open_ = np.flatnonzero(~(anchors == X[:, np.newaxis, :]).all(axis=2).any(axis=1))
    if len(open_) == 0:
        return found
    together = np.concatenate([anchors[open_], X[open_][:, np.newaxis, :]], axis=1)
    whole = _integers(together)
    normal, _ = _normals(whole[:, :-1])
    offset = whole[:, -1] - whole[:, 0]
    found[open_] = np.sign((normal * offset).sum(axis=1)).astype(np.int8)
    return found


def _integers(values: Floats) -> NDArray[Any]:
    """Return floats as Python integers on one grid; nothing is lost."""
    mantissa, exponent = np.frexp(values)
    digits = np.ldexp(mantissa, 53).astype(np.int64).astype(object)
    shift = np.where(values == 0, exponent.max(), exponent)
    grid: NDArray[Any] = digits * (2 ** (shift - shift.min()).astype(object))
    return grid
