"""Rows as small whole numbers, by public facts about their columns alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.schemas import Categorical, Numeric, transformed

#: What a numeric column is divided into. The last code is for missing values.
STEPS = 1024
# Up to this many rows, one call for several columns is faster than one for each.
_FEW_ROWS = 64
_MOST_LEVELS = 10_000

#: A range, a number of levels, or a column of `reticent.schemas`.
ColumnFacts: TypeAlias = "tuple[float, float] | int | Numeric | Categorical"
Codes: TypeAlias = NDArray[np.int16]


@dataclass(frozen=True)
class CodedColumn:
    """One column as whole numbers."""

    #: The range after the transform; 0 and the number of levels for categories.
    low: float
    high: float
    transform: str = "none"  #: as for `reticent.schemas.Numeric`
    levels: int = 0  #: number of levels; 0 for numbers

    @property
    def numeric(self) -> bool:
        """Whether this is a column of numbers."""
        return self.levels == 0

    @property
    def n_codes(self) -> int:
        """How many codes there are, that of missing values included."""
        return (STEPS if self.numeric else self.levels) + 1

    def outside(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which values are outside the range, or none of the levels.

        NaN is a missing value, which is not outside.
        """
        if not self.numeric:
            level = (
                (values >= 0) & (values < self.levels) & (values == np.floor(values))
            )
            return ~(level | np.isnan(values))
        if self.transform != "none":
            with np.errstate(invalid="ignore", over="ignore"):
                if self.transform == "log1p":
                    values = np.maximum(values, -1 + 1e-9)
                values = transformed(self.transform, values)
        return np.asarray((values < self.low) | (values > self.high))

    def encode(self, values: NDArray[np.float64]) -> Codes:
        """Return the codes of values; those outside the range go to its ends."""
        missing = np.isnan(values)
        known = np.where(missing, self.low, values)
        if self.numeric:
            if self.transform == "log1p":
                known = np.maximum(known, -1 + 1e-9)
            with np.errstate(over="ignore"):  # far outside is outside, without a word
                scaled = (transformed(self.transform, known) - self.low) / (
                    self.high - self.low
                )
                codes = np.clip(np.floor(scaled * STEPS), 0, STEPS - 1)
        else:
            inside = (known >= 0) & (known < self.levels) & (known == np.floor(known))
            codes = np.where(inside, known, self.levels)
        return np.where(missing, self.n_codes - 1, codes).astype(np.int16)


@dataclass(frozen=True)
class CodedColumns:
    """How every column becomes a whole number.

    A row's codes depend on that row and on public facts alone.
    """

    columns: tuple[CodedColumn, ...]

    @classmethod
    def of(cls, facts: Sequence[ColumnFacts] | None, n_features: int) -> CodedColumns:
        """Read facts about columns, one per feature.

        None declares that every column lies between -1 and 1.
        """
        if facts is None:
            facts = [(-1.0, 1.0)] * n_features
        if isinstance(facts, str) or len(facts) != n_features:
            raise InvalidParameterError(
                f"columns needs one entry for each of the n_features={n_features} "
                f"columns of X; got {len(facts)}. An entry is a public range "
                "(low, high), a number of levels, or a column of reticent.schemas."
            )
        return cls(tuple(_column(place, fact) for place, fact in enumerate(facts)))

    def __len__(self) -> int:
        return len(self.columns)

    def encode(self, X: Any) -> Codes:
        """Return the codes of rows, of shape (n_rows, n_columns).

        NaN is a missing value. Infinities are refused.
        """
        values = np.asarray(X, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self):
            raise InvalidDataError(
                f"X of shape {values.shape} needs {len(self)} columns, as declared."
            )
        if np.isinf(values).any():
            raise InvalidDataError("Input X contains infinity; give finite numbers.")
        codes = np.empty(values.shape, dtype=np.int16)
        single: Sequence[int] = range(len(self))
        if len(values) <= _FEW_ROWS:
            # The same for each number, in one call for all these columns.
            together, as_one, single = self._alike
            codes[:, together] = as_one.encode(values[:, together])
        for place in single:
            codes[:, place] = self.columns[place].encode(values[:, place])
        return codes

    @cached_property
    def _alike(self) -> tuple[list[int], CodedColumn, list[int]]:
        """Numbers without a transform, all of them as one column, and the others."""
        alike = [c.numeric and c.transform == "none" for c in self.columns]
        places = [place for place, same in enumerate(alike) if same]
        low, high = (
            np.array([getattr(self.columns[place], end) for place in places])
            for end in ("low", "high")
        )
        others = [place for place, same in enumerate(alike) if not same]
        return places, CodedColumn(low, high), others  # type: ignore[arg-type]

    def as_list(self) -> list[list[Any]]:
        """Return plain data for JSON."""
        return [[c.low, c.high, c.transform, c.levels] for c in self.columns]

    @classmethod
    def from_list(cls, data: Sequence[Sequence[Any]]) -> CodedColumns:
        """Undo `as_list`."""
        return cls(tuple(CodedColumn(*each) for each in data))


def _column(place: int, fact: Any) -> CodedColumn:
    if isinstance(fact, Categorical):
        fact = len(fact.levels)
    if isinstance(fact, Numeric):
        ends = transformed(fact.transform, np.array([fact.low, fact.high]))
        return CodedColumn(float(ends[0]), float(ends[1]), fact.transform)
    if isinstance(fact, int | np.integer) and not isinstance(fact, bool):
        if not 1 <= fact <= _MOST_LEVELS:
            raise InvalidParameterError(
                f"columns[{place}]={fact} must be a number of levels from 1 to "
                f"{_MOST_LEVELS}."
            )
        return CodedColumn(0.0, float(fact), levels=int(fact))
    try:
        low, high = (float(end) for end in fact)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not 0 < high - low < np.inf:
        raise InvalidParameterError(
            f"columns[{place}]={fact!r} must be a public range (low, high) with "
            "low < high, a number of levels, or a column of reticent.schemas."
        )
    return CodedColumn(low, high)
