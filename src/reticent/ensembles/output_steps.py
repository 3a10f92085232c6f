"""Bounded outputs as whole numbers of steps, so that no sum depends on its order."""

from __future__ import annotations

import numpy as np

from reticent._arrays import Bools, Floats, Ints
from reticent.estimators import check_bounds

# Our choice: 2^24 steps are finer than the noise of any mechanism that averages fewer
# than ten million outputs, and sums over 2^39 shards still fit 64 bits.
OUTPUT_STEPS = 1 << 24

# How far the operations of `_position` may be off, in steps: each rounds a number of
# at most `OUTPUT_STEPS` by at most 2^-29, and this is four times their sum.
_POSITION_ERROR = 2.0**-25


def probability_steps(probabilities: Floats) -> Ints:
    """Round each row to non-negative whole numbers that add up to `OUTPUT_STEPS`.

    Parameters
    ----------
    probabilities : ndarray of shape (..., n_classes)
        Class probabilities; invalid rows (not finite, negative, all zero) count as
        uniform.

    Returns
    -------
    ndarray of int of the same shape
        Numbers of steps of size ``1 / OUTPUT_STEPS``.

    Guarantee
    ---------
    For every input, each row of the result is a point of the simplex on the grid, so
    two rows differ by at most ``2 * OUTPUT_STEPS`` in l1 norm. A row of
    probabilities moves by at most one step in each coordinate.
    """
    return _between(np.rint(_cuts(probabilities)))


def sure_probability_steps(probabilities: Floats, errors: Floats) -> tuple[Ints, Bools]:
    """Return `probability_steps`, and which rows no error could have changed.

    `errors`, one per row, bound how far any sum of its first probabilities is off.
    """
    cuts = _cuts(probabilities)
    margin = OUTPUT_STEPS * errors[..., None]
    sure = np.rint(cuts - margin) == np.rint(cuts + margin)
    return _between(np.rint(cuts)), np.asarray(sure.all(axis=-1))


def _cuts(probabilities: Floats) -> Floats:
    """Return where the unit interval is cut into the shares, in steps.

    Cuts are rounded instead of shares: they are far from rounding boundaries where a
    share is 0 or 1, and their differences add up.
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
    if n_classes > 2:
        shares = np.cumsum(shares, axis=-1)
    return OUTPUT_STEPS * shares[..., :-1]


def _between(cuts: Floats) -> Ints:
    """Return the numbers of steps between whole cuts."""
    whole = cuts.astype(np.int64)
    steps = np.empty((*cuts.shape[:-1], cuts.shape[-1] + 1), dtype=np.int64)
    steps[..., 0] = whole[..., 0]
    steps[..., 1:-1] = whole[..., 1:] - whole[..., :-1]
    steps[..., -1] = OUTPUT_STEPS - whole[..., -1]
    return steps


def output_steps(outputs: Floats, bounds: tuple[float, float]) -> Ints:
    """Clip outputs to public bounds and count the steps from the lower one.

    Parameters
    ----------
    outputs : ndarray
        Real outputs; NaN, which marks a failed model, counts as the middle.
    bounds : (float, float)
        Public bounds, finite and in order.

    Returns
    -------
    ndarray of int
        ``k`` in ``0, ..., OUTPUT_STEPS``, which stands for
        ``low + k (high - low) / OUTPUT_STEPS``.

    Guarantee
    ---------
    For every input, results lie in ``[0, OUTPUT_STEPS]``. Clipped outputs move by at
    most half a step, up to floating-point rounding.
    """
    return np.rint(_position(outputs, bounds)).astype(np.int64)


def sure_output_steps(
    outputs: Floats, errors: Floats, bounds: tuple[float, float]
) -> tuple[Ints, Bools]:
    """Return `output_steps`, and which of them no error could have changed.

    `errors` bound how far each output may be off.
    """
    low, high = check_bounds(bounds)
    position = _position(outputs, bounds)
    steps = np.rint(position)
    position -= steps
    np.abs(position, out=position)
    with np.errstate(over="ignore", invalid="ignore"):
        position += errors * (OUTPUT_STEPS / 2 / (high / 2 - low / 2))
    # NaN compares as false, so it is not sure.
    return steps.astype(np.int64), position < 0.5 - _POSITION_ERROR


def _position(outputs: Floats, bounds: tuple[float, float]) -> Floats:
    """Return where clipped outputs lie between the bounds, in steps."""
    low, high = check_bounds(bounds)
    # Halved, the width of any two finite bounds is finite.
    position = np.asarray(np.clip(outputs, low, high))
    position /= 2
    position -= low / 2
    position /= high / 2 - low / 2
    position[np.isnan(position)] = 0.5
    position *= OUTPUT_STEPS
    return position
