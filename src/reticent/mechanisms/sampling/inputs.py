"""What the mechanisms accept, checked before any randomness is drawn."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Floats, Ints
from reticent._numbers import exact, positive, whole
from reticent.errors import InvalidDataError, InvalidParameterError

# Beyond these an epsilon is a mistake; within them no product below overflows or
# becomes subnormal, so exactness never depends on the exponent.
_SMALLEST, _LARGEST = 2.0**-500, 2.0**500
_LARGEST_COUNT = 2**44
_LARGEST_EXACT = 2**53


def checked_epsilon(owner: str, epsilon: Any) -> float:
    """Return `epsilon` as a float of a plausible size."""
    value = positive(owner, "epsilon", epsilon)
    if not _SMALLEST <= value <= _LARGEST:
        raise InvalidParameterError(
            f"{owner} needs 2^-500 <= epsilon <= 2^500; got epsilon={value!r}."
        )
    return value


# Cached, because every answer of a model needs the same rate.
@lru_cache(maxsize=1024, typed=True)
def exact_rate(epsilon: float, *, divisor: int = 1, bound: int) -> float:
    """Return a float just below ``epsilon / divisor`` that multiplies exactly.

    Its product with any integer of size at most ``2 * bound`` is a float without
    rounding. What is lost of epsilon is below one part in ``2**(50 - b)``, with `b`
    the bits of `bound`, which must therefore be public.
    """
    if not bound <= _LARGEST_COUNT:
        raise InvalidParameterError(
            f"counts and scores must stay within 2^44 for exact arithmetic; got a "
            f"bound of {bound}."
        )
    # A certificate's epsilon means the decimal it prints, which may be below the
    # float: start from the former.
    target = exact(epsilon) / divisor
    bits = 52 - max(1, bound).bit_length()
    magnitude = target.numerator.bit_length() - target.denominator.bit_length()
    unit = Fraction(2) ** (magnitude + 1 - bits)
    return float(target // unit * unit)


def exact_products(counts: Ints, rate: float) -> Floats:
    """Return counts times an `exact_rate`, which are floats without rounding."""
    return np.asarray(counts.astype(np.float64) * rate)


def whole_numbers(name: str, values: ArrayLike) -> Ints:
    """Return values as int64 if each is a whole number of at most 2^53 in size."""
    try:
        given = np.asarray(values)
    except ValueError:
        raise InvalidDataError(f"{name} must be a rectangular array.") from None
    if given.dtype.kind not in "iuf":
        raise InvalidDataError(
            f"{name} must be whole numbers; got dtype {given.dtype}. Numbers beyond "
            "64 bits are not accepted."
        )
    # NaN fails both comparisons.
    if not ((given >= -_LARGEST_EXACT) & (given <= _LARGEST_EXACT)).all():
        raise InvalidDataError(
            f"{name} must be finite and at most 2^53 in size, so that floats hold "
            "them exactly."
        )
    result = given.astype(np.int64)
    if given.dtype.kind == "f" and not (result == given).all():
        raise InvalidDataError(f"{name} must be whole numbers; got fractions.")
    return result


def _row_sums(counts: Ints) -> Ints:
    # Column by column: NumPy sums many short rows slowly. Sums stay within 64 bits,
    # or are large enough to be refused before they could wrap around.
    if counts.shape[1] > 64:
        wide = counts.sum(axis=1, dtype=np.float64)
        return np.asarray(np.minimum(wide, 2.0**60).astype(np.int64))
    totals: Ints = counts[:, 0].copy()
    for label in range(1, counts.shape[1]):
        totals += counts[:, label]
    return totals


def vote_counts(
    votes: ArrayLike, *, voters: Any = None, n_labels: int | None = None
) -> tuple[Ints, int]:
    """Return votes of shape (n, n_labels) and the public number of voters.

    Without `voters` every row must hold the same number of votes, which is then the
    number of voters. With `voters` a row may hold fewer (abstentions), never more.
    """
    counts = whole_numbers("votes", votes)
    if counts.ndim != 2 or counts.shape[1] < 2:
        raise InvalidDataError(
            "votes must have shape (n, n_labels) with at least two labels; got shape "
            f"{counts.shape}."
        )
    if n_labels is not None and counts.shape[1] != n_labels:
        raise InvalidDataError(
            f"this rule is for {n_labels} labels; got votes for {counts.shape[1]}."
        )
    if not (counts >= 0).all():
        raise InvalidDataError("votes must not be negative.")
    totals = _row_sums(counts)
    if voters is None:
        if not len(counts):
            return counts, 1
        if not (totals == totals[0]).all():
            raise InvalidDataError(
                "every row must hold the same number of votes, one per voter; pass "
                "voters=... if voters may abstain."
            )
        public = int(totals[0])
        if not public > 0:
            raise InvalidDataError("votes are empty: nobody voted in a row.")
    else:
        public = whole("votes", "voters", voters)
        if not (totals <= public).all():
            raise InvalidDataError(f"a row holds more votes than voters={public}.")
    if not public <= _LARGEST_COUNT:
        raise InvalidDataError(f"at most 2^44 voters are supported; got {public}.")
    return counts, public


def floats(name: str, values: NDArray[Any]) -> Floats:
    """Return finite float64 values, or refuse; integers must be exact as floats."""
    if values.dtype.kind not in "fiub" or values.dtype.itemsize > 8:
        raise InvalidParameterError(
            f"{name} needs real numbers of at most 64 bits; got dtype {values.dtype}."
        )
    result = values.astype(np.float64, copy=False)
    if not np.isfinite(result).all():
        raise InvalidParameterError(
            f"{name} needs finite numbers; got NaN or infinity."
        )
    # Compared as integers: 2^53 + 1 is 2^53 as a float.
    if (
        values.dtype.kind in "iu"
        and not ((values >= -(2**53)) & (values <= 2**53)).all()
    ):
        raise InvalidParameterError(f"{name} needs integers of at most 2^53 in size.")
    return result


def rational(value: Any) -> Fraction:
    """Return a Fraction or an int as a Fraction, and refuse anything else."""
    if not isinstance(value, (Fraction, int)) or isinstance(value, bool):
        raise InvalidParameterError(
            f"needs floats or Fractions; got a {type(value).__name__}."
        )
    return Fraction(value)


def nearest_float(value: Fraction) -> float:
    """Return the nearest float, or the largest one."""
    try:
        return float(value)
    except OverflowError:
        return float(np.finfo(np.float64).max)
