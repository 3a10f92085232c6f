"""Bounded outputs as whole numbers of steps, so that no sum depends on its order."""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidParameterError

# Our choice: 2^24 steps are finer than the noise of any mechanism that averages fewer
# than ten million outputs, and sums over 2^39 shards still fit 64 bits.
STEPS = 1 << 24


def probability_steps(probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round each row to non-negative whole numbers that add up to `STEPS`.

    Parameters
    ----------
    probabilities : ndarray of shape (..., n_classes)
        Class probabilities; rows that are none (not finite, negative, all zero) are
        taken as uniform.

    Returns
    -------
    ndarray of int of the same shape
        Numbers of steps of size ``1 / STEPS``.

    Guarantee
    ---------
    Whatever the input, every row of the result is a point of the simplex on the
    grid, so two rows differ by at most ``2 * STEPS`` in l1 norm. A row of
    probabilities moves by less than one step in each coordinate.
    """
    n_classes = probabilities.shape[-1]
    with np.errstate(invalid="ignore", over="ignore"):
        total = probabilities.sum(axis=-1, keepdims=True)
        valid = (probabilities >= 0).all(axis=-1, keepdims=True)
    valid &= (total > 0) & (total < np.inf)
    if valid.all():
        shares = probabilities / total
    else:
        uniform = np.full_like(probabilities, 1 / n_classes)
        shares = np.divide(probabilities, total, out=uniform, where=valid)
    if n_classes == 2:
        second = np.rint(shares[..., 1] * STEPS).astype(np.int64)
        return np.stack([STEPS - second, second], axis=-1)
    return _largest_remainders(shares)


def _largest_remainders(shares: NDArray[np.float64]) -> NDArray[np.int64]:
    exact = shares * STEPS
    steps = np.floor(exact).astype(np.int64)
    missing = STEPS - steps.sum(axis=-1, keepdims=True)
    # The labels that lost most by rounding down get a step each, earlier ones first.
    by_loss = np.argsort(steps - exact, axis=-1, kind="stable")
    rank = np.empty_like(by_loss)
    places = np.broadcast_to(np.arange(shares.shape[-1]), shares.shape)
    np.put_along_axis(rank, by_loss, places, axis=-1)
    return steps + (rank < missing)


def output_steps(
    outputs: NDArray[np.float64], bounds: tuple[float, float]
) -> NDArray[np.int64]:
    """Clip outputs to public bounds and count the steps from the lower one.

    Parameters
    ----------
    outputs : ndarray
        Real outputs; NaN, the mark of a failed model, is taken as the middle.
    bounds : (float, float)
        Public bounds, finite and in order.

    Returns
    -------
    ndarray of int
        ``k`` in ``0, ..., STEPS``, which stands for ``low + k (high - low) / STEPS``.

    Guarantee
    ---------
    Whatever the input, results lie in ``[0, STEPS]``. Clipped outputs move by at most
    half a step, up to floating-point rounding.
    """
    low, high = check_bounds(bounds)
    # Halved, the width of any two finite bounds is finite.
    share = (np.clip(outputs, low, high) / 2 - low / 2) / (high / 2 - low / 2)
    steps = np.rint(np.where(np.isnan(share), 0.5, share) * STEPS)
    return np.clip(steps, 0, STEPS).astype(np.int64)


def check_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """Return `bounds` as two finite floats in order, or refuse them."""
    low, high = (float(bound) for bound in bounds)
    if not (isfinite(low) and isfinite(high) and high / 2 - low / 2 > 0):
        raise InvalidParameterError(
            f"bounds=({low}, {high}) must be finite numbers with low < high, known "
            "without looking at the records."
        )
    return low, high
