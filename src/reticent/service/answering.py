"""From validated rows to charged answers over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from reticent.errors import LedgerError
from reticent.home import ServedModel
from reticent.ledger import Ledger, Outcome, Receipt, Request
from reticent.prediction import PaidAnswers, answer_async
from reticent.schemas import PackedRows, Table
from reticent.service.drawing import FEW_ROWS, Asked, Drawing, as_table
from reticent.service.telemetry import Metrics

Rows: TypeAlias = Table | PackedRows
#: Takes what became of a request.
Then: TypeAlias = Callable[[PaidAnswers | Exception], None]


def answers_singly(model: ServedModel) -> bool:
    """Return whether a model charges for each answer, and draws each for itself."""
    return model.charge is not None and model.consensus is None


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
        self._tasks: set[asyncio.Future[None]] = set()

    def answer_then(
        self, model: ServedModel, client: str, rows: Rows, key: str, then: Then
    ) -> bool:
        """Answer a few rows of a model that charges for each; call `then` on the loop.

        Returns false, and does nothing, for other models and for many rows: `answer`
        is for those. Nearly all requests of a busy service go this way, without a task
        or a future for each.

        Parameters
        ----------
        model, client, rows, key
            As for `answer`.
        then : callable
            Called with the answers, or with the error.
        """
        if not answers_singly(model) or len(rows) > FEW_ROWS:
            return False
        request, asked = model.request(client, rows, key), Asked(rows)

        def found(receipt: Receipt | Exception) -> None:
            if isinstance(receipt, Exception):
                then(receipt)
            elif receipt.outcome is Outcome.ANSWERED:
                then(self._answered(model, request, asked, receipt))
            else:  # another request with this key is being answered
                self.wait_then(model, request, asked, then)

        together = self._drawing.together(model.draw)
        self._ledger.answer_then(request, together, asked, found)
        return True

    def answer_all(
        self,
        model: ServedModel,
        asked: Sequence[tuple[Request, Any]],
        then: Callable[[Any, Receipt | Exception], None],
    ) -> None:
        """Answer requests for a few rows each; call `then` on the loop for each.

        They are not counted: the caller does that, for all of them at once.

        Parameters
        ----------
        model : ServedModel
            One that `answers_singly`.
        asked : sequence of (Request, Asked)
            The requests and their rows.
        then : callable
            Called with the `Asked` of a request and its receipt, or the error.
        """
        together = self._drawing.together(model.draw)
        try:
            self._ledger.answer_all(asked, together, then)
        except LedgerError as error:  # it has stopped, and took none of them
            for _, about in asked:
                then(about, error)

    def wait_then(
        self, model: ServedModel, request: Request, asked: Any, then: Then
    ) -> None:
        """Wait for the answers to a request that another one is waiting for already."""
        task = asyncio.ensure_future(self._wait(model, request, asked, then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def count_drawn(self, model: str, drawn: int, remembered: int) -> None:
        """Count answers of a model that were sent."""
        self._count(model, "drawn", drawn)
        self._count(model, "remembered", remembered)

    async def _wait(
        self, model: ServedModel, request: Request, asked: Asked, then: Then
    ) -> None:
        try:
            receipt = await self._receipt(model, request, asked)
        except Exception as error:  # noqa: BLE001 - handed on to the caller
            then(error)
        else:
            then(self._answered(model, request, asked, receipt))

    async def answer(
        self, model: ServedModel, client: str, rows: Rows, key: str
    ) -> PaidAnswers:
        """Answer validated rows for a client; see `reticent.home.answer_rows`.

        Parameters
        ----------
        model : ServedModel
            What is asked.
        client : str
            Who pays.
        rows : Table or PackedRows
            The rows.
        key : str
            Made by `reticent.home.request_key`.
        """
        if model.lasting is not None:
            table = as_table(rows)
            # In a thread: those who wait at the same time share one record.
            reply = await asyncio.to_thread(model.lasting.answer, table, client)
            self._count(model.name, "drawn", len(reply.answers) - reply.remembered)
            self._count(model.name, "remembered", reply.remembered)
            # A counter cannot fall; noise makes single values negative.
            seen = max(0.0, sum(reply.evidence or ()))
            self._metrics.evidence.labels(model.name).inc(seen)
            return reply
        if model.charge is None:
            answers = await self._drawing.answers(model.draw, rows)
            self._count(model.name, "released", len(answers))
            return PaidAnswers(answers)
        session = model.consensus
        if session is not None and not session.admits(client):
            await asyncio.to_thread(session.admit, self._ledger, model.accounts, client)
        request, asked = model.request(client, rows, key), Asked(rows)
        receipt = await self._receipt(model, request, asked)
        return self._answered(model, request, asked, receipt)

    def _answered(
        self, model: ServedModel, request: Request, asked: Asked, receipt: Receipt
    ) -> PaidAnswers:
        """Return what was paid for, and count it."""
        answered = PaidAnswers.of(receipt, request.accounts[-1])
        self.count_drawn(model.name, asked.drawn, len(request.queries) - asked.drawn)
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
                model.draw, as_table(asked.table).take(list(places))
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
