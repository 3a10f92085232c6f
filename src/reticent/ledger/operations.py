"""The work of the ledger's single writer: charge, draw answers, settle them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from reticent.errors import ReticentError
from reticent.ledger import decisions, posts
from reticent.ledger.accounts import AccountId
from reticent.ledger.alike import charge_alike, is_alike
from reticent.ledger.caps import Cap
from reticent.ledger.requests import Outcome, Receipt, Request
from reticent.ledger.state import LedgerState, Needs

#: Draws the answers of receipts that were charged together. Takes pairs of what a
#: request is about and its receipt; returns the answers of each, in the same order.
Draw: TypeAlias = Callable[[Sequence[tuple[Any, Receipt]]], Sequence[Iterable[bytes]]]


_LOST = "The charge stays, and its answer is lost."


class Operation(NamedTuple):
    """One change of the ledger.

    Parameters
    ----------
    needs : Needs
        The part of the ledger's state that it reads.
    apply : callable
        Makes the change on that state, or refuses it.
    draw : Draw or None
        Draws the answers once the charge is durable; the next commit settles them.
    about : object
        What `draw` is told about the request.
    otherwise : str
        What the caller is told if the database could not be reached.
    settles : bool
        Whether it stores answers that are drawn: they are paid for, so it is tried
        again until the database is back, even if its caller has gone.
    requests : sequence of Request
        What is charged, if that is what it does.
    many : bool
        Whether it is about several requests: `about` is then a list, and so is its
        result, with a receipt or an error for each.
    """

    needs: Needs
    apply: Callable[[LedgerState], Any]
    draw: Draw | None = None
    about: Any = None
    otherwise: str = "Nothing was charged."
    settles: bool = False
    requests: Sequence[Request] = ()
    many: bool = False

    @property
    def size(self) -> int:
        """How many requests it is about; 1 for everything else."""
        return max(1, len(self.requests))


def opening_account(account: AccountId, cap: Cap) -> Operation:
    """Open an account."""
    return Operation(
        Needs(accounts={str(account)}),
        lambda state: decisions.open_account(state, account, cap),
    )


def changing_cap(account: AccountId, cap: Cap) -> Operation:
    """Change the cap of an account."""
    return Operation(
        Needs(accounts={str(account)}),
        lambda state: decisions.set_cap(state, account, cap),
    )


def recording(act: str, by: str, facts: Mapping[str, Any]) -> Operation:
    """Write an administrative act."""
    return Operation(
        Needs(),
        lambda state: decisions.record(state, act, by, facts),
        otherwise="Nothing was done.",
    )


def charging(
    request: Request, draw: Draw | None = None, about: Any = None
) -> Operation:
    """Charge for a request; with `draw`, go on to draw and settle its answers."""
    hashes = () if request.memory is None else request.hashes
    needs = Needs(request.names, (request.key,), hashes)
    return Operation(
        needs,
        lambda state: decisions.charge(state, request),
        draw,
        about,
        requests=(request,),
    )


def charging_all(asked: Sequence[tuple[Request, Any]], draw: Draw) -> Operation:
    """Charge for requests, each for itself; go on to draw and settle their answers."""
    requests = [request for request, _ in asked]
    needs = Needs(
        set().union(*{request.names for request in requests}),
        [request.key for request in requests],
        [
            query
            for request in requests
            if request.memory is not None
            for query in request.hashes
        ],
    )
    return Operation(
        needs,
        lambda state: _charged(state, requests),
        draw,
        [about for _, about in asked],
        requests=requests,
        many=True,
    )


def posting(request: Request, answers: Iterable[bytes]) -> Operation:
    """Charge for a request whose answers are known, and store them with it."""
    given = posts.checked_post(request, answers)
    return Operation(
        Needs(request.names, (request.key,)),
        lambda state: posts.post(state, request, given),
    )


def looking_up(key: str) -> Operation:
    """Say whether a key was charged."""
    return Operation(Needs(requests={key}), lambda page: key in page.requests)


def settling(receipt: Receipt, answers: Iterable[bytes]) -> Operation:
    """Store the answers drawn for a receipt."""
    given = decisions.check_answers(receipt, answers)
    return Operation(
        Needs(charges={receipt.sequence or 0}),
        lambda state: decisions.settle(state, receipt, given),
        otherwise=_LOST,
        settles=True,
    )


def settling_all(
    results: Sequence[Any], drawn: Mapping[int, tuple[bytes, ...]]
) -> Operation:
    """Store the answers drawn for some of the receipts that `charging_all` returned.

    Parameters
    ----------
    results : sequence of Receipt or ReticentError
        What became of each request.
    drawn : mapping of int to tuple of bytes
        The answers, by the place of their receipt, which they fit.
    """

    def apply(state: LedgerState) -> list[Any]:
        following = list(results)
        for place, answers in drawn.items():
            try:
                following[place] = decisions.settle(state, results[place], answers)
            except ReticentError as refusal:
                following[place] = refusal
        return following

    return Operation(
        Needs(charges=[results[place].sequence or 0 for place in drawn]),
        apply,
        otherwise=_LOST,
        settles=True,
        many=True,
    )


def decide(state: LedgerState, operations: Sequence[Operation]) -> list[Any]:
    """Return each operation's result, or the refusal that is its result.

    They are decided in order; but charges that follow each other and are alike are
    decided together, before those among them that need a closer look.
    """
    results: list[Any] = []
    for charges, some in groupby(operations, _is_charge):
        if not charges:
            results += [_attempt(operation, state) for operation in some]
            continue
        found = _charged(state, [operation.requests[0] for operation in some])
        results += found
    return results


def _is_charge(operation: Operation) -> bool:
    return bool(operation.requests) and not operation.many


def _charged(state: LedgerState, requests: Sequence[Request]) -> list[Any]:
    """Return the receipt of each request, or the refusal; alike ones are quicker."""
    results: list[Any] = []
    while len(results) < len(requests):
        alike = _alike(requests, len(results))
        found: list[Any] = [None] * len(alike)
        if len(alike) > 1:
            found = charge_alike(state, alike)
        for place, request in enumerate(alike):
            if found[place] is None:
                try:
                    found[place] = decisions.charge(state, request)
                except ReticentError as refusal:
                    found[place] = refusal
        results += found
    return results


def _alike(requests: Sequence[Request], first: int) -> Sequence[Request]:
    """Return the requests from a place on that ask the same accounts for the same."""
    request, last = requests[first], first + 1
    if len(request.queries) == 1:
        while last < len(requests) and is_alike(request, requests[last]):
            last += 1
    return requests[first:last]


def _attempt(operation: Operation, state: LedgerState) -> Any:
    try:
        return operation.apply(state)
    except ReticentError as refusal:
        return refusal


def _is_to_draw(result: Any) -> bool:
    return type(result) is Receipt and result.outcome is Outcome.DRAW


def goes_on(operation: Operation, result: Any) -> bool:
    """Return whether answers are drawn for a result before anybody sees it."""
    if operation.draw is None:
        return False
    if operation.many and isinstance(result, list):
        return any(map(_is_to_draw, result))
    return _is_to_draw(result)


def draw_answers(operations: Sequence[Operation], results: Sequence[Any]) -> list[Any]:
    """Draw the answers that durable charges ask for, one call for each `draw`.

    Return for each operation the one that settles its answers, or its result (which
    may be an error) if there is nothing to draw.
    """
    groups: dict[Draw, list[_ToDraw]] = {}
    for place, (operation, result) in enumerate(zip(operations, results, strict=True)):
        if operation.draw is None:
            continue
        waiting = groups.setdefault(operation.draw, [])
        if not operation.many:
            if _is_to_draw(result):
                waiting.append((operation.about, result, place, 0))
        elif isinstance(result, list):
            waiting += [
                (about, receipt, place, index)
                for index, (about, receipt) in enumerate(
                    zip(operation.about, result, strict=True)
                )
                if _is_to_draw(receipt)
            ]
    drawn: dict[int, dict[int, Any]] = {}
    for draw, waiting in groups.items():
        for (_, _, place, index), answers in zip(
            waiting, _drawn(draw, waiting), strict=True
        ):
            drawn.setdefault(place, {})[index] = answers
    following = list(results)
    for place, found in drawn.items():
        following[place] = _following(operations[place], results[place], found)
    return following


#: What a request is about, its receipt, its operation, and its place there.
_ToDraw: TypeAlias = tuple[Any, Receipt, int, int]


def _drawn(draw: Draw, waiting: list[_ToDraw]) -> Sequence[Any]:
    """Return the answers of each request, or the error that prevented them."""
    if not waiting:
        return ()
    try:
        found = draw([(about, receipt) for about, receipt, _, _ in waiting])
        return [
            decisions.check_answers(receipt, answers)
            for (_, receipt, _, _), answers in zip(waiting, found, strict=True)
        ]
    except Exception as error:  # noqa: BLE001 - raised by the callers who wait
        return [error] * len(waiting)


def _following(operation: Operation, result: Any, drawn: Mapping[int, Any]) -> Any:
    """Return the operation that settles what was drawn, or the error of that."""
    if not operation.many:
        return (
            drawn[0] if isinstance(drawn[0], Exception) else settling(result, drawn[0])
        )
    results = list(result)
    answers = {}
    for index, found in drawn.items():
        if isinstance(found, Exception):
            results[index] = found
        else:
            answers[index] = found
    # Even if nothing was drawn: a checkpoint has to cover what the others are told.
    return settling_all(results, answers)
