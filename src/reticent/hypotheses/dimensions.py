"""Growth functions and VC dimensions in closed form."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

from reticent.errors import InvalidParameterError


def sauer_shelah(m: int, vc_dimension: int) -> int:
    r"""Bound the labelings of `m` points by a class: :math:`\sum_{i \le d} \binom mi`.

    Parameters
    ----------
    m : int
        Number of points.
    vc_dimension : int
        VC dimension :math:`d` of the class, or an upper bound on it.

    Returns
    -------
    int
        Exact integer arithmetic; :math:`2^m` when :math:`m \le d`.

    Examples
    --------
    >>> sauer_shelah(10, 2)
    56
    """
    points = checked_count("m", m, at_least=0)
    dimension = checked_count("vc_dimension", vc_dimension, at_least=0)
    if points <= dimension:
        return int(2**points)
    return sum(math.comb(points, i) for i in range(dimension + 1))


def cover_count(m: int, dimension: int) -> int:
    r"""Count the labelings of `m` points in general position by affine halfspaces.

    Cover's formula :math:`2 \sum_{i \le d} \binom{m-1}{i}`; points in special position
    have fewer, so this is the growth function.
    """
    points = checked_count("m", m, at_least=0)
    if points == 0:
        return 1
    return 2 * sum(math.comb(points - 1, i) for i in range(dimension + 1))


def alternations(m: int, changes: int, *, either_start: bool) -> int:
    """Count 0-1 sequences of length `m` with at most `changes` changes.

    With a fixed start the sequence is preceded by that label, so that a different first
    label is a change too.
    """
    points = checked_count("m", m, at_least=0)
    if points == 0:
        return 1
    if either_start:
        return 2 * sum(math.comb(points - 1, i) for i in range(changes + 1))
    return sum(math.comb(points, i) for i in range(changes + 1))


def stump_vc(n_features: int) -> int:
    r"""Return the VC dimension of stumps of both signs on `n_features` features.

    It is the largest :math:`m` with :math:`\binom{m}{\lfloor m/2 \rfloor} \le 2d`. One
    feature orders the points; its prefixes and suffixes of size at most :math:`m/2` are
    two chains of sets whose largest members are disjoint. To shatter, the chains must
    reach every set of size :math:`\lfloor m/2 \rfloor`, two per feature; and this
    suffices, because all smaller sets embed injectively level by level, and the largest
    ones can be matched in disjoint pairs (odd graphs are connected and
    vertex-transitive).
    """
    m = 1
    while math.comb(m + 1, (m + 1) // 2) <= 2 * n_features:
        m += 1
    return m


def checked_count(name: str, value: Any, *, at_least: int) -> int:
    """Return `value` as an int; refuse what is not a whole number in range."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (whole and value >= at_least):
        raise InvalidParameterError(
            f"{name}={value!r} is not possible; a whole number >= {at_least} is needed."
        )
    return int(value)
