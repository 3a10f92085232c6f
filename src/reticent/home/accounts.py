"""The accounts that pay for models, and what is charged to them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reticent.errors import (
    AccountOpenError,
    InvalidParameterError,
    NotDeployableError,
    RuleError,
)
from reticent.home.model_settings import BudgetSettings
from reticent.home.served_models import (
    Registry,
    ServedModel,
    client_account,
    dataset_account,
    period_account,
)
from reticent.home.settings import Settings
from reticent.ledger import AccountId, Balance, Cap, Charge, Ledger, Receipt, Request
from reticent.prediction import (
    begin_log,
    charge_total,
    check_log,
    total_charges,
    total_key,
)
from reticent.storage import StoredModel

log = logging.getLogger("reticent.home")


def cap_of(budget: BudgetSettings, relation: str) -> Cap:
    """Return a budget as a cap under a relation."""
    return replace(budget.cap(), relation=relation)


def charge_release(
    ledger: Ledger, model: StoredModel, *, also: Sequence[AccountId] = ()
) -> Receipt:
    """Charge a released model to its dataset, once however often this is called.

    Its answers are free because its release was not: call this before anybody else
    gets the model. `reticent.home.train_and_store` does; a service refuses a released
    model that was not charged.

    A model whose answers last is charged its total, and its log begins in this ledger.
    Never charge it in a second ledger: its records would be spent again from there.

    Parameters
    ----------
    ledger : Ledger
        In which the account of the model's dataset is open.
    model : StoredModel
        A model whose certificate is about the model itself, or all of its answers.
    also : sequence of AccountId, default=()
        Further accounts that pay, such as that of a period.

    Raises
    ------
    BudgetExhaustedError
        If the budget of the dataset does not cover the release; nothing is charged.
    InvalidParameterError
        If the total of a model whose answers last was charged to another account.
    """
    if model.charged:
        raise InvalidParameterError(
            f"a model of kind={model.kind!r} is not released: each of its answers is "
            "charged."
        )
    account = dataset_account(model.dataset.name)
    if model.lasting is not None:
        if also:
            raise InvalidParameterError(
                "the total of a model whose answers last is paid once for all periods; "
                "use a dataset whose budget is not given out by period."
            )
        check_log(model.lasting, ledger)
        forms = total_charges(model.certificate)
        charge = payable(ledger.balance(account), forms)
        receipt = charge_total(
            ledger, account, model.lasting.identity, charge, forms=forms
        )
        begin_log(model.lasting, ledger)
        return receipt
    return ledger.charge(
        Request(
            key=_release_key(model),
            accounts=(account, *also),
            charge=Charge.of(model.certificate),
            queries=(b"the model",),
        )
    )


def payable(balance: Balance, charges: list[Charge]) -> Charge:
    """Return the first charge that an account can pay, else the last."""
    for charge in charges:
        if price_problem(balance.cap, charge) is None and balance.answers_left(charge):
            return charge
    return charges[-1]


def _release_key(model: StoredModel) -> str:
    if model.lasting is not None:
        return total_key(model.lasting.identity)
    return f"/release/{model.id}"


def open_accounts(ledger: Ledger, registry: Registry, settings: Settings) -> None:
    """Open the accounts of datasets and models, or check them against the settings.

    Nothing is charged.

    Raises
    ------
    NotDeployableError
        If an open account has a larger cap than the settings say, or a released model
        was not charged.
    """
    wanted: dict[AccountId, BudgetSettings] = {}
    for model in registry:
        name = model.stored.dataset.name
        known = settings.datasets[name]
        wanted[dataset_account(name)] = known
        if known.periods > 1:
            wanted[period_account(name, known.period)] = known.part()
        for account in model.accounts:
            own = settings.models.get(model.name)
            if account not in wanted and own is not None and own.budget is not None:
                wanted[account] = own.budget
    opened = {balance.account: balance for balance in ledger.balances()}
    for account, budget in wanted.items():
        cap = cap_of(budget, registry.relation)
        if account in opened:
            _check_cap(opened[account], cap)
        else:
            opened[account] = ledger.open_account(account, cap)
    for model in registry:
        if model.charge is None:
            _check_release(ledger, model)
        if model.lasting is not None:
            model.lasting.open(ledger)


def _check_release(ledger: Ledger, model: ServedModel) -> None:
    """Refuse a released model whose release nobody has paid for."""
    if ledger.charged(_release_key(model.stored)):
        return
    if model.stored.lasting is not None:
        raise NotDeployableError(
            f"the total of model {model.name!r} was never charged in this ledger, so "
            "what its records have spent is not known here. Give the ledger in which "
            "it was charged when it was fitted."
        )
    raise NotDeployableError(
        f"the release of model {model.name!r} was never charged to "
        f"{dataset_account(model.stored.dataset.name)}. Charge it once with "
        "reticent.home.charge_release(ledger, model); 'reticent fit --release' "
        "does so when it stores a model."
    )


def _check_cap(balance: Balance, cap: Cap) -> None:
    """Refuse settings that are tighter than the ledger: they would have no effect."""
    kept = balance.cap
    promises = zip(kept.promise, cap.promise, strict=True)
    if kept.relation == cap.relation and all(
        mine is not None and theirs is not None and mine <= theirs
        for mine, theirs in promises
    ):
        if kept.promise != cap.promise:
            log.warning("cap kept", extra={"fields": {"account": str(balance.account)}})
        return
    raise NotDeployableError(
        f"{balance.account} is open in the ledger with a larger cap, or under another "
        f"relation, than the settings say ({balance}). Set the cap of the account, or "
        "correct the settings."
    )


def check_prices(ledger: Ledger, registry: Registry) -> None:
    """Warn about models whose answers no account can pay for; refuse if all are such.

    Such a model costs the others nothing: whoever asks it is refused.
    """
    known = {balance.account: balance for balance in ledger.balances()}
    reasons = {model.name: _unpayable(model, known) for model in registry}
    for name, reason in reasons.items():
        if reason:
            fields: dict[str, Any] = {"model": name, "reason": reason}
            log.warning("model can never be paid for", extra={"fields": fields})
    if reasons and all(reasons.values()):
        raise NotDeployableError(" ".join(filter(None, reasons.values())))


def _unpayable(model: ServedModel, known: Mapping[AccountId, Balance]) -> str | None:
    """Say why no account can ever pay for an answer of a model; None if one can."""
    if model.price is None:
        return None
    for account in model.accounts:
        reason = price_problem(known[account].cap, model.price)
        if reason:
            return (
                f"{account} can never pay for an answer of model {model.name!r}: "
                f"{reason}"
            )
    return None


def price_problem(cap: Cap, charge: Charge) -> str | None:
    """Say why an account under a cap can never pay for a charge; None if it can."""
    try:
        payable = cap.answers_left(charge) >= 1
    except (InvalidParameterError, RuleError) as error:
        return str(error)
    if payable:
        return None
    return (
        f"it costs {charge}, and the whole cap is {cap.budget}. Raise the cap, or fit "
        "with a smaller epsilon."
    )


def open_client(ledger: Ledger, budget: BudgetSettings | None, client: str) -> None:
    """Open a client's account, unless it is open or there is no budget for clients.

    Parameters
    ----------
    ledger : Ledger
        The ledger.
    budget : BudgetSettings or None
        What a new client may spend, `Settings.client_budget`.
    client : str
        The client.
    """
    if budget is not None:
        with contextlib.suppress(AccountOpenError):  # its own cap stays
            ledger.open_account(client_account(client), budget.cap())
