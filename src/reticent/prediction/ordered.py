"""One column in a declared order: what a cell is depends on that cell alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from reticent._arrays import Bools, Ints
from reticent._sklearn import MatrixLike
from reticent._text import one_of
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators import needs_no_validation

ORDERS = ("numbers", "text", "dates")

# Kinds of arrays whose cells are, or may be, of each order. Text may spell a number.
_TAKEN = {"numbers": "biufUSTO", "text": "USTO", "dates": "mMO"}
_KEPT = {"numbers": np.float64, "text": np.str_, "dates": np.int64}


class _MissingError(Exception):
    """A cell that holds nothing."""


def ordered_column(
    column: NDArray[Any], order: str, what: str
) -> tuple[NDArray[Any], Bools]:
    """Return the cells that fit the order, in canonical form, and which ones do.

    Parameters
    ----------
    column : ndarray of shape (n,)
        Cells.
    order : {"numbers", "text", "dates"}
        What they are, a public fact. Numbers become floats of 64 bits, whether they
        came as such, as whole numbers or as text that spells one; dates, times and
        durations whole microseconds; text stays as it is.
    what : str
        What the column is called in errors.

    Returns
    -------
    values : ndarray of shape (n_fitting,)
        Canonical cells, of one type for each order.
    fits : ndarray of bool, shape (n,)
        Which cells fit: a cell of another order has no place in this one.

    Guarantee
    ---------
    Each cell is mapped by itself. A cell that does not fit changes neither the place
    of the others in the order nor their place relative to a query.

    Raises
    ------
    InvalidDataError
        If a value is missing, or no cell can be of this order.
    """
    one_of("order", order, *ORDERS)
    if column.dtype.kind not in _TAKEN[order]:
        raise InvalidDataError(
            f"{what} must hold ordered values, declared as order={order!r}; got dtype "
            f"{column.dtype}. Declare order='numbers', 'text' or 'dates'."
        )
    try:
        values, fits = _canonical(column, order)
    except _MissingError:
        raise InvalidDataError(
            f"{what} must hold ordered values without NaN: {order}, as declared."
        ) from None
    if len(column) and not fits.any():
        raise InvalidDataError(
            f"{what} was declared as order={order!r}, but no cell is of that kind. "
            "Declare order='numbers', 'text' or 'dates'."
        )
    return values, fits


def _canonical(column: NDArray[Any], order: str) -> tuple[NDArray[Any], Bools]:
    kind = column.dtype.kind
    if order == "numbers" and kind in "biuf":
        numbers = column.astype(np.float64, copy=False)
        if np.isnan(numbers).any():
            raise _MissingError
        return numbers, np.broadcast_to(np.True_, len(column))
    if order == "dates" and kind in "mM":
        if np.isnat(column).any():
            raise _MissingError
        return _microseconds(column), np.broadcast_to(np.True_, len(column))
    cell: Callable[[Any], Any] = {"numbers": _number, "text": _text, "dates": _moment}[
        order
    ]
    found = [cell(value) for value in column.tolist()]
    fits = np.array([value is not None for value in found], dtype=bool)
    kept = [value for value in found if value is not None]
    return np.array(kept, dtype=_KEPT[order]), fits


def _microseconds(column: NDArray[Any]) -> Ints:
    unit = "M8[us]" if column.dtype.kind == "M" else "m8[us]"
    return column.astype(unit).astype(np.int64)


def _refuse_missing(value: Any) -> None:
    """Raise for None, NaN, NaT and other libraries' missing values."""
    # pandas' NA is neither equal nor unequal to itself.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        raise _MissingError
    if isinstance(value, (float, np.floating)) and math.isnan(value):
        raise _MissingError
    if isinstance(value, (np.datetime64, np.timedelta64)) and np.isnat(value):
        raise _MissingError


def _number(value: Any) -> float | None:
    _refuse_missing(value)
    if isinstance(value, (date, timedelta, np.datetime64, np.timedelta64)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return None
    # Text that spells NaN is text: it is not a number, and nothing is missing.
    return None if math.isnan(number) else number


def _text(value: Any) -> str | None:
    _refuse_missing(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value if isinstance(value, str) else None


def _moment(value: Any) -> int | None:
    _refuse_missing(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, (timedelta, np.timedelta64)):
        return int(np.timedelta64(value).astype("m8[us]").astype(np.int64))
    if isinstance(value, (date, np.datetime64)):
        return int(np.datetime64(value).astype("M8[us]").astype(np.int64))
    return None


@dataclass(frozen=True, eq=False, repr=False)
class ColumnForm:
    """Where queries stand in the order of one column: public facts of a fit."""

    blank: Any  # number and names of the columns, see `blank_of`
    feature: int | str  # the column
    order: str  # what it holds

    @property
    def name(self) -> str:
        """What the column is called in errors."""
        return f"feature={self.feature!r}"

    def queries(self, X: MatrixLike) -> NDArray[Any]:
        """Return the canonical cell of each query; refuse one of another kind."""
        cells = table_column(self.blank, X, self.feature, reset=False)
        values, fits = ordered_column(cells, self.order, self.name)
        if not fits.all():
            raise InvalidDataError(
                f"a query's {self.name} must be one of the declared {self.order}."
            )
        return values


def table_column(
    model: Any, X: MatrixLike, feature: int | str, *, reset: bool
) -> NDArray[Any]:
    """Return one column of a table as its cells are, whatever others hold."""
    if hasattr(X, "columns"):
        validate_data(model, X, skip_check_array=True, reset=reset)
        names = list(X.columns)
        name = feature if isinstance(feature, str) else None
        if name is None and int(feature) < len(names):
            name = names[int(feature)]
        if name not in names:
            raise InvalidParameterError(
                f"feature={feature!r} is not a column; there are "
                f"{', '.join(map(str, names))}."
            )
        return np.asarray(X[name].to_numpy())
    if reset or not needs_no_validation(model, X):
        if isinstance(X, (list, tuple)):
            # As objects: one text among numbers would make an array of text.
            X = np.array(X, dtype=object)
        X = validate_data(model, X, dtype=None, reset=reset)
    if isinstance(feature, str) or not feature < X.shape[1]:
        raise InvalidParameterError(
            f"feature={feature!r} must be a column number below {X.shape[1]}, or a "
            "name if X is a data frame."
        )
    return np.asarray(X[:, int(feature)])
