"""The models being served, and the accounts that pay for their answers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from reticent.errors import (
    BudgetExhaustedError,
    InvalidParameterError,
    NotDeployableError,
    RuleError,
)
from reticent.guarantees import Certificate
from reticent.ledger import (
    DELTA_UNITS,
    EPSILON_UNITS,
    RHO_UNITS,
    AccountId,
    AccountScope,
    Balance,
    Cap,
    Charge,
    Ledger,
    Request,
    units_to_float,
)
from reticent.service.consensus import ConsensusDesk
from reticent.service.settings import BudgetSettings, ModelSettings, Settings
from reticent.storage import StoredModel, load_model

log = logging.getLogger("reticent.service")


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model under its public name.

    Attributes
    ----------
    name : str
        What clients call it.
    stored : StoredModel
        What answers.
    charge : Charge or None
        The loss of one answer; None if the model itself was released, so that its
        answers cost nothing more.
    accounts : tuple of AccountId
        Whose accounts pay, besides the client's.
    memory : str or None
        Names the answers that are remembered.
    consensus : ConsensusDesk or None
        Answers by consensus, where that is configured.
    """

    name: str
    stored: StoredModel
    charge: Charge | None
    accounts: tuple[AccountId, ...]
    memory: str | None
    consensus: ConsensusDesk | None = None

    @property
    def certificate(self) -> Certificate[Any]:
        """What its answers promise: one of them, or a whole consensus session."""
        if self.consensus is not None:
            return self.consensus.certificate
        return self.stored.certificate

    @cached_property
    def loss(self) -> dict[str, Any]:
        """What is charged, and for what: each answer, a session, or nothing."""
        if self.charge is None:
            return {"per": "nothing", "epsilon": 0.0, "delta": 0.0, "rho": 0.0}
        if self.consensus is not None:
            return {"per": "session", **loss_of(self.consensus.charge)}
        return {"per": "answer", **loss_of(self.charge)}

    @cached_property
    def loss_json(self) -> bytes:
        """The loss as JSON."""
        return json.dumps(self.loss).encode()

    def describe(self) -> dict[str, Any]:
        """Return what clients may know."""
        stored = self.stored
        return {
            "name": self.name,
            "id": stored.id,
            "dataset": stored.dataset.name,
            "dataset_version": stored.dataset.version,
            "method": stored.kind + ("/consensus" if self.consensus else ""),
            "answers": _answers(stored),
            "certificate": self.certificate.id,
            "promise": self.certificate.headline(),
            "loss": self.loss,
            "columns": stored.schema.as_dict()["columns"],
        }


def _answers(stored: StoredModel) -> dict[str, Any]:
    if stored.classes is not None:
        return {"kind": "classes", "classes": list(stored.classes)}
    label = stored.schema.label
    low, high = getattr(label, "low", None), getattr(label, "high", None)
    return {"kind": "number", "low": low, "high": high}


def loss_of(charge: Charge) -> dict[str, float | None]:
    """Return a charge as plain numbers, rounded up."""
    return {
        "epsilon": _float(charge.epsilon, EPSILON_UNITS),
        "delta": _float(charge.delta, DELTA_UNITS),
        "rho": _float(charge.rho, RHO_UNITS),
    }


def _float(count: int | None, units: int) -> float | None:
    return None if count is None else units_to_float(count, units)


class Registry:
    """All served models.

    Parameters
    ----------
    models : mapping of str to ServedModel
        The models by name.
    relation : str
        The neighbouring relation of every charge.
    """

    def __init__(self, models: Mapping[str, ServedModel], relation: str) -> None:
        self.models = dict(models)
        self.relation = relation

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self.models.values())

    def certificates(self) -> dict[str, tuple[Certificate[Any], frozenset[str]]]:
        """Return every certificate with the models that rest on it."""
        found: dict[str, tuple[Certificate[Any], frozenset[str]]] = {}
        for model in self:
            roots = {model.certificate.id: model.certificate}
            roots[model.stored.certificate.id] = model.stored.certificate
            for root in roots.values():
                for node in root.walk():
                    _, names = found.get(node.id, (node, frozenset()))
                    found[node.id] = (node, names | {model.name})
        return found


def open_registry(settings: Settings) -> Registry:
    """Load every model of the settings; refuse those that must not be served."""
    key, secret = settings.model_checking_key(), settings.model_opening_key()
    stored = {
        name: load_model(wanted.path, signing_key=key, encryption_key=secret)
        for name, wanted in settings.models.items()
    }
    return registry_of(stored, settings)


def registry_of(stored: Mapping[str, StoredModel], settings: Settings) -> Registry:
    """Return loaded models as served ones; every one must have a budget."""
    models = {
        name: _served(name, model, settings.models.get(name), settings)
        for name, model in stored.items()
    }
    relations = {
        model.charge.relation for model in models.values() if model.charge is not None
    }
    if len(relations) > 1:
        raise NotDeployableError(
            f"the models' charges are under different relations "
            f"({', '.join(sorted(relations))}) and never meet in one account. Serve "
            "them separately."
        )
    return Registry(models, *(relations or {"replace-one"}))


def _served(
    name: str, stored: StoredModel, wanted: ModelSettings | None, settings: Settings
) -> ServedModel:
    dataset = stored.dataset
    if dataset.name not in settings.datasets:
        raise NotDeployableError(
            f"model {name!r} is on the dataset {dataset.name!r}, which has no budget. "
            f"Set datasets.{dataset.name}.epsilon."
        )
    if not stored.charged:
        return ServedModel(name, stored, None, (), None)
    accounts = [dataset_account(dataset.name)]
    if wanted is not None and wanted.budget is not None:
        accounts.append(AccountId(AccountScope.MODEL, name))
    place = f"{dataset.name}@{dataset.version}/{name}/{stored.id}"
    consensus = None
    if wanted is not None and wanted.consensus is not None:
        consensus = ConsensusDesk(name, stored, wanted.consensus, place)
    remembers = wanted is None or wanted.remember
    return ServedModel(
        name,
        stored,
        Charge.of(stored.certificate),
        tuple(accounts),
        place if remembers else None,
        consensus,
    )


def dataset_account(name: str) -> AccountId:
    """Return the account of a dataset. All its versions share it: they share people."""
    return AccountId(AccountScope.DATASET, name)


def client_account(name: str) -> AccountId:
    """Return the account of a client."""
    return AccountId(AccountScope.CLIENT, name)


def cap_of(budget: BudgetSettings, relation: str) -> Cap:
    """Return a budget as a cap under a relation."""
    return replace(budget.cap(), relation=relation)


def open_accounts(ledger: Ledger, registry: Registry, settings: Settings) -> None:
    """Open the accounts of datasets and models, or check them against the settings."""
    wanted: dict[AccountId, BudgetSettings] = {}
    for model in registry:
        name = model.stored.dataset.name
        wanted[dataset_account(name)] = settings.datasets[name]
        for account in model.accounts:
            own = settings.models.get(model.name)
            if account not in wanted and own is not None and own.budget is not None:
                wanted[account] = own.budget
    known = {balance.account: balance for balance in ledger.balances()}
    for account, budget in wanted.items():
        cap = cap_of(budget, registry.relation)
        if account in known:
            _check_cap(known[account], cap)
        else:
            known[account] = ledger.open_account(account, cap)
    for model in registry:
        if model.charge is None:
            _charge_release(ledger, model)
    _check_prices(registry, known)


def _charge_release(ledger: Ledger, model: ServedModel) -> None:
    """Charge a released model to its dataset, once however often it is served.

    Its answers are free because the release was not.
    """
    stored = model.stored
    try:
        ledger.charge(
            Request(
                key=f"/release/{stored.id}",
                accounts=(dataset_account(stored.dataset.name),),
                charge=Charge.of(stored.certificate),
                queries=(b"the model",),
            )
        )
    except (BudgetExhaustedError, InvalidParameterError, RuleError) as error:
        raise NotDeployableError(
            f"the release of model {model.name!r} does not fit the budget of its "
            f"dataset: {error}"
        ) from None


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


def _check_prices(registry: Registry, known: Mapping[AccountId, Balance]) -> None:
    """Warn of models whose answers no account can pay for; refuse if all are so.

    Such a model costs the others nothing: whoever asks it is refused.
    """
    reasons = {model.name: _unpayable(model, known) for model in registry}
    for name, reason in reasons.items():
        if reason:
            fields = {"model": name, "reason": reason}
            log.warning("model can never be paid for", extra={"fields": fields})
    if reasons and all(reasons.values()):
        raise NotDeployableError(" ".join(filter(None, reasons.values())))


def _unpayable(model: ServedModel, known: Mapping[AccountId, Balance]) -> str | None:
    """Say why no account can ever pay for an answer of a model, if so."""
    if model.charge is None:
        return None
    charge = model.charge if model.consensus is None else model.consensus.charge
    for account in model.accounts:
        reason = price_problem(known[account].cap, charge)
        if reason:
            return (
                f"{account} can never pay for an answer of model {model.name!r}: "
                f"{reason}"
            )
    return None


def price_problem(cap: Cap, charge: Charge) -> str | None:
    """Say why an account under a cap can never pay for a charge, if so."""
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
