"""The price of a computation that fails on the data: the failure is an answer too."""

from __future__ import annotations

import math

#: Share of the failure probability that is reserved for computations that fail.
SET_ASIDE = 2.0**-10

#: Bits that every session pays because a computation could have failed.
NO_FAILURE_BITS = 1 / 512


def failure_bits(step: int) -> float:
    """Return the bits that a failure at this step costs, counted from 1.

    Whether a computation fails can depend on the data, so the failure is an answer. The
    guess "it fails at step t" gets the share ``SET_ASIDE /
    (t (t + 1))``. These shares add up to less than `SET_ASIDE` over all steps, so the
    guess "it never fails" keeps nearly everything, and costs ``-log2(1 - SET_ASIDE)``,
    less than `NO_FAILURE_BITS`.

    Examples
    --------
    >>> round(failure_bits(1), 6), round(failure_bits(10), 3)
    (11.0, 16.781)
    """
    return math.log2(step * (step + 1) / SET_ASIDE)
