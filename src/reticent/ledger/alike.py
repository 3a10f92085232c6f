"""Charges for one new query each that share accounts, price and commit.

A busy service charges dozens of these at a time. What they have in common is decided
once: whether all fit, what each costs, and what is left. Each still has its own entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from reticent._clock import seconds
from reticent.errors import ReticentError
from reticent.ledger.accounts import Balance
from reticent.ledger.entries import CHARGE, Mark, charge_body, charges_text
from reticent.ledger.requests import Outcome, Receipt, Request
from reticent.ledger.state import LedgerState
from reticent.ledger.units import Spend

_new = tuple.__new__  # of a named tuple, in a third of the time
_FIRST = (0,)
_NONE = (None,)


def is_alike(request: Request, other: Request) -> bool:
    """Return whether two requests ask the same accounts for one answer at one price."""
    return (
        other.charge is request.charge
        and other.names == request.names
        and other.memory == request.memory
        and len(other.queries) == 1
    )


def charge_alike(
    state: LedgerState, requests: Sequence[Request]
) -> list[Receipt | None]:
    """Charge requests that are alike; leave out what is not new, or does not fit.

    Parameters
    ----------
    state : LedgerState
        What is known of their accounts, keys and queries.
    requests : sequence of Request
        All of them are alike, see `is_alike`.

    Returns
    -------
    list of Receipt or None
        None where `reticent.ledger.decisions.charge` has to decide: the key was used
        before, the query was answered before, or not all of the requests fit.

    Guarantee
    ---------
    The entries are those that `charge` appends for each request in turn. Sums and
    limits are whole numbers and caps monotone, so if all fit together, each fits. The
    receipts show the accounts after all of them.
    """
    fresh, first = _fresh(state, requests), requests[0]
    priced = _priced(state, first, sum(fresh))
    if priced is None:
        return [None] * len(requests)
    costs, charged = priced
    text, shown, left = (
        charges_text(costs),
        MappingProxyType(costs),
        (*charged.values(),),
    )
    charge, now = first.charge, seconds()
    receipts: list[Receipt | None] = []
    for request, is_new in zip(requests, fresh, strict=True):
        if not is_new:
            receipts.append(None)
            continue
        body = charge_body(
            1, charge.certificate, request.fingerprint, charge.relation, now
        )
        marks: tuple[Mark, ...] = ()
        if request.memory is not None:
            marks = (_new(Mark, (request.hashes[0], "", state.sequence + 1)),)
        key = request.key
        entry = state.append(CHARGE, body, request=key, charges=text, marks=marks)
        place, sealed, draws = entry[0], entry[6], Outcome.DRAW
        fields = (key, draws, place, sealed, charge, shown, left, _FIRST, _NONE, _FIRST)
        receipts.append(_new(Receipt, fields))
    state.accounts.update(charged)
    state.touched.update(charged)
    return receipts


def _priced(
    state: LedgerState, request: Request, count: int
) -> tuple[dict[str, Spend], dict[str, Balance]] | None:
    """Return what each of these requests costs, and the accounts after all of them.

    None if an account is not open or cannot count the charge, if not all fit, or if
    there are none.
    """
    costs, charged = {}, {}
    for name in request.names:
        balance = state.accounts.get(name)
        if balance is None:
            return None
        try:
            cost = state.price(balance, name, request.charge, 1)
        except ReticentError:  # an account that cannot count it
            return None
        spent = balance.cap.after(balance.spent, cost.times(count))
        if not balance.cap.allows(spent):
            return None
        costs[name] = cost
        charged[name] = Balance(balance.account, balance.cap, spent)
    return (costs, charged) if count else None


def _fresh(state: LedgerState, requests: Sequence[Request]) -> list[bool]:
    """Return for each request whether its key and its query are new."""
    keys: set[str] = set()
    fresh = []
    for request in requests:
        known = request.key in state.requests or request.key in keys
        if request.memory is not None:
            known = known or request.hashes[0] in state.releases
        keys.add(request.key)
        fresh.append(not known)
    return fresh
