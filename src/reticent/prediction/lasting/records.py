"""Questions and their answers as records of a log."""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import LedgerError

#: By which rules records charge units; the first record of each log has this number.
#: Whoever changes what a trace means, or a constant by which `LastingLaw.replay` counts
#: what units pay (`neighbors.votes.SHELLS`, `ONE`, `LOUDEST` and others of
#: `neighbors.votes`), adds one: a log of other rules is then refused.
REPLAY = 1
MARK = 16
_NOBODY = bytes(MARK)
_HEAD = struct.Struct("<I")
# The ledger's answers take a mebibyte; a client's name takes this much of it at most.
_LARGEST, _NAME = 2**20 - 4096, 160
_MOST_ROWS = 2048
# A trace takes a few numbers besides those of its labels.
_BESIDES = 16


def row_type(n_columns: int, width: int) -> np.dtype[Any]:
    """Return the type of one question with its answer.

    Parameters
    ----------
    n_columns, width : int
        How many numbers a question has, and its trace.
    """
    return np.dtype(
        [
            ("codes", "<i2", (n_columns,)),
            ("trace", "<i8", (width,)),
            ("answer", "<f8"),
            ("evidence", "<f8"),
        ]
    )


def most_rows(n_columns: int, n_labels: int) -> int:
    """Return how many questions one record holds at most; 0 labels for numbers."""
    each = row_type(n_columns, n_labels + _BESIDES).itemsize + _NAME
    return max(1, min(_MOST_ROWS, _LARGEST // each))


@dataclass(frozen=True, eq=False)
class QuestionRecord:
    """Questions that were answered together, in order."""

    mark: bytes  # random: by it a writer recognises its own record
    before: bytes  # the mark of the record before this one, so that a gap is seen
    asked: tuple[tuple[str, int], ...]  # who asked how many of the rows, in order
    # Codes, trace, answer and evidence of each question. The answer is a number, or the
    # place of a label.
    rows: NDArray[Any]
    # What the first record says about the model; other records have none.
    opening: dict[str, Any] | None = None

    @classmethod
    def first(cls, opening: dict[str, Any]) -> QuestionRecord:
        """Return the record that opens a log."""
        none = np.empty(0, dtype=row_type(1, 1))
        return cls(secrets.token_bytes(MARK), _NOBODY, (), none, opening)

    @classmethod
    def after(
        cls, before: bytes, asked: Sequence[tuple[str, int]], rows: NDArray[Any]
    ) -> QuestionRecord:
        """Return a record that follows the one with the mark `before`."""
        return cls(secrets.token_bytes(MARK), before, tuple(asked), rows)

    def by_client(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield who asked, with the rows."""
        start = 0
        for client, count in self.asked:
            yield client, self.rows[start : start + count]
            start += count

    def to_bytes(self) -> bytes:
        """Return the record as bytes."""
        kind = self.rows.dtype
        shape = [kind["codes"].shape[0], kind["trace"].shape[0]]
        head: dict[str, Any] = {"asked": self.asked, "shape": shape}
        if self.opening is not None:
            head["opening"] = self.opening
        text = json.dumps(head, sort_keys=True).encode()
        parts = (self.mark, self.before, _HEAD.pack(len(text)), text)
        return b"".join(parts) + self.rows.tobytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> QuestionRecord:
        """Read what `to_bytes` wrote, or refuse it."""
        try:
            (length,) = _HEAD.unpack_from(content, 2 * MARK)
            start = 2 * MARK + _HEAD.size + length
            head = json.loads(content[start - length : start])
            rows = np.frombuffer(content[start:], dtype=row_type(*head["shape"]))
            asked = tuple((client, int(count)) for client, count in head["asked"])
            complete = sum(count for _, count in asked) == len(rows)
            complete &= all(isinstance(client, str) for client, _ in asked)
        except (struct.error, ValueError, KeyError, TypeError):
            complete = False
        if not complete:
            raise LedgerError(
                "a record of questions has another form than this model writes. The "
                "ledger belongs to another model, or was changed."
            )
        opening = head.get("opening")
        return cls(content[:MARK], content[MARK : 2 * MARK], asked, rows, opening)
