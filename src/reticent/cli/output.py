"""The one place that prints: text for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

from reticent.errors import InvalidParameterError, ReticentError

DONE, FAILED, MISUSED = 0, 1, 2


class Output:
    """What a command says, as text or as one JSON document.

    Parameters
    ----------
    as_json : bool
        Whether to print one JSON document instead of text.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def result(
        self, data: dict[str, Any], lines: Iterable[str], *, failed: bool = False
    ) -> None:
        """Print what a command found: `lines` for people, `data` for programs.

        Lines about a failure go where errors go.
        """
        if self.as_json:
            print(json.dumps(data, indent=None if failed else 1, default=str))
            return
        for line in lines:
            print(line, file=sys.stderr if failed else sys.stdout)

    def note(self, text: str) -> None:
        """Tell a person what is going on; silent in JSON."""
        if not self.as_json:
            print(text, file=sys.stderr)

    def error(self, error: BaseException) -> int:
        """Say in one sentence what went wrong; return the exit code."""
        code = exit_code(error)
        kind = type(error).__name__ if isinstance(error, ReticentError) else "Error"
        message = " ".join(str(error).split())
        if self.as_json:
            print(json.dumps({"error": {"code": kind, "message": message}}))
        else:
            print(f"reticent: {message}", file=sys.stderr)
        return code


def exit_code(error: BaseException) -> int:
    """Return 2 for a mistake in what was asked, 1 for everything else."""
    return MISUSED if isinstance(error, InvalidParameterError) else FAILED


def confirmed(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone; in a pipe, --yes must be given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidParameterError(f"{question} Confirm it with --yes.")
    typer.confirm(question, abort=True, err=True)


def check_new_file(option: str, path: Path) -> None:
    """Refuse a file that is there or cannot be written, before any work is done."""
    if path.exists():
        raise InvalidParameterError(
            f"{option} {str(path)!r} is there already; choose another name."
        )
    if not path.parent.is_dir():
        raise InvalidParameterError(
            f"{option} {str(path)!r}: there is no folder {str(path.parent)!r}."
        )
    path.touch(mode=0o600)
    path.unlink()


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows of text as lines with columns under each other."""
    if not rows:
        return []
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
