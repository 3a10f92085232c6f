"""Drawing the answers of requests that wait together in one pass over the models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from reticent.schemas import Table

Compute: TypeAlias = Callable[[Table], list[bytes]]

# Up to so many rows are computed on the event loop: a thread costs more than they do.
_INLINE_ROWS = 64


class Drawing:
    """Computes answers, those of concurrent requests together.

    One product with the weights of all models costs nearly the same for one row and
    for thirty. Commits wake their requests together, so requests that are ready in
    one turn of the event loop are computed in the next.

    Guarantee
    ---------
    Every row gets its own draw with fresh randomness, whoever it came with.
    """

    def __init__(self) -> None:
        self._waiting: dict[Compute, list[tuple[Table, asyncio.Future[list[bytes]]]]]
        self._waiting = {}

    async def answers(self, compute: Compute, table: Table) -> list[bytes]:
        """Return one answer a row."""
        if len(table) > _INLINE_ROWS:
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
        for start in range(0, len(queue), _INLINE_ROWS):
            self._draw(compute, queue[start : start + _INLINE_ROWS])

    def _draw(
        self, compute: Compute, group: list[tuple[Table, asyncio.Future[list[bytes]]]]
    ) -> None:
        try:
            answers = compute(_joined([table for table, _ in group]))
        except Exception as error:  # noqa: BLE001 - handed on to those who asked
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
            return
        place = 0
        for table, future in group:
            end = place + len(table)
            if not future.done():  # whoever went away gets nothing
                future.set_result(answers[place:end])
            place = end


def _joined(tables: list[Table]) -> Table:
    if len(tables) == 1:
        return tables[0]
    return Table(
        tables[0].schema,
        np.concatenate([table.numbers for table in tables]),
        np.concatenate([table.codes for table in tables]),
    )
