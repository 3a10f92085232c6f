"""Charges whose answers are known already: both are written, or neither is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reticent.errors import InvalidParameterError
from reticent.ledger import decisions
from reticent.ledger.decisions import check_answer_bytes
from reticent.ledger.requests import Outcome, Receipt, Request
from reticent.ledger.state import LedgerState


def post(state: LedgerState, request: Request, answers: Sequence[bytes]) -> Receipt:
    """Charge for a request and store its answers, or return what its key stands for.

    If several writers post under one key, one wins and the others read what it wrote.
    """
    receipt = decisions.charge(state, request)
    if receipt.outcome is not Outcome.DRAW:
        return receipt
    return decisions.settle(state, receipt, answers)


def checked_post(request: Request, answers: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return answers that can be posted with the request, or refuse them."""
    given = check_answer_bytes(answers)
    if request.memory is not None or len(given) != len(request.queries):
        raise InvalidParameterError(
            f"n_answers={len(given)} for n_queries={len(request.queries)} with "
            f"memory={request.memory!r}; post takes one answer for each query, and "
            "memory=None."
        )
    return given
