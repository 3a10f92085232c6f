"""From validated rows to charged answers over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

from reticent.home import ServedModel
from reticent.ledger import Ledger, Outcome, Receipt, Request
from reticent.prediction import PaidAnswers, answer_async
from reticent.schemas import Table
from reticent.service.drawing import FEW_ROWS, Asked, Drawing
from reticent.service.telemetry import Metrics


class Answering:
    """Answers requests through `reticent.prediction.answer_async`, and counts them.

    Parameters
    ----------
    ledger : Ledger
        The ledger that is charged.
    metrics : Metrics
        Counts answers.
    """

    def __init__(self, ledger: Ledger, metrics: Metrics) -> None:
        self._ledger = ledger
        self._metrics = metrics
        self._drawing = Drawing()
        self._counters: dict[tuple[str, str], Any] = {}

    async def answer(
        self, model: ServedModel, client: str, table: Table, key: str
    ) -> PaidAnswers:
        """Answer validated rows for a client; see `reticent.home.answer_rows`.

        Parameters
        ----------
        model : ServedModel
            What is asked.
        client : str
            Who pays.
        table : Table
            The rows.
        key : str
            Made by `reticent.home.request_key`.
        """
        if model.lasting is not None:
            # In a thread: those who wait at the same time share one record.
            reply = await asyncio.to_thread(model.lasting.answer, table, client)
            self._count(model.name, "drawn", len(reply.answers) - reply.remembered)
            self._count(model.name, "remembered", reply.remembered)
            # A counter cannot fall; noise makes single values negative.
            seen = max(0.0, sum(reply.evidence or ()))
            self._metrics.evidence.labels(model.name).inc(seen)
            return reply
        if model.charge is None:
            answers = await self._drawing.answers(model.draw, table)
            self._count(model.name, "released", len(answers))
            return PaidAnswers(answers)
        session = model.consensus
        if session is not None and not session.admits(client):
            await asyncio.to_thread(session.admit, self._ledger, model.accounts, client)
        request = model.request(client, table, key)
        asked = Asked(table)
        receipt = await self._receipt(model, request, asked)
        answered = PaidAnswers.of(receipt, request.accounts[-1])
        self._count(model.name, "drawn", asked.drawn)
        self._count(model.name, "remembered", len(request.queries) - asked.drawn)
        return answered

    async def _receipt(
        self, model: ServedModel, request: Request, asked: Asked
    ) -> Receipt:
        """Return the receipt of a request with its answers."""
        together = None
        if len(request.queries) <= FEW_ROWS:
            # The model runs on the ledger's thread for few rows: see `Drawing`.
            together = self._drawing.together(model.draw)
            receipt = await self._ledger.aanswer(request, together, asked)
            if receipt.outcome is Outcome.ANSWERED:
                return receipt

        async def draw(places: tuple[int, ...]) -> list[bytes]:
            asked.drawn = len(places)
            return await self._drawing.answers(
                model.draw, asked.table.take(list(places))
            )

        return await answer_async(
            self._ledger, request, draw=draw, together=together, about=asked
        )

    def _count(self, model: str, source: str, answers: int) -> None:
        if not answers:
            return
        counter = self._counters.get((model, source))
        if counter is None:
            counter = self._metrics.answers.labels(model, source)
            self._counters[model, source] = counter
        counter.inc(answers)
