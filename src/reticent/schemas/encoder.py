"""Encodes rows as vectors, by a function of the schema alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import hypot, inf, sqrt
from typing import Any, Self

import numpy as np

from reticent._arrays import Floats
from reticent._numbers import up
from reticent.errors import InvalidParameterError
from reticent.schemas.basis import BASES, NumericFeatures
from reticent.schemas.columns import Categorical, Numeric, checked_choice, transformed
from reticent.schemas.schema import Schema
from reticent.schemas.table import Table

STYLES = ("dense", "ordinal")
SCALES = ("symmetric", "unit")

# Our choice: covers the rounding of a spline basis and of a norm taken in floating
# point, and is far below anything that noise could resolve.
_NORM_SLACK = 2.0**-40

INTERCEPT = "(intercept)"


class Encoder:
    r"""A deterministic map from validated rows to a matrix.

    Parameters
    ----------
    schema : Schema
        The columns with their public ranges and levels.
    style : {"dense", "ordinal"}, default="dense"
        Dense is for linear models: scaled numbers and one indicator per level.
        Ordinal is for trees: one feature per column, with clipped numbers and
        positions of levels, NaN if missing.
    scale : {"symmetric", "unit"}, default="symmetric"
        Whether numbers are scaled to [-1, 1] or to [0, 1] by their public range,
        after their transform. This and all that follow apply to the dense style.
    basis : {"linear", "bins", "splines"} or mapping, default="linear"
        Features of numeric columns: one number, the indicator of one of several
        intervals, or cubic B-splines. A mapping chooses by column; columns that are
        not in it are linear.
    knots : int, or mapping of str to int or sequence of float, default=4
        Public knots inside the range for bins and splines: their number, evenly spread
        after the transform, or their values, in the column's unit.
    intercept : bool, default=False
        Whether the first feature is the constant one.

    Attributes
    ----------
    names : tuple of str
        The features' names.
    n_features : int
        Number of features.
    row_norm_bound : float
        No encoded row has a larger Euclidean norm.

    Guarantee
    ---------
    Two encoders of equal schemas and settings give equal matrices for equal rows; a
    row's encoding uses no other data. Dense rows have norm at most `row_norm_bound`,
    which some row reaches up to a relative 1e-12. *Proof.* Each column's features
    lie in the unit ball: a scaled number in [-1, 1] or, if missing, an indicator;
    one indicator among many; B-splines, which are not negative and add up to one.
    So the square of a row's norm is at most the number of columns (plus one for the
    intercept), and the ends of the ranges reach it. Ordinal rows are bounded by the
    ranges, however small or large; where values may be missing, or a norm is beyond
    what floating point holds, the bound is infinite.

    Examples
    --------
    >>> from reticent.schemas import Categorical, Numeric, Schema
    >>> schema = Schema({"age": Numeric(0, 100), "ward": Categorical(["a", "b"])})
    >>> encoder = Encoder(schema)
    >>> encoder.names
    ('age', 'ward=a', 'ward=b')
    >>> encoder.transform(schema.rows([{"age": 25, "ward": "b"}]))
    array([[-0.5,  0. ,  1. ]])
    """

    def __init__(
        self,
        schema: Schema,
        *,
        style: str = "dense",
        scale: str = "symmetric",
        basis: str | Mapping[str, str] = "linear",
        knots: int | Mapping[str, int | Sequence[float]] = 4,
        intercept: bool = False,
    ) -> None:
        if not isinstance(schema, Schema):
            raise InvalidParameterError(
                f"schema needs a Schema; got {type(schema).__name__}. Read one with "
                f"Schema.read(path)."
            )
        self.schema = schema
        self.style = checked_choice("style", style, STYLES)
        self.scale = checked_choice("scale", scale, SCALES)
        if not isinstance(intercept, bool):
            raise InvalidParameterError(
                f"intercept needs true or false; got {intercept!r}."
            )
        self.intercept = intercept
        self.basis = self._by_numeric_column("basis", basis)
        self.knots = self._by_numeric_column("knots", knots)
        if style == "ordinal" and (intercept or basis != "linear"):
            raise InvalidParameterError(
                "style='ordinal' has no intercept and no basis: trees find their own "
                "thresholds. Leave both out, or use style='dense'."
            )
        self._plan_ordinal() if style == "ordinal" else self._plan_dense()
        if len(set(self.names)) != len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise InvalidParameterError(
                f"two features would be called {twice!r}. Rename a column or a level."
            )

    def _by_numeric_column(self, key: str, setting: Any) -> Any:
        """Return one setting for all, or a checked one for each named column."""
        if isinstance(setting, Mapping):
            unknown = [
                name
                for name in setting
                if not isinstance(self.schema.columns.get(name), Numeric)
            ]
            if unknown:
                raise InvalidParameterError(
                    f"{key} names {unknown[0]!r}, which is not a numeric column of the "
                    f"schema. Leave it out."
                )
            setting = dict(setting)
        for choice in setting.values() if isinstance(setting, dict) else [setting]:
            if key == "basis":
                checked_choice("basis", choice, BASES)
            elif isinstance(setting, dict) or type(choice) is int:
                continue
            else:
                raise InvalidParameterError(
                    f"knots needs a whole number, or a mapping from columns; got "
                    f"{choice!r}."
                )
        return setting

    def _setting(self, key: str, name: str) -> Any:
        setting = self.basis if key == "basis" else self.knots
        default = "linear" if key == "basis" else 4
        return setting.get(name, default) if isinstance(setting, dict) else setting

    def _plan_ordinal(self) -> None:
        names = list(self.schema.columns)
        self.names = tuple(names)
        self._number_places = [names.index(n) for n in self.schema.layout.numeric.names]
        self._code_places = [names.index(n) for n in self.schema.layout.category.names]
        longest: list[float] = []
        for spec in self.schema.columns.values():
            if spec.missing:
                longest.append(inf)
            elif isinstance(spec, Numeric):
                longest.append(max(abs(spec.low), abs(spec.high)))
            else:
                longest.append(float(len(spec.levels) - 1 + spec.other))
        # Squares of tiny numbers are zero and of huge ones infinite; hypot scales
        # first. The step of `up` covers numbers too small for a relative slack.
        norm = hypot(*longest)
        self.row_norm_bound = max(up(norm), norm * (1 + _NORM_SLACK))

    def _plan_dense(self) -> None:
        layout = self.schema.layout
        names: list[str] = [INTERCEPT] if self.intercept else []
        linear: list[tuple[int, int]] = []  # column among the numbers, feature
        shaped: list[tuple[int, int, NumericFeatures]] = []
        missing_columns: list[tuple[int, int]] = []
        starts: list[int] = []
        missing_places: list[int] = []
        for name, spec in self.schema.columns.items():
            start = len(names)
            if isinstance(spec, Categorical):
                names += [f"{name}={level}" for level in spec.levels]
                names += [f"{name}=(other)"] if spec.other else []
                starts.append(start)
                missing_places.append(len(names))
            else:
                column = layout.numeric.names.index(name)
                basis = self._setting("basis", name)
                if basis == "linear":
                    linear.append((column, start))
                    names.append(name)
                else:
                    knots = self._setting("knots", name)
                    features = NumericFeatures(name, spec, basis, knots)
                    shaped.append((column, start, features))
                    names += features.names
                if spec.missing:
                    missing_columns.append((column, len(names)))
            if spec.missing:
                names.append(f"{name}=(missing)")
        self.names = tuple(names)
        self._shaped = shaped
        self._linear = np.array(linear, dtype=np.intp).reshape(-1, 2).T
        self._missing_columns = (
            np.array(missing_columns, dtype=np.intp).reshape(-1, 2).T
        )
        self._starts = np.array(starts, dtype=np.intp)
        self._missing_places = np.array(missing_places, dtype=np.intp)
        # Work on missing values is skipped if no column allows them.
        self._some_missing = any(spec.missing for spec in self.schema.columns.values())
        self._plan_scaling()
        blocks = self.schema.n_columns + self.intercept
        self.row_norm_bound = sqrt(blocks) * (1 + _NORM_SLACK)

    def _plan_scaling(self) -> None:
        """Record the ends of the linear columns and which columns have a transform."""
        names = self.schema.layout.numeric.names
        specs = [self.schema.columns[names[column]] for column in self._linear[0]]
        kinds = [spec.transform for spec in specs if isinstance(spec, Numeric)]
        self._transforms = [
            (kind, np.flatnonzero([k == kind for k in kinds]))
            for kind in sorted(set(kinds) - {"none"})
        ]
        layout = self.schema.layout.numeric
        self._bottom = self._transformed(layout.low[self._linear[0]][None, :])
        top = self._transformed(layout.high[self._linear[0]][None, :])
        self._width = top - self._bottom

    def _transformed(self, numbers: Floats) -> Floats:
        if self._transforms:
            numbers = numbers.copy()
            for kind, places in self._transforms:
                numbers[:, places] = transformed(kind, numbers[:, places])
        return numbers

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.names)

    def transform(self, table: Table) -> Floats:
        """Return the encoded rows.

        Parameters
        ----------
        table : Table
            Rows that this encoder's schema has validated.

        Returns
        -------
        ndarray of float of shape (n_rows, n_features)
            The rows. NaN only in ordinal style, for missing values.
        """
        if not isinstance(table, Table) or table.schema != self.schema:
            raise InvalidParameterError(
                "transform needs a Table of this encoder's schema. Validate the rows "
                "with schema.rows(...), schema.table(...) or read_table(path, schema)."
            )
        return self._ordinal(table) if self.style == "ordinal" else self._dense(table)

    def _ordinal(self, table: Table) -> Floats:
        out = np.empty((len(table), self.n_features), dtype=np.float64)
        out[:, self._number_places] = table.numbers
        out[:, self._code_places] = np.where(table.codes < 0, np.nan, table.codes)
        return out

    def _dense(self, table: Table) -> Floats:
        out = np.zeros((len(table), self.n_features), dtype=np.float64)
        if self.intercept:
            out[:, 0] = 1.0
        columns, places = self._linear
        if len(columns):
            shares = self._transformed(table.numbers[:, columns]) - self._bottom
            shares /= self._width
            # Rounding in a transform may leave a value slightly outside its range.
            np.minimum(np.maximum(shares, 0.0, out=shares), 1.0, out=shares)
            if self.scale == "symmetric":
                shares *= 2.0
                shares -= 1.0
            if self._some_missing:
                shares[np.isnan(shares)] = 0.0
            out[:, places] = shares
        for column, start, features in self._shaped:
            values = features.values(table.numbers[:, column])
            out[:, start : start + values.shape[1]] = values
        columns, places = self._missing_columns
        if len(columns):
            out[:, places] = np.isnan(table.numbers[:, columns])
        if len(self._starts):
            codes = table.codes
            hot = self._starts + codes
            if self._some_missing:
                hot = np.where(codes < 0, self._missing_places, hot)
            out[np.arange(len(table))[:, None], hot] = 1.0
        return out

    def settings(self) -> dict[str, Any]:
        """Return everything but the schema, for JSON."""
        return {
            "style": self.style,
            "scale": self.scale,
            "basis": self.basis,
            "knots": self.knots,
            "intercept": self.intercept,
        }

    @classmethod
    def from_settings(cls, schema: Schema, settings: Mapping[str, Any]) -> Self:
        """Rebuild an encoder from its schema and `settings`."""
        known = {"style", "scale", "basis", "knots", "intercept"}
        if not (isinstance(settings, Mapping) and set(settings) <= known):
            raise InvalidParameterError(
                f"an encoder's settings are {', '.join(sorted(known))}; got others."
            )
        return cls(schema, **settings)
