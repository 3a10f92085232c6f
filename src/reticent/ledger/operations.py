"""The work of the ledger's single writer: charge, draw answers, settle them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    request : Request or None
        What is charged, if that is what it does.
    """

    needs: Needs
    apply: Callable[[LedgerState], Any]
    draw: Draw | None = None
    about: Any = None
    otherwise: str = "Nothing was charged."
    settles: bool = False
    request: Request | None = None


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
        request=request,
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
        otherwise="The charge stays, and its answer is lost.",
        settles=True,
    )


def decide(state: LedgerState, operations: Sequence[Operation]) -> list[Any]:
    """Return each operation's result, or the refusal that is its result.

    They are decided in order; but charges that follow each other and are alike are
    decided together, before those among them that need a closer look.
    """
    results: list[Any] = [None] * len(operations)
    place = 0
    while place < len(operations):
        request = operations[place].request
        alike: list[tuple[int, Request]] = []
        if request is not None and len(request.queries) == 1:
            alike = _alike(operations, place, request)
        if len(alike) > 1:
            charged = charge_alike(state, [each for _, each in alike])
            for (where, _), receipt in zip(alike, charged, strict=True):
                results[where] = receipt
        following = place + max(1, len(alike))
        for where in range(place, following):
            if results[where] is None:
                results[where] = _attempt(operations[where], state)
        place = following
    return results


def _alike(
    operations: Sequence[Operation], first: int, request: Request
) -> list[tuple[int, Request]]:
    """Return the charges from a place on that ask the same accounts for the same."""
    found = []
    for place in range(first, len(operations)):
        other = operations[place].request
        if other is None or not is_alike(request, other):
            break
        found.append((place, other))
    return found


def _attempt(operation: Operation, state: LedgerState) -> Any:
    try:
        return operation.apply(state)
    except ReticentError as refusal:
        return refusal


def goes_on(operation: Operation, result: Any) -> bool:
    """Return whether answers are drawn for a result before anybody sees it."""
    return (
        operation.draw is not None
        and isinstance(result, Receipt)
        and result.outcome is Outcome.DRAW
    )


def draw_answers(operations: Sequence[Operation], results: Sequence[Any]) -> list[Any]:
    """Draw the answers that durable charges ask for, one call for each `draw`.

    Return for each operation the one that settles its answers, or its result (which
    may be an error) if there is nothing to draw.
    """
    groups: dict[Draw, list[int]] = {}
    for place, (operation, result) in enumerate(zip(operations, results, strict=True)):
        if operation.draw is not None and goes_on(operation, result):
            groups.setdefault(operation.draw, []).append(place)
    following = list(results)
    for draw, places in groups.items():
        try:
            drawn = draw([(operations[p].about, results[p]) for p in places])
            for place, answers in zip(places, drawn, strict=True):
                following[place] = settling(results[place], answers)
        except Exception as error:  # noqa: BLE001 - raised by the callers who wait
            for place in places:
                following[place] = error
    return following
