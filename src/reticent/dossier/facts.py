"""The facts that a dossier is derived from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reticent import __version__
from reticent._text import strict_json
from reticent.errors import InvalidParameterError
from reticent.guarantees import (
    Budget,
    Certificate,
    Scope,
    Stated,
    guess_in_words,
    stated,
)
from reticent.home import (
    DatasetBudget,
    Home,
    PeriodTotal,
    Settings,
    evaluation_history,
    total_over_periods,
)
from reticent.ledger import Balance, SQLLedger
from reticent.prediction import promised_by
from reticent.storage import StoredModel

_LARGEST = 20_000  # characters of one text


@dataclass(frozen=True)
class Texts:
    """What only the curator knows, in five texts; a missing one leaves its field open.

    Attributes
    ----------
    curator : str or None
        Who is responsible for the data and the model.
    intended_use : str or None
        What the model is for, and what it is not for.
    region : str or None
        Which region the records describe, and whose law applies.
    collection : str or None
        How the records were collected, on which legal basis, and what else was or
        will be published from them.
    rationale : str or None
        Why these parameters were chosen, and how settings were chosen before the fit.
    """

    curator: str | None = None
    intended_use: str | None = None
    region: str | None = None
    collection: str | None = None
    rationale: str | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Texts:
        """Read texts from a JSON file."""
        found = strict_json(Path(path).read_text("utf-8"))
        known = [each.name for each in fields(cls)]
        if not (
            isinstance(found, dict)
            and set(found) <= set(known)
            and all(_is_text(text) for text in found.values())
        ):
            raise InvalidParameterError(
                f"{os.fspath(path)} must be a JSON object with texts for some of "
                f"{', '.join(known)}, each of at most {_LARGEST:,} characters."
            )
        return cls(**found)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= _LARGEST


@dataclass(frozen=True, eq=False)
class ModelFacts:
    """Everything that a dossier says follows from these.

    Attributes
    ----------
    name : str
        The model's public name.
    stored : StoredModel
        The model with its certificate and schema.
    settings : Settings Of the home.
    balance : Balance
        The enforced cap of the dataset and what was spent of it.
    over_periods : PeriodTotal or None
        What a unit that stays is promised, if the budget is given out by period.
    models : tuple of str
        All models on the same dataset.
    first_charge : str or None
        The day of the first charge to the dataset.
    texts : Texts
        What the curator wrote.
    evaluations : tuple of mappings
        Private metrics that were measured and paid for.
    audit : mapping or None
        The report of `reticent.audit.examine` as JSON.
    written : str
        The day of the dossier.
    """

    name: str
    stored: StoredModel
    settings: Settings
    balance: Balance
    over_periods: PeriodTotal | None
    models: tuple[str, ...]
    first_charge: str | None
    texts: Texts
    evaluations: tuple[Mapping[str, Any], ...]
    audit: Mapping[str, Any] | None
    written: str

    @property
    def certificate(self) -> Certificate[Any]:
        """What one answer, all answers or the model promise."""
        return self.stored.certificate

    @property
    def released(self) -> bool:
        """Whether the model itself was released."""
        return self.certificate.scope is Scope.MODEL

    @property
    def lasting(self) -> bool:
        """Whether one total covers all answers."""
        return self.certificate.scope is Scope.INTERFACE

    @property
    def total(self) -> Budget:
        """What everything from this dataset may cost together: the enforced cap.

        What it has cost already, if the cap was lowered below that.
        """
        return promised_by(self.balance)

    @property
    def stated(self) -> Stated | None:
        """The promise of the certificate as epsilon and delta."""
        return stated(self.certificate, delta=self.total.delta)

    @property
    def promise(self) -> str:
        """The promise of the certificate in one line, with epsilon and delta."""
        numbers = "" if self.stated is None else f" ({self.stated})"
        return f"{self.certificate.headline()}{numbers}"

    @property
    def unit(self) -> str:
        """Who or what is protected, in words."""
        column = self.stored.schema.unit
        return "one row" if column is None else f"one value of the column {column!r}"

    @property
    def plain(self) -> str:
        """What the total means to those whom it protects."""
        relation = self.balance.cap.relation
        return guess_in_words(self.total, about=self.unit, relation=relation)

    @property
    def software(self) -> str:
        """Versions that made the model, and that write this."""
        made = ", ".join(f"{name} {v}" for name, v in self.stored.software.items())
        return f"made with {made}; this dossier by reticent {__version__}"


def read_facts(
    home: Home,
    name: str,
    *,
    texts: Texts | None = None,
    audit: str | os.PathLike[str] | None = None,
    written: str | None = None,
) -> ModelFacts:
    """Collect the facts about one model of a home.

    Parameters
    ----------
    home : Home
        The home.
    name : str
        The model.
    texts : Texts or None, default=None
        What the curator wrote.
    audit : path or None, default=None
        An ``audit.json`` that ``reticent audit`` wrote for this model.
    written : str or None, default=None
        The day, as YYYY-MM-DD; None for today.
    """
    settings = home.settings()
    if name not in settings.models:
        raise InvalidParameterError(
            f"there is no model {name!r}; this home has "
            f"{', '.join(sorted(settings.models)) or 'none'}."
        )
    stored = settings.load_model(name)
    dataset = stored.dataset.name
    balance = DatasetBudget(home, dataset).balance()
    if balance is None:
        raise InvalidParameterError(
            f"the dataset {dataset!r} of model {name!r} has no budget; set one with "
            "'reticent fit --budget'."
        )
    beside = tuple(
        sorted(
            other
            for other in settings.models
            if other == name or settings.load_model(other).dataset.name == dataset
        )
    )
    with settings.open_ledger() as ledger:
        first = _first_charge(ledger, str(balance.account))
        over = total_over_periods(settings, ledger, dataset, stored.certificate)
    return ModelFacts(
        name=name,
        stored=stored,
        settings=settings,
        balance=balance,
        over_periods=over,
        models=beside,
        first_charge=first,
        texts=texts or Texts(),
        evaluations=tuple(evaluation_history(home, name)),
        audit=None if audit is None else _audit_of(audit, stored),
        written=written or datetime.now(UTC).date().isoformat(),
    )


def _first_charge(ledger: SQLLedger, account: str) -> str | None:
    """Return the day of the first charge to an account."""
    for entry in ledger.entries():
        if entry.is_charge and account in entry.costs():
            moment = entry.content().get("time")
            if isinstance(moment, int | float):
                return datetime.fromtimestamp(moment, UTC).date().isoformat()
    return None


def _audit_of(path: str | os.PathLike[str], stored: StoredModel) -> Mapping[str, Any]:
    """Read a report, which must be about this very model."""
    try:
        found = json.loads(Path(path).read_text("utf-8"))
        certificate = Certificate.from_dict(found["certificate"])
        same = certificate.id == stored.certificate.id
        dataset = found["model"]["dataset"] == stored.dataset.name
    except (ValueError, KeyError, TypeError):
        raise InvalidParameterError(
            f"{os.fspath(path)} is not a report of 'reticent audit'; give its "
            "audit.json."
        ) from None
    if not (same and dataset):
        raise InvalidParameterError(
            f"{os.fspath(path)} is about another model; audit this one with "
            "'reticent audit'."
        )
    return dict(found)
