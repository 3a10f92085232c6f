"""Drawing the answers of requests that wait together in one pass over the models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np

from reticent.ledger import Draw, Receipt
from reticent.schemas import PackedRows, Table, unpacked

Compute: TypeAlias = Callable[[Table], list[bytes]]

# Requests with at most this many rows are computed together with others. A larger one
# has a thread of its own, so that nobody waits for it.
FEW_ROWS = 64


@dataclass(slots=True)
class Asked:
    """The rows of a request, and how many of them were drawn for it."""

    table: Table | PackedRows
    drawn: int = 0


class Drawing:
    """Computes answers, those of concurrent requests together.

    One product with the weights of all models costs nearly the same for one row and
    for thirty. Requests of one commit are therefore computed together, on the thread
    that commits: this is why the model runs inside the ledger's writer thread.

    Guarantee
    ---------
    Every row gets its own draw with fresh randomness, whoever it came with.
    """

    def __init__(self) -> None:
        self._waiting: dict[Compute, list[tuple[Table, asyncio.Future[list[bytes]]]]]
        self._waiting = {}

    def together(self, compute: Compute) -> Draw:
        """Return what draws for requests that were charged together.

        It is equal for the same `compute`: the ledger groups requests by it. What each
        request is about is an `Asked`.
        """
        return _Together(compute)

    async def answers(self, compute: Compute, rows: Table | PackedRows) -> list[bytes]:
        """Return one answer per row, for requests that are not charged together."""
        table = as_table(rows)
        if len(table) > FEW_ROWS:
            return await asyncio.to_thread(compute, table)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[bytes]] = loop.create_future()
        queue = self._waiting.get(compute)
        if queue is None:
            queue = self._waiting[compute] = []
            loop.call_soon(self._flush, compute)
        queue.append((table, future))
        return await future

    def _flush(self, compute: Compute) -> None:
        queue = self._waiting.pop(compute)
        try:
            answers = _split(compute, [table for table, _ in queue])
        except Exception as error:  # noqa: BLE001 - handed on to those who asked
            for _, future in queue:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), own in zip(queue, answers, strict=True):
            if not future.done():  # a request that was cancelled
                future.set_result(own)


@dataclass(frozen=True, slots=True)
class _Together:
    """Draws by one model. Nobody keeps it, so a model that was replaced is let go."""

    compute: Compute

    def __call__(self, asked: Sequence[tuple[Asked, Receipt]]) -> list[list[bytes]]:
        return _drawn(self.compute, asked)


def _drawn(
    compute: Compute, asked: Sequence[tuple[Asked, Receipt]]
) -> list[list[bytes]]:
    rows: list[Table | PackedRows] = []
    for about, receipt in asked:
        about.drawn = len(receipt.draw)
        if about.drawn == len(receipt.answers):
            rows.append(about.table)
        else:
            rows.append(as_table(about.table).take(list(receipt.draw)))
    if all(type(each) is PackedRows for each in rows):
        packed = [each for each in rows if isinstance(each, PackedRows)]
        return _shared_out(compute(unpacked(packed)), [each.n_rows for each in packed])
    return _split(compute, [as_table(each) for each in rows])


def as_table(rows: Table | PackedRows) -> Table:
    """Return rows as a table, if they are not one already."""
    return rows.table() if isinstance(rows, PackedRows) else rows


def _split(compute: Compute, tables: list[Table]) -> list[list[bytes]]:
    """Compute the answers of all tables at once; return those of each."""
    if len(tables) == 1:
        return [compute(tables[0])]
    return _shared_out(compute(_joined(tables)), [len(table) for table in tables])


def _shared_out(answers: list[bytes], counts: list[int]) -> list[list[bytes]]:
    if len(answers) == len(counts):
        return [[answer] for answer in answers]
    left = iter(answers)
    return [list(islice(left, count)) for count in counts]


def _joined(tables: list[Table]) -> Table:
    return Table(
        tables[0].schema,
        np.concatenate([table.numbers for table in tables]),
        np.concatenate([table.codes for table in tables]),
    )
