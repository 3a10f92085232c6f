"""Models under their public names, with the accounts that pay for their answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any

from reticent._clock import milliseconds
from reticent._ids import random_name
from reticent._text import checked_name
from reticent.errors import IdempotencyKeyError, NotDeployableError
from reticent.guarantees import Certificate, Stated, stated
from reticent.home.consensus_sessions import ConsensusSession
from reticent.home.lasting_sessions import LastingSession, lasting_session
from reticent.home.model_settings import ModelSettings
from reticent.home.settings import Settings
from reticent.ledger import (
    AccountId,
    AccountScope,
    Charge,
    Ledger,
    Request,
    RequestForm,
)
from reticent.prediction import PaidAnswers, answer, total_charges
from reticent.schemas import PackedRows, Table
from reticent.storage import StoredModel

_MADE = "/r/"  # follows the client's name in keys that we make
_KEY = re.compile(r"[!-~]{1,100}")
# Clients whose requests a model prepares for.
_MOST_FORMS = 4096


def dataset_account(name: str) -> AccountId:
    """Return the account of a dataset. All its versions share it: they share people."""
    return AccountId(AccountScope.DATASET, name)


def period_account(dataset: str, number: int) -> AccountId:
    """Return the account of one period of a dataset whose budget is split."""
    return AccountId(AccountScope.DATASET, f"{dataset}.period-{number}")


def paying_accounts(settings: Settings, dataset: str) -> tuple[AccountId, ...]:
    """Return the accounts that everything from a dataset is charged to.

    The dataset's own, over all periods, and that of the current period if its budget is
    given out by period.
    """
    known = settings.datasets.get(dataset)
    if known is None or known.periods == 1:
        return (dataset_account(dataset),)
    return dataset_account(dataset), period_account(dataset, known.period)


@lru_cache(maxsize=4096)
def client_account(name: str) -> AccountId:
    """Return the account of a client; refuse what is not a plain name."""
    return AccountId(AccountScope.CLIENT, checked_name("client", name))


def request_key(client: str, given: str | None = None) -> str:
    """Return the ledger's key of a client's request; no two clients share one.

    Keys that we choose begin with the time, in milliseconds. New ones then lie next to
    each other in the ledger's index, and a commit has fewer pages of it to write.

    Parameters
    ----------
    client : str
        Who asks.
    given : str or None, default=None
        The idempotency key that the client chose; None makes a new one.
    """
    if given is None:
        return f"{client}{_MADE}{milliseconds():012x}{random_name()}"
    if not _KEY.fullmatch(given):
        raise IdempotencyKeyError(
            "an idempotency key must be 1 to 100 visible ASCII characters."
        )
    return f"{client}/k/{given}"


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
    share : bool
        Whether all clients share them, see `ModelSettings`.
    consensus : ConsensusSession or None
        Answers by consensus, where that is configured.
    lasting : LastingSession or None
        Answers any number of questions, if one total covers them.
    delta : float
        The delta of its dataset's budget.
    """

    name: str
    stored: StoredModel
    charge: Charge | None
    accounts: tuple[AccountId, ...]
    memory: str | None
    consensus: ConsensusSession | None = None
    share: bool = False
    lasting: LastingSession | None = None
    delta: float = 0.0

    def __post_init__(self) -> None:
        # What every answer needs is there before the first request.
        _ = self.draw, self.loss_json

    @property
    def certificate(self) -> Certificate[Any]:
        """What its answers promise: one of them, or a whole consensus session."""
        if self.consensus is not None:
            return self.consensus.certificate
        return self.stored.certificate

    @cached_property
    def stated(self) -> Stated | None:
        """The promise as epsilon and delta, the same wherever people read it."""
        return stated(self.certificate, delta=self.delta)

    @property
    def near_chance(self) -> str | None:
        """Say so if noise leaves its answers near guessing; None if not, or unknown."""
        law = getattr(self.stored.predictor, "law_", None)
        found = None if self.consensus else getattr(law, "expectation", None)
        found = found or self.stored.expectation
        return None if found is None or not found.near_chance else f"{found}."

    @property
    def price(self) -> Charge | None:
        """What is charged for an answer or a session; None if answers are free."""
        return self.charge if self.consensus is None else self.consensus.charge

    @cached_property
    def draw(self) -> Callable[[Table], list[bytes]]:
        """Draws one answer per row, as JSON; always the same object."""
        if self.consensus is not None:
            return self.consensus.answer_json
        return self.stored.answer_json

    def request(self, client: str, table: Table | PackedRows, key: str) -> Request:
        """Return the request to the ledger for a client's rows; the client pays last.

        Only for models whose answers are charged.
        """
        # A key that we made occurs once; one that the client chose may come back.
        made = key.startswith(_MADE, len(client)) and key.startswith(client)
        queries = self.stored.queries(table)
        return self.form(client).filled(key, queries, record=not made)

    def form(self, client: str) -> RequestForm:
        """Return what all requests of a client have in common."""
        form = self._forms.get(client)
        if form is None:
            if len(self._forms) >= _MOST_FORMS:
                self._forms.clear()
            form = self._forms[client] = self._form(client)
        return form

    @cached_property
    def _forms(self) -> dict[str, RequestForm]:
        return {}

    def _form(self, client: str) -> RequestForm:
        price = self.price
        if price is None:
            raise NotDeployableError(f"answers of model {self.name!r} are free.")
        accounts, memory = (*self.accounts, client_account(client)), self.memory
        if memory is not None and not self.share:
            memory = _own_memory(memory, client)
        if self.consensus is not None:
            accounts, memory = (self.consensus.account,), self.consensus.memory
        return RequestForm(accounts, price, memory)

    @cached_property
    def loss(self) -> dict[str, Any]:
        """What is charged, and for what: an answer, a session, all answers, nothing."""
        price, per = self.price, "answer" if self.consensus is None else "session"
        if self.lasting is not None:
            forms = [each.as_floats() for each in total_charges(self.certificate)]
            # All of them hold; which one was paid depends on what the account had.
            return {"per": "total", **forms[-1], "rho": forms[0]["rho"]}
        if price is None:
            return {"per": "nothing", "epsilon": 0.0, "delta": 0.0, "rho": 0.0}
        return {"per": per, **price.as_floats()}

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
            "stated": None if self.stated is None else self.stated.as_dict(),
            "loss": self.loss,
            "near_chance": self.near_chance,
            "columns": stored.schema.as_dict()["columns"],
        }


@lru_cache(maxsize=4096)
def _own_memory(memory: str, client: str) -> str:
    """Name the answers that are remembered for one client alone."""
    return sha256(f"{memory}\n{client}".encode()).hexdigest()


def _answers(stored: StoredModel) -> dict[str, Any]:
    if stored.classes is not None:
        return {"kind": "classes", "classes": list(stored.classes)}
    label = stored.schema.label
    low, high = getattr(label, "low", None), getattr(label, "high", None)
    return {"kind": "number", "low": low, "high": high}


def answer_rows(
    ledger: Ledger,
    model: ServedModel,
    table: Table,
    *,
    client: str,
    key: str | None = None,
) -> PaidAnswers:
    """Answer rows for a client, charged before anything is drawn.

    Parameters
    ----------
    ledger : Ledger
        In which the accounts of the model and of the client are open.
    model : ServedModel
        What is asked. table : Table Rows that its schema has checked.
    client : str
        Whose account pays, besides those of the model.
    key : str or None, default=None
        Idempotency key: the same key and rows again cost nothing more.

    Raises
    ------
    BudgetExhaustedError
        If an account cannot pay; nothing is charged then.
    AnswerLostError
        If the key was charged before and its answer was lost.
    """
    if model.lasting is not None:
        return model.lasting.answer(table, client)
    if model.charge is None:
        return PaidAnswers(model.draw(table))
    if model.consensus is not None:
        model.consensus.admit(ledger, model.accounts, client)
    request = model.request(client, table, request_key(client, key))
    receipt = answer(
        ledger, request, lambda places: model.draw(table.take(list(places)))
    )
    return PaidAnswers.of(receipt, request.accounts[-1])


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

    def close(self) -> None:
        """Keep what makes the next start quick; call it before the ledger closes."""
        for model in self:
            if model.lasting is not None:
                model.lasting.close()

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

    def delta_of(self, names: frozenset[str]) -> float:
        """Return the delta at which a certificate of these models is stated."""
        return max(self.models[name].delta for name in names)


def open_registry(settings: Settings, *names: str) -> Registry:
    """Load models, all of them or those named; refuse what must not be served."""
    stored = {name: settings.load_model(name) for name in names or settings.models}
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
    relations |= {
        Charge.of(model.certificate).relation
        for model in models.values()
        if model.lasting is not None
    }
    if len(relations) > 1:
        raise NotDeployableError(
            f"the models' charges are under different relations "
            f"({', '.join(sorted(relations))}), which one account cannot add up. Serve "
            "them separately."
        )
    return Registry(models, *(relations or {"replace-one"}))


def _served(
    name: str,
    stored: StoredModel,
    wanted: ModelSettings | None,
    settings: Settings,
) -> ServedModel:
    dataset = stored.dataset
    if dataset.name not in settings.datasets:
        raise NotDeployableError(
            f"model {name!r} is on the dataset {dataset.name!r}, which has no budget. "
            f"Set datasets.{dataset.name}.epsilon."
        )
    delta = settings.datasets[dataset.name].delta
    if stored.lasting is not None:
        session = lasting_session(stored, name, wanted, settings)
        session.check(name)
        return ServedModel(name, stored, None, (), None, lasting=session, delta=delta)
    if not stored.charged:
        return ServedModel(name, stored, None, (), None, delta=delta)
    accounts = list(paying_accounts(settings, dataset.name))
    if wanted is not None and wanted.budget is not None:
        accounts.append(AccountId(AccountScope.MODEL, name))
    place = f"{dataset.name}@{dataset.version}/{name}/{stored.id}"
    consensus = None
    if wanted is not None and wanted.consensus is not None:
        consensus = ConsensusSession(name, stored, wanted.consensus, place)
    remembers = wanted is None or wanted.remember
    return ServedModel(
        name,
        stored,
        Charge.of(stored.certificate),
        tuple(accounts),
        place if remembers else None,
        consensus,
        share=wanted is not None and wanted.share,
        delta=delta,
    )
