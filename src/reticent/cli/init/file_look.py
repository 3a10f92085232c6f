"""How a file is written, found without looking at any record's values."""

from __future__ import annotations

import codecs
import gzip
from pathlib import Path
from typing import Any

from reticent.cli.init.asking import Asker, one_of
from reticent.errors import InvalidDataError
from reticent.schemas import ENCODINGS, FileFormat

_GZIP = b"\x1f\x8b"
_SEPARATORS = {";": ";", ",": ",", "tab": "\t", "|": "|"}
_CHUNK = 1 << 20


def find_format(path: Path, ask: Asker, given: dict[str, str | None]) -> FileFormat:
    """Ask how a CSV file is written; the file itself suggests encoding and separator.

    Parameters
    ----------
    path : Path
        The file.
    ask : Asker
        Who asks.
    given : dict
        What options say: separator, encoding, decimal, thousands.
    """
    if path.name.lower().endswith((".parquet", ".pq")):
        return FileFormat()
    if not path.is_file():
        raise InvalidDataError(f"{path}: there is no such file. Check the path.")
    encoding = ask.ask(
        f"How are letters stored ({', '.join(ENCODINGS)})?",
        "--encoding",
        one_of(*ENCODINGS),
        given=given["encoding"],
        default=_encoding(path),
    )
    separator = ask.ask(
        "Which character is between fields (; , tab |)?",
        "--separator",
        _one_character,
        given=given["separator"],
        default=_separator(_header(path, encoding)),
    )
    usual = "," if separator == ";" else "."
    decimal = ask.ask(
        "Which sign is before fractions (. or ,)?",
        "--decimal",
        one_of(".", ","),
        given=given["decimal"],
        default=usual,
    )
    thousands = ask.ask(
        "Which sign is between thousands (. , ' space or none)?",
        "--thousands",
        _thousands,
        given=given["thousands"],
        default="none",
    )
    return FileFormat(separator, encoding, decimal, thousands)


def _thousands(text: str) -> str:
    words = {"none": "", "space": " ", "": ""}
    return words[text] if text in words else one_of(".", ",", "'", " ")(text)


def _one_character(text: str) -> str:
    named = _SEPARATORS.get(text, text)
    FileFormat(separator=named)  # refuses what cannot be one
    return named


def _open(path: Path) -> Any:
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    return gzip.open(path) if packed else path.open("rb")


def _encoding(path: Path) -> str:
    """Return an encoding that all letters of a file can be read in."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _open(path) as file:
        start = file.read(2)
        if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        chunk = start + file.read(_CHUNK)
        try:
            while chunk:
                decoder.decode(chunk)
                chunk = file.read(_CHUNK)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


def _header(path: Path, encoding: str) -> str:
    with _open(path) as file:
        text: str = file.read(1 << 16).decode(encoding, errors="replace")
    return next((line for line in text.splitlines() if line.strip()), "")


def _separator(header: str) -> str:
    """Return the separator that the header has most of."""
    counts = {name: header.count(sign) for name, sign in _SEPARATORS.items()}
    return max(counts, key=lambda name: counts[name])
