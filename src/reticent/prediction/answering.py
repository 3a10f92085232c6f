"""Charge, draw, settle: the one way from a request to private answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from reticent.errors import AnswerLostError
from reticent.ledger import AccountId, Draw, Ledger, Outcome, Receipt, Request

#: Draws one encoded answer for each of these positions among the queries.
DrawAt: TypeAlias = Callable[[tuple[int, ...]], Iterable[bytes]]

# A request may be repeated while the first one is being answered, in this process or
# in another. Its answer is then about to be stored, so we look again after these
# seconds. After the last look the answer counts as lost.
_WAITS = (0.02, 0.05, 0.1, 0.3)


@dataclass(frozen=True, slots=True)
class PaidAnswers:
    """Encoded answers, and what they cost."""

    answers: list[bytes]  #: one per query
    #: How many of them the client's account has paid for with this request.
    paid: int = 0
    #: How many more answers at this price every account could pay for; None if answers
    #: are free.
    left: int | None = None
    #: The charge's place in the ledger; None if nothing was charged.
    sequence: int | None = None
    #: The evidence behind each answer, where answers last.
    evidence: list[float] | None = None
    remembered: int = 0  #: how many of those were answered from memory

    @classmethod
    def of(cls, receipt: Receipt, client: AccountId) -> PaidAnswers:
        """Return the answers of a receipt, and what they cost a client."""
        cost = receipt.accounts.get(str(client))
        return cls(
            [answer for answer in receipt.answers if answer is not None],
            0 if cost is None else cost.answers,
            receipt.answers_left,
            receipt.sequence,
        )


def answer(ledger: Ledger, request: Request, draw: DrawAt) -> Receipt:
    """Charge a request, draw its new answers, store them; then return them.

    Parameters
    ----------
    ledger : Ledger
        The ledger that is charged.
    request : Request
        Who pays how much for which queries.
    draw : callable
        Called once at most, when the charge is durable.

    Returns
    -------
    Receipt
        With one answer per query.

    Raises
    ------
    BudgetExhaustedError
        If an account cannot pay; nothing is charged then.
    AnswerLostError
        If the key was charged before and its answer was lost.
    IdempotencyKeyReusedError
        If the key was used for another request.
    AccountNotOpenError
        If an account is not open.

    Guarantee
    ---------
    Nothing is drawn before its charge is durable, and nothing is returned before its
    answer is. The same key again gets the same answers and costs nothing. Charge and
    refusal depend on accounts and the number of new queries alone.
    """
    attempt = 0
    while True:
        receipt = ledger.charge(request)
        if receipt.outcome is Outcome.DRAW:
            receipt = ledger.settle(receipt, draw(receipt.draw))
        wait = _wait_after(receipt, attempt)
        if wait is None:
            return receipt
        time.sleep(wait)
        attempt += 1


async def answer_async(
    ledger: Ledger,
    request: Request,
    *,
    draw: Callable[[tuple[int, ...]], Awaitable[Iterable[bytes]]],
    together: Draw | None = None,
    about: Any = None,
) -> Receipt:
    """`answer` for asynchronous callers; it raises and guarantees the same.

    Parameters
    ----------
    ledger, request : Ledger, Request
        As for `answer`.
    draw : callable
        As for `answer`, but awaited.
    together : callable or None, default=None
        Draws instead of `draw`, on the thread that commits, for all requests of one
        commit. Quick draws are then answered in fewer steps.
    about : object, default=None
        What `together` is told about this request.
    """
    attempt = 0
    while True:
        if together is not None:
            receipt = await ledger.aanswer(request, together, about)
        else:
            receipt = await ledger.acharge(request)
            if receipt.outcome is Outcome.DRAW:
                receipt = await ledger.asettle(receipt, await draw(receipt.draw))
        wait = _wait_after(receipt, attempt)
        if wait is None:
            return receipt
        await asyncio.sleep(wait)
        attempt += 1


def _wait_after(receipt: Receipt, attempt: int) -> float | None:
    """Return the seconds until the next attempt; None if the answers are there."""
    if receipt.outcome is Outcome.ANSWERED:
        return None
    if attempt < len(_WAITS):
        return _WAITS[attempt]
    raise AnswerLostError(
        "this idempotency key was charged, but there is no answer: it was lost in a "
        "crash, or another request with this key is still being answered. A lost "
        "answer stays spent and is never drawn again. Ask with a new key."
    )
