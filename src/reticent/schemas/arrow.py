"""Columns of pyarrow, converted fast from text to numbers and codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats
from reticent.schemas.cells import UNKNOWN, Lookup
from reticent.schemas.file_format import PLAIN, FileFormat


class ArrowColumn:
    """A pyarrow array, chunked or not.

    Parameters
    ----------
    array : pyarrow.Array or pyarrow.ChunkedArray
        The cells.
    untyped : bool
        Whether text may stand for numbers, as in a CSV file.
    written : FileFormat
        How it does.
    """

    def __init__(
        self, array: Any, *, untyped: bool, written: FileFormat = PLAIN
    ) -> None:
        import pyarrow as pa

        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        self._is_text = str(array.type) in {"string", "large_string", "string_view"}
        # One type of text, long enough for any column.
        self._array = array.cast(pa.large_string()) if self._is_text else array
        self.untyped = untyped
        self.written = written
        digits = {"halffloat": 11, "float": 24}
        self.whole_below = 2 ** digits.get(str(array.type), 53)

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self._array)

    def numbers(self) -> Floats | None:
        """Return numbers if the type is numeric or every text is a plain number."""
        import pyarrow as pa

        kind = self._array.type
        if self._is_text and self.untyped:
            return self._numbers_of_text()
        if not (
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_decimal(kind)
        ):
            return None
        return self._floats(safe=False)

    def _numbers_of_text(self) -> Floats | None:
        import pyarrow as pa

        try:
            numbers = self._floats(safe=True, array=self._plain_text())
        except pa.ArrowInvalid:
            return None
        # Words for infinity and NaN are left to the careful pass.
        usual = int(np.isfinite(numbers).sum()) + self._array.null_count
        return numbers if usual == len(numbers) else None

    def _plain_text(self) -> Any:
        """Return the text with numbers as programs write them; refuse other text."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.written.plain_numbers:
            return self._array
        text = pc.utf8_trim_whitespace(self._array)
        pattern = f"^(?:{self.written.number_pattern})$"
        fits = pc.match_substring_regex(text, pattern)
        if not pc.all(fits, min_count=0).as_py():
            raise pa.ArrowInvalid("some text is not a number")
        for sign in self.written.between_thousands:
            text = pc.replace_substring(text, sign, "")
        return pc.replace_substring(text, self.written.decimal, ".")

    def _floats(self, *, safe: bool, array: Any = None) -> Floats:
        import pyarrow as pa

        floats = (self._array if array is None else array).cast(pa.float64(), safe=safe)
        # Nulls become NaN. A chunked array takes no further argument.
        if isinstance(floats, pa.ChunkedArray):
            numbers = floats.to_numpy()
        else:
            numbers = floats.to_numpy(zero_copy_only=False)
        return np.asarray(numbers, dtype=np.float64)

    def codes(self, lookup: Lookup) -> NDArray[np.int32] | None:
        """Return codes if the cells are text or numbers."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._is_text:
            kind = self._array.type
            if pa.types.is_integer(kind) or pa.types.is_floating(kind):
                return lookup.codes_of_numbers(self._floats(safe=False))
            return None
        if not self.untyped and lookup.kind is not str:
            return None
        spellings = lookup.spellings()
        known = pa.array(list(spellings), type=pa.large_string())
        found = pc.index_in(self._array, value_set=known)
        places = np.asarray(pc.fill_null(found, len(spellings)), dtype=np.intp)
        codes = np.array([*spellings.values(), UNKNOWN], dtype=np.int32)[places]
        rows = np.flatnonzero(places == len(spellings))
        if len(rows):  # missing, unknown or written differently
            cells = self._array.take(pa.array(rows)).to_pylist()
            codes[rows] = lookup.codes(cells, untyped=self.untyped)
        return codes

    def values(self) -> list[Any]:
        """Return the cells as Python objects."""
        cells: list[Any] = self._array.to_pylist()
        return cells
