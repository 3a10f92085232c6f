"""Accounts, charges and requests that the ledger's tests share."""

from __future__ import annotations

from typing import Any

from reticent.ledger import AccountId, AccountScope, Cap, Charge, Ledger, Request

DATASET = AccountId(AccountScope.DATASET, "adult@1")
MODEL = AccountId(AccountScope.MODEL, "income@3")
ALICE = AccountId(AccountScope.CLIENT, "alice")
BOB = AccountId(AccountScope.CLIENT, "bob")
EVERYBODY = (DATASET, MODEL, ALICE, BOB)
MEMORY = "adult@1/income@3"

TENTH = Charge.loss(epsilon=0.1, certificate="tenth")


def opened(ledger: Ledger, *, epsilon: float = 1.0, **caps: float) -> Ledger:
    """Open the four accounts; `caps` names those with another epsilon."""
    for account in EVERYBODY:
        cap = caps.get(account.name.partition("@")[0], epsilon)
        ledger.open_account(account, Cap.basic(epsilon=cap))
    return ledger


def asking(
    key: str,
    *queries: bytes,
    client: AccountId = ALICE,
    charge: Charge = TENTH,
    memory: str | None = None,
    **changes: Any,
) -> Request:
    """Return a request of one client; a query is named after its key by default."""
    fields = {
        "key": key,
        "accounts": (DATASET, MODEL, client),
        "charge": charge,
        "queries": queries or (key.encode(),),
        "memory": memory,
    }
    return Request(**{**fields, **changes})


def nano(ledger: Ledger, account: AccountId) -> int:
    """Return the epsilon that an account has spent, in units."""
    return ledger.balance(account).spent.epsilon
