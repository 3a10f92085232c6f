"""The total of a lasting model: charged once, to one account (P10)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from reticent.errors import (
    IdempotencyKeyReusedError,
    InvalidParameterError,
    LedgerError,
)
from reticent.guarantees import Budget, Certificate, GaussianDP, gaussian_to_zcdp
from reticent.ledger import (
    AccountId,
    Cap,
    Charge,
    Ledger,
    Method,
    Receipt,
    Request,
)
from reticent.prediction.budgets import keeps, other_budget, promised_by


def total_key(identity: str) -> str:
    """Return the ledger's key of a model's total."""
    return f"/lasting/{identity}"


def charge_total(
    ledger: Ledger,
    account: AccountId,
    identity: str,
    charge: Charge,
    *,
    forms: Sequence[Charge] = (),
) -> Receipt:
    """Charge the total of a lasting model, once however often this is called.

    Parameters
    ----------
    ledger : Ledger
        In which `account` is open.
    account : AccountId
        Who pays: the dataset.
    identity : str
        Identity of the fitted model.
    charge : Charge
        What all answers together cost.
    forms : sequence of Charge, default=()
        Other forms of this total, in which it may have been charged before.

    Raises
    ------
    InvalidParameterError
        If another account was charged; nothing is charged to this one.
    """
    # A key that was used before charges nothing, whatever it was used for.
    for each in (charge, *forms):
        with suppress(IdempotencyKeyReusedError):
            return ledger.charge(_total_request(account, identity, each))
    if _recorded_payer(ledger, identity) != account:
        raise another_paid(account)
    return ledger.charge(_total_request(account, identity, charge))


def total_payer(
    ledger: Ledger, likely: AccountId, identity: str, forms: Sequence[Charge]
) -> AccountId:
    """Return the account that was charged the total of a lasting model.

    Parameters
    ----------
    ledger : Ledger
        In which the total is charged.
    likely : AccountId
        Is asked about first: for another account the ledger's entries are read.
    identity, forms
        As for `charge_total`.
    """
    for each in forms:
        with suppress(IdempotencyKeyReusedError):
            ledger.charge(_total_request(likely, identity, each))
            return likely
    return _recorded_payer(ledger, identity)


def _total_request(account: AccountId, identity: str, charge: Charge) -> Request:
    return Request(
        key=total_key(identity),
        accounts=(account,),
        charge=charge,
        queries=(b"all answers",),
    )


def _recorded_payer(ledger: Ledger, identity: str) -> AccountId:
    """Return who was charged a total, by the entries; they come before all answers."""
    for entry in ledger.entries():
        if entry.is_charge and entry.request == total_key(identity):
            (name,) = entry.costs()
            return AccountId.parse(name)
    raise LedgerError(
        f"the charge of the total of model {identity} is not among the ledger's "
        "entries; the ledger was changed."
    )


def another_paid(account: AccountId) -> InvalidParameterError:
    """Return the error that says that a dataset has not paid a model's total."""
    return InvalidParameterError(
        f"dataset={account.name!r} did not pay for this model: another account of this "
        "ledger was charged its total, once for all of its answers. Give the dataset "
        "that paid."
    )


def total_forms(certificate: Certificate[Any]) -> list[Certificate[Any]]:
    """Return the forms in which a total can be charged, those that cost least first.

    Gaussian DP is best added up as zCDP; where an account has no delta left to convert
    that, the total is charged as printed.
    """
    found = [certificate]
    for node in certificate.walk():
        if isinstance(node.guarantee, GaussianDP):
            found.insert(0, gaussian_to_zcdp(node))
            break
    return found


def total_charges(certificate: Certificate[Any]) -> list[Charge]:
    """Return the charges of a total in these forms."""
    return [Charge.of(form) for form in total_forms(certificate)]


def check_budget(
    ledger: Ledger, account: AccountId, budget: Budget, charge: Charge
) -> None:
    """Refuse a budget that is not the one of an account which has paid a charge.

    If its cap was lowered below what is spent, the budget must cover what is spent.
    """
    balance = ledger.balance(account)
    known = balance.cap
    cap = Cap.within(budget, relation=charge.relation, charge=charge)
    if keeps(known, cap, charge):
        return
    if known == counting(charge) and cap.answers_left(charge) < 1:
        return  # the charge is the whole budget, to the last unit that is rounded
    if not known.allows(balance.spent):
        spent = promised_by(balance)
        if spent.epsilon <= budget.epsilon and spent.delta <= budget.delta:
            return
    raise other_budget(account, known, budget)


def counting(charge: Charge) -> Cap:
    """Return the cap of an account for this one charge."""
    return Cap(
        method=Method.COUNT,
        relation=charge.relation,
        epsilon=charge.epsilon,
        delta=charge.delta,
        answers=1,
        certificate=charge.certificate,
    )
