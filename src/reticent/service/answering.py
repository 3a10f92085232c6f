"""From validated rows to charged answers: the one way through."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from typing import Any

from reticent.errors import InvalidParameterError
from reticent.ledger import Ledger, Outcome, Receipt, Request
from reticent.mechanisms import SystemSource
from reticent.schemas import Table
from reticent.service.drawing import FEW_ROWS, Asked, Compute, Drawing
from reticent.service.keys import KeyRecord
from reticent.service.registry import ServedModel, client_account
from reticent.service.requests.problems import ProblemError
from reticent.service.telemetry import Metrics

# Buffered, so that a request does not cost a system call.
_bits = SystemSource()
_KEY = re.compile(r"[!-~]{1,100}")
# A retry may come while the first request is under way, here or in another process:
# its answer is about to be stored. After these seconds it is taken for lost.
_WAITS = (0.02, 0.05, 0.1, 0.3)


@dataclass(frozen=True, slots=True)
class Answered:
    """Answers as JSON, and what they cost.

    Attributes
    ----------
    answers : list of bytes
        One JSON value a row.
    paid : int
        How many of them the client's account has paid for with this request.
    left : int or None
        How many more answers at this price every account could pay for; None if
        answers are free.
    sequence : int or None
        The charge's place in the ledger; None if nothing was charged.
    """

    answers: list[bytes]
    paid: int
    left: int | None
    sequence: int | None


def idempotency_key(record: KeyRecord, given: str | None) -> str:
    """Return the ledger's key of a request: a client cannot meet another's.

    Keys that we choose begin with the time, in milliseconds. New ones then lie next to
    each other in the ledger's index, and a commit has fewer pages of it to write.
    """
    if given is None:
        moment = time.time_ns() // 1_000_000
        return f"{record.client}/r/{moment:012x}{_bits.bytes(16).hex()}"
    if not _KEY.fullmatch(given):
        raise ProblemError(
            422,
            "invalid_idempotency_key",
            "Idempotency-Key must be 1 to 100 visible ASCII characters.",
        )
    return f"{record.client}/k/{given}"


class AnswerDesk:
    """Charges, computes, settles, and only then hands out.

    Parameters
    ----------
    ledger : Ledger
        Who has spent what.
    metrics : Metrics
        Counts answers.

    Guarantee
    ---------
    Nothing is computed before its charge is durable, and nothing is handed out before
    its answer is. The same key again gets the same answers and costs nothing. Charge
    and refusal depend on accounts and the number of new queries alone.
    """

    def __init__(self, ledger: Ledger, metrics: Metrics) -> None:
        self._ledger = ledger
        self._metrics = metrics
        self._drawing = Drawing()
        self._counters: dict[tuple[str, str], Any] = {}

    async def answer(
        self, model: ServedModel, record: KeyRecord, table: Table, key: str
    ) -> Answered:
        """Answer validated rows for a client.

        Raises
        ------
        BudgetExhaustedError
            If an account cannot pay; nothing is charged then.
        ProblemError
            409 if the key was used for something else, or was charged for an answer
            that was lost.
        """
        if model.charge is None:
            answers = await self._drawing.answers(model.stored.answer_json, table)
            self._count(model.name, "released", len(answers))
            return Answered(answers, 0, None, None)
        client = client_account(record.client)
        accounts, charge, memory = (*model.accounts, client), model.charge, model.memory
        compute = model.stored.answer_json
        if model.consensus is not None:
            desk = model.consensus
            accounts = await desk.admit(self._ledger, model.accounts, client)
            charge, memory = desk.charge, desk.memory
            compute = desk.answer_json
        request = Request(
            key=key,
            accounts=accounts,
            charge=charge,
            queries=tuple(model.stored.queries(table)),
            memory=memory,
        )
        asked = Asked(table)
        receipt = await self._answered(request, compute, asked)
        for wait in _WAITS:
            if receipt.outcome is not Outcome.SPENT:
                break
            await asyncio.sleep(wait)
            receipt = await self._answered(request, compute, asked)
        if receipt.outcome is not Outcome.ANSWERED:
            raise _lost()
        self._count(model.name, "drawn", asked.drawn)
        self._count(model.name, "remembered", len(table) - asked.drawn)
        return _answered(receipt, accounts[-1])

    async def _answered(
        self, request: Request, compute: Compute, asked: Asked
    ) -> Receipt:
        """Return a receipt that has its answers, or whose answers are lost."""
        try:
            if len(asked.table) <= FEW_ROWS:
                draw = self._drawing.together(compute)
                return await self._ledger.aanswer(request, draw, asked)
            receipt = await self._ledger.acharge(request)
        except InvalidParameterError as error:
            if "idempotency key" in str(error):
                raise ProblemError(409, "idempotency_key_reused", str(error)) from None
            if "is not open" in str(error):
                raise ProblemError(
                    403,
                    "no_budget",
                    "this client has no account to charge; an admin can open one by "
                    "setting its cap.",
                ) from None
            raise
        if receipt.outcome is not Outcome.DRAW:
            return receipt
        asked.drawn = len(receipt.draw)
        chosen = asked.table.take(list(receipt.draw))
        answers = await self._drawing.answers(compute, chosen)
        return await self._ledger.asettle(receipt, answers)

    def _count(self, model: str, source: str, answers: int) -> None:
        if not answers:
            return
        counter = self._counters.get((model, source))
        if counter is None:
            counter = self._metrics.answers.labels(model, source)
            self._counters[model, source] = counter
        counter.inc(answers)


def _lost() -> ProblemError:
    return ProblemError(
        409,
        "spent_without_result",
        "this idempotency key was charged, but there is no answer: it was lost in a "
        "crash, or another request with this key is still at it. A lost answer stays "
        "spent and is never drawn again. Ask with a new key.",
    )


def _answered(receipt: Receipt, client: Any) -> Answered:
    cost = receipt.accounts.get(str(client))
    left = min(balance.answers_left(receipt.charge) for balance in receipt.remaining)
    answers = [answer for answer in receipt.answers if answer is not None]
    paid = 0 if cost is None else cost.answers
    return Answered(answers, paid, left, receipt.sequence)
