"""Charges whose answers are known already: both are written, or neither."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reticent.errors import InvalidParameterError
from reticent.ledger import decisions
from reticent.ledger.decisions import LARGEST_ANSWER, Page
from reticent.ledger.requests import Outcome, Receipt, Request


def post(page: Page, request: Request, answers: Sequence[bytes]) -> Receipt:
    """Charge for a request and store its answers, or say what became of its key.

    Of any number of writers who post under one key, one wins, and the others read
    what it wrote.
    """
    receipt = decisions.charge(page, request)
    if receipt.outcome is not Outcome.DRAW:
        return receipt
    return decisions.settle(page, receipt, answers)


def checked_post(request: Request, answers: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return answers that can be posted with the request, or refuse them."""
    given = tuple(answers)
    if request.memory is not None or len(given) != len(request.queries):
        raise InvalidParameterError(
            f"n_answers={len(given)} for n_queries={len(request.queries)} with "
            f"memory={request.memory!r}; post takes one answer for each query, and "
            "memory=None."
        )
    if not all(
        isinstance(answer, bytes) and len(answer) <= LARGEST_ANSWER for answer in given
    ):
        raise InvalidParameterError(
            f"answers must be bytes, at most {LARGEST_ANSWER} each."
        )
    return given
