"""Averages of values in [0, 1] over units, exact whatever the order of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Bools, Floats, Ints
from reticent.errors import InvalidDataError
from reticent.generalization.caller_code import Failed, run_withholding_errors
from reticent.mechanisms import RandomSource

#: Values are rounded to multiples of this, so that sums are whole numbers of steps.
GRID_BITS = 20
GRID = 2.0**-GRID_BITS

#: Maps positions of rows to a query's values there.
Call: TypeAlias = Callable[[Ints], Any]

_BLOCK = 256
# Matrix products may round differently: one value in ten thousand may flip.
_FLIPS = 1e-4


def unit_values(values: Any, positions: Ints, n_units: int) -> Ints:
    """Return each unit's average as a whole number of grid steps.

    There is one value per row, or one column per query; `positions` are the units of
    the rows. Values outside [0, 1] are clipped, and NaN counts as 0: a query must not
    fail because of a record.
    """
    table = _checked(values, len(positions))
    with np.errstate(all="ignore"):  # a warning would reveal something about a record
        numbers = table.astype(np.float64)
    bounded = np.clip(np.nan_to_num(numbers, nan=0.0), 0.0, 1.0)
    if n_units != len(positions):
        bounded = _averaged(bounded, positions, n_units)
    return np.rint(bounded * 2.0**GRID_BITS).astype(np.int64)


def unit_totals(values: Any, positions: Ints, n_units: int) -> Ints:
    """Return the sum of `unit_values` over units, for each query."""
    table = _checked(values, len(positions))
    if table.dtype == np.bool_ and n_units == len(positions):
        return np.asarray(np.count_nonzero(table, axis=0), np.int64) << GRID_BITS
    if table.ndim == 1:
        return np.asarray(unit_values(table, positions, n_units).sum(axis=0))
    # A block of columns at a time, because a table of many queries may fill the memory.
    blocks = [
        unit_values(table[:, start : start + _BLOCK], positions, n_units).sum(axis=0)
        for start in range(0, table.shape[1], _BLOCK)
    ]
    return np.concatenate([np.zeros(0, np.int64), *blocks])


def row_values(
    call: Call, n_rows: int, source: RandomSource | None = None
) -> NDArray[Any]:
    """Return a query's value at each row; refuse a query that looks at other rows.

    An average moves by at most ``1/n`` only if a row's value depends on that row alone.
    A query that centres or counts its rows violates this. With a `source` the query is
    asked again about two random halves of the rows and must return the same values.
    This catches honest mistakes; a query that cheats on purpose can pass it.
    """
    values = _checked(call(np.arange(n_rows)), n_rows)
    for half in _halves(n_rows, source):
        again = np.asarray(call(half))
        first = values[half]
        if first.shape != again.shape or _differs(first, again).mean() > _FLIPS:
            raise InvalidDataError(
                "a query's value at a row must depend on that row alone."
            )
    return values


def values_or_zero(
    call: Call, n_rows: int, shape: tuple[int, ...], source: RandomSource | None = None
) -> NDArray[Any]:
    """Return a query's value at each row, and 0 where it fails; never raise.

    A query that fails on many rows is asked about fewer, down to one: if it looks at
    each row alone, a row decides about its own value only. With a `source` the query is
    asked again about two random halves; a row where the values differ counts as 0.

    `call` maps positions of rows to one value per row, or to one column per query;
    `shape` is that of the values of one row, ``()`` or the number of queries.
    """
    values = _values_or_zero(call, np.arange(n_rows), shape)
    for half in _halves(n_rows, source):
        off = _differs(values[half], _values_or_zero(call, half, shape))
        if off.any():
            values = np.array(values)
            values[half] = np.where(off, 0, values[half])
    return values


def _halves(n_rows: int, source: RandomSource | None) -> list[Ints]:
    if source is None:
        return []
    order = source.permutation(n_rows)
    return [order[: n_rows // 2], order[n_rows // 2 :]]


def _values_or_zero(call: Call, rows: Ints, shape: tuple[int, ...]) -> NDArray[Any]:
    def ask(rows: Ints) -> NDArray[Any] | Failed:
        return run_withholding_errors(
            lambda: checked_shape(call(rows), len(rows), shape)
        )

    at_once = ask(rows)
    if not isinstance(at_once, Failed):
        return at_once
    values = np.zeros((len(rows), *shape))
    waiting = [np.arange(len(rows))]
    while waiting:
        part = waiting.pop()
        found = ask(rows[part])
        if not isinstance(found, Failed):
            values[part] = found
        elif len(part) > 1:
            waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
    return values


def checked_shape(values: Any, n_rows: int, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return values that have this shape per row, or raise."""
    table = _checked(values, n_rows)
    if table.shape[1:] != shape:
        raise InvalidDataError("a query must return one column per guess.")
    return table


def _differs(first: NDArray[Any], again: NDArray[Any]) -> Bools:
    """Return which values differ by more than rounding."""
    if first.dtype == np.bool_ and again.dtype == np.bool_:
        return np.asarray(first != again)
    close = np.isclose(
        first.astype(np.float64),
        again.astype(np.float64),
        rtol=1e-6,
        atol=1e-9,
        equal_nan=True,
    )
    return np.asarray(~close)


def _checked(values: Any, n_rows: int) -> NDArray[Any]:
    table = np.asarray(values)
    if table.dtype.kind not in "bfiu" or table.ndim not in (1, 2):
        raise InvalidDataError(
            "a query must return one number per row (or one column per query); got "
            f"dtype {table.dtype} with {table.ndim} dimensions."
        )
    if len(table) != n_rows:
        raise InvalidDataError(
            f"a query must return one value for each of {n_rows} rows; got "
            f"{len(table)}."
        )
    return table


def _averaged(values: Floats, positions: Ints, n_units: int) -> Floats:
    sums = np.zeros((n_units, *values.shape[1:]))
    np.add.at(sums, positions, values)
    counts = np.bincount(positions, minlength=n_units).astype(np.float64)
    return np.minimum(sums / counts.reshape(-1, *[1] * (values.ndim - 1)), 1.0)
