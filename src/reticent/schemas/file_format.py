"""How a text file writes a table: separator, encoding, and how numbers look."""

from __future__ import annotations

import codecs
import io
import re
from collections import Counter
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, BinaryIO

from reticent.errors import InvalidParameterError

#: Encodings that files of records may have.
ENCODINGS = ("utf-8", "latin-1", "cp1252", "iso-8859-15", "cp850", "utf-16")
_DECIMALS = (".", ",")
#: What may stand between thousands, with the signs that look the same.
_THOUSANDS = {
    "": "",
    ".": ".",
    ",": ",",
    " ": " \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}",
    "'": "'\N{RIGHT SINGLE QUOTATION MARK}",
}
_CHUNK = 1 << 16


@dataclass(frozen=True)
class FileFormat:
    """How CSV files write their rows; public facts about files, not about records.

    Parameters
    ----------
    separator : str or None, default=None
        The character between fields; None is a comma, or a tab in a .tsv file.
    encoding : str, default="utf-8"
        How letters are stored: one of `ENCODINGS`. UTF-16 with a byte order mark is
        recognised without being named.
    decimal : {".", ","}, default="."
        The sign before the fraction of a number.
    thousands : {"", ".", ",", " ", "'"}, default=""
        The sign between groups of three digits. Such groups must be complete.

    Examples
    --------
    >>> FileFormat(decimal=",", thousands=".").plain("1.234,5")
    '1234.5'
    """

    separator: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""

    def __post_init__(self) -> None:
        separator = self.separator
        if separator is not None and not (
            isinstance(separator, str)
            and len(separator) == 1
            and separator.isascii()
            and separator not in '"\r\n\0'
        ):
            raise InvalidParameterError(
                f"separator needs one character of ASCII, neither a quotation mark nor "
                f"a line end; got {separator!r}."
            )
        for name, choices in (
            ("encoding", ENCODINGS),
            ("decimal", _DECIMALS),
            ("thousands", tuple(_THOUSANDS)),
        ):
            if getattr(self, name) not in choices:
                raise InvalidParameterError(
                    f"{name}={getattr(self, name)!r} needs one of "
                    f"{', '.join(map(repr, choices))}."
                )
        if self.decimal == self.thousands:
            raise InvalidParameterError(
                f"decimal and thousands are both {self.decimal!r}; numbers could be "
                "read in two ways. Give two different signs."
            )

    def as_dict(self) -> dict[str, Any]:
        """Return what differs from the defaults, for JSON."""
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if getattr(self, each.name) != each.default
        }

    @property
    def plain_numbers(self) -> bool:
        """Whether numbers are written as programs write them."""
        return self.decimal == "." and not self.thousands

    @property
    def between_thousands(self) -> str:
        """The signs that may stand between groups of three digits."""
        return _THOUSANDS[self.thousands]

    @cached_property
    def number_pattern(self) -> str:
        """The pattern of a number in ASCII digits, which Python and Arrow read alike.

        Python's own float() would also take underscores, other alphabets' digits and
        the words for infinity.
        """
        whole, point = "[0-9]+", re.escape(self.decimal)
        if self.thousands:
            # A dot is a dot inside brackets, too.
            whole = f"[0-9]{{1,3}}(?:[{self.between_thousands}][0-9]{{3}})+|[0-9]+"
        return (
            rf"[+-]?(?:(?:{whole})(?:{point}[0-9]*)?|{point}[0-9]+)"
            r"(?:[eE][+-]?[0-9]+)?"
        )

    @cached_property
    def _number(self) -> re.Pattern[str]:
        return re.compile(self.number_pattern)

    def plain(self, text: str) -> str | None:
        """Return a number as programs write it; None if the text is not a number."""
        if not self._number.fullmatch(text):
            return None
        for sign in self.between_thousands:
            text = text.replace(sign, "")
        return text.replace(self.decimal, ".")

    def number(self, text: str) -> float | None:
        """Return the number that a text stands for, or None."""
        plain = self.plain(text)
        return None if plain is None else float(plain)


#: Numbers as programs write them.
PLAIN = FileFormat()


class Recoded(io.RawIOBase):
    """A file in another encoding, read as UTF-8.

    Parameters
    ----------
    file : binary file
        The file, uncompressed.
    encoding : str
        Its encoding. What cannot be decoded raises UnicodeDecodeError.
    """

    def __init__(self, file: BinaryIO | io.BufferedIOBase, encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        self._ready = b""
        self._at_end = False

    def readable(self) -> bool:
        """Return that the file can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some UTF-8 into a buffer, and return the number of bytes."""
        while not self._ready and not self._at_end:
            data = self._file.read(_CHUNK)
            self._at_end = not data
            self._ready = self._decoder.decode(data, self._at_end).encode("utf-8")
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def close(self) -> None:
        """Close the file, too."""
        self._file.close()
        super().close()


def repeated_name(name: str, found: list[str]) -> str | None:
    """Return the name that `distinct_names` numbered, if it did."""
    numbered = re.fullmatch(r"(.+) \(\d+\)", name)
    base = None if numbered is None else numbered[1]
    return base if base in found else None


def distinct_names(header: list[str]) -> list[str]:
    """Return the columns' names, without spaces around them and each only once.

    A name that occurs again gets a number: 'weight', 'weight (2)'. A column without a
    name is called by its position: 'column 3'.
    """
    names = [
        name.strip() or f"column {place}" for place, name in enumerate(header, start=1)
    ]
    seen: Counter[str] = Counter()
    taken = set(names)
    found = []
    for name in names:
        seen[name] += 1
        if seen[name] > 1:
            numbered = f"{name} ({seen[name]})"
            while numbered in taken:
                seen[name] += 1
                numbered = f"{name} ({seen[name]})"
            taken.add(numbered)
            name = numbered
        found.append(name)
    return found
