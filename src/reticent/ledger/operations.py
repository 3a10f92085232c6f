"""What is handed to the one writer: charges, answers, and answers yet to be drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from reticent.ledger import decisions, posts
from reticent.ledger.accounts import AccountId
from reticent.ledger.caps import Cap
from reticent.ledger.decisions import Needs, Page
from reticent.ledger.requests import Outcome, Receipt, Request

#: Draws what receipts that were charged together ask for; what each is about comes
#: with it, and its answers go where it stood.
Draw: TypeAlias = Callable[[Sequence[tuple[Any, Receipt]]], Sequence[Iterable[bytes]]]


@dataclass(frozen=True, slots=True)
class Operation:
    """Something to do on a page.

    Parameters
    ----------
    needs : Needs
        What it must see there.
    apply : callable
        Decides on a page.
    draw : Draw or None
        Draws what the decision asks for, when it is durable; then the answers are
        settled in the next commit.
    about : object
        What `draw` is told about it.
    otherwise : str
        What has become of it if the database was away.
    """

    needs: Needs
    apply: Callable[[Page], Any]
    draw: Draw | None = None
    about: Any = None
    otherwise: str = "Nothing was charged."


def opening_account(account: AccountId, cap: Cap) -> Operation:
    """Open an account."""
    return Operation(
        Needs(accounts={str(account)}),
        lambda page: decisions.open_account(page, account, cap),
    )


def changing_cap(account: AccountId, cap: Cap) -> Operation:
    """Change the cap of an account."""
    return Operation(
        Needs(accounts={str(account)}),
        lambda page: decisions.set_cap(page, account, cap),
    )


def charging(
    request: Request, draw: Draw | None = None, about: Any = None
) -> Operation:
    """Charge for a request; with `draw`, go on to draw and settle its answers."""
    needs = Needs(
        accounts=set(request.names),
        requests={request.key},
        queries=set() if request.memory is None else set(request.hashes),
    )
    return Operation(needs, lambda page: decisions.charge(page, request), draw, about)


def posting(request: Request, answers: Iterable[bytes]) -> Operation:
    """Charge for a request whose answers are known, and store them with it."""
    given = posts.checked_post(request, answers)
    return Operation(
        Needs(accounts=set(request.names), requests={request.key}),
        lambda page: posts.post(page, request, given),
    )


def looking_up(key: str) -> Operation:
    """Say whether a key was charged."""
    return Operation(Needs(requests={key}), lambda page: key in page.requests)


def settling(receipt: Receipt, answers: Iterable[bytes]) -> Operation:
    """Store the answers drawn for a receipt."""
    given = decisions.check_answers(receipt, answers)
    return Operation(
        Needs(charges={receipt.sequence or 0}),
        lambda page: decisions.settle(page, receipt, given),
        otherwise="The charge stays, and its answer is lost.",
    )


def follow(operations: Sequence[Operation], results: Sequence[Any]) -> list[Any]:
    """Draw what durable charges ask for, each kind at once.

    Return for each operation the one that settles its answers, or its result if there
    is nothing to draw; an error is a result too.
    """
    groups: dict[Draw, list[int]] = {}
    for place, (operation, result) in enumerate(zip(operations, results, strict=True)):
        if (
            operation.draw is not None
            and isinstance(result, Receipt)
            and result.outcome is Outcome.DRAW
        ):
            groups.setdefault(operation.draw, []).append(place)
    following = list(results)
    for draw, places in groups.items():
        try:
            drawn = draw([(operations[p].about, results[p]) for p in places])
            for place, answers in zip(places, drawn, strict=True):
                following[place] = settling(results[place], answers)
        except Exception as error:  # noqa: BLE001 - handed on to those who asked
            for place in places:
                following[place] = error
    return following
