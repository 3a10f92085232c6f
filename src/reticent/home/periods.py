"""Budgets that are given out by period, such as a fourth of the total each quarter.

What is promised is the total over all periods: the cap of the dataset's own account,
which every charge of every period is charged to. Who stays in the data pays in each
period, so nothing smaller holds for them, and nothing smaller is printed. A period only
adds an account with a smaller cap, which every charge must fit as well. It can refuse
more, and never less.

A certificate of one answer says nothing about other periods. So where a budget has
periods, what is shown, signed or served with it is the total (`total_over_periods`):
what the dataset's own account promises for this model's charges and for everything else
that is charged to it.

Nothing is promised for one period alone. Such a promise would assume that nobody is in
the data of two periods (parallel composition), and that no model of an earlier period
answers in a later one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from reticent.errors import BudgetExhaustedError, InvalidParameterError, RuleError
from reticent.guarantees import (
    Budget,
    Certificate,
    Scope,
    Stated,
    stated,
    whole_cap,
)
from reticent.home.home import COMMAND_LINE, Home
from reticent.home.model_settings import BudgetSettings, DatasetSettings
from reticent.home.on_disk.members import keyed_hash, members_key, read_members
from reticent.home.served_models import dataset_account, period_account
from reticent.home.settings import Settings
from reticent.ledger import Balance, Cap, Charge, Ledger, SQLLedger
from reticent.prediction import promised_by, spent_so_far, total_forms
from reticent.schemas import read_table

#: The least share of units in a new file that no model has seen, unless told otherwise.
LEAST_NEW = 0.1


@dataclass(frozen=True)
class PeriodTotal:
    """The total over all periods, with its derivation.

    Attributes
    ----------
    dataset : str
        Whose budget is given out by period.
    period, periods : int
        Which period it is, of how many.
    certificate : Certificate
        What everything from the dataset promises, over all of them.
    """

    dataset: str
    period: int
    periods: int
    certificate: Certificate[Any]

    @property
    def stated(self) -> Stated | None:
        """The promise as epsilon and delta."""
        return stated(self.certificate)

    def sentence(self) -> str:
        """Say what is promised to a unit that stays."""
        return (
            f"The budget of {self.dataset!r} is given out in {self.periods} periods; "
            f"this is period {self.period}. A unit that stays in the data pays in "
            f"every one of them. What is promised to it is the total: {self.stated}. "
            "Nothing smaller is promised for one period alone."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return what clients are told."""
        return {
            "certificate": self.certificate.id,
            "promise": self.certificate.headline(),
            "stated": None if self.stated is None else self.stated.as_dict(),
            "period": self.period,
            "periods": self.periods,
        }


def split_budget(home: Home, dataset: str, periods: int) -> DatasetSettings:
    """Give the budget of a dataset out in equal parts, beginning with the first.

    Parameters
    ----------
    home : Home
        The home.
    dataset : str
        The dataset, which has a budget.
    periods : int
        How many periods there will be.
    """
    settings = home.settings()
    known = _known(settings, dataset)
    if known.periods > 1:
        raise InvalidParameterError(
            f"the budget of {dataset!r} has {known.periods} periods already."
        )
    if not periods > 1:
        raise InvalidParameterError(f"periods={periods} must be 2 or more.")
    split = replace(known, periods=periods, period=1)
    return _begin(home, dataset, split, "budget split")


def renew_budget(
    home: Home,
    dataset: str,
    data: str | os.PathLike[str],
    *,
    least: float = LEAST_NEW,
) -> DatasetSettings:
    """Begin the next period of a dataset, if there are new records.

    What was left of the period before is not carried over. The total stays what it was:
    it is promised to everybody who stays in the data.

    Parameters
    ----------
    home : Home
        The home.
    dataset : str
        The dataset, whose budget was split into periods.
    data : path
        The file that models will be trained on from now on.
    least : float, default=0.1
        The least share of its units that no model has seen.

    Raises
    ------
    InvalidParameterError
        If all periods have begun: more would be a weaker promise than the one that was
        made. Also if too few units are new, or if that cannot be told.
    """
    settings = home.settings()
    known = _known(settings, dataset)
    if known.periods == 1:
        raise InvalidParameterError(
            f"the budget of {dataset!r} is not given out by period; 'reticent accounts "
            "split' begins that."
        )
    if known.period >= known.periods:
        raise InvalidParameterError(
            f"all {known.periods} periods of {dataset!r} have begun. Everybody who "
            f"stays was promised a total of {_total(known)}, and a larger one is a "
            "weaker promise to them: 'reticent accounts cap' changes it openly."
        )
    _check_new(home, settings, dataset, data, least)
    after = replace(known, period=known.period + 1)
    return _begin(home, dataset, after, "period begun")


def reset_period(home: Home, ledger: SQLLedger, dataset: str) -> None:
    """Give the current period its part of a total that was changed."""
    settings = home.settings()
    known = settings.datasets.get(dataset)
    if known is None or known.periods == 1:
        return
    relation = ledger.balance(dataset_account(dataset)).cap.relation
    cap = replace(known.part().cap(), relation=relation)
    ledger.set_cap(period_account(dataset, known.period), cap)


def total_over_periods(
    settings: Settings,
    ledger: Ledger,
    dataset: str,
    certificate: Certificate[Any],
    *,
    answers: int | None = None,
) -> PeriodTotal | None:
    """Return the total over all periods; None if the budget has no periods.

    Parameters
    ----------
    settings : Settings
        They say whether the budget is given out by period.
    ledger : Ledger
        Its accounts say what is enforced.
    dataset : str
        The dataset that is charged.
    certificate : Certificate
        What is charged: an answer, a session or a release.
    answers : int or None, default=None
        For how many answers of one period; None means as many as it admits.

    Raises
    ------
    InvalidParameterError
        If a period does not admit these answers. A certificate for them would hide
        that a unit that stays pays in other periods too.
    BudgetExhaustedError
        If the cap was lowered so far that it can never pay for one of them.
    """
    known = settings.datasets.get(dataset)
    if known is None or known.periods == 1:
        return None
    balance = ledger.balance(dataset_account(dataset))
    part = ledger.balance(period_account(dataset, known.period)).cap
    found = _composed(balance, part, known, certificate, answers)
    return PeriodTotal(dataset, known.period, known.periods, found)


def _begin(
    home: Home, dataset: str, wanted: DatasetSettings, act: str
) -> DatasetSettings:
    account = period_account(dataset, wanted.period)
    with home.settings().open_ledger() as ledger:
        ledger.record(
            act,
            COMMAND_LINE,
            {
                "dataset": dataset,
                "period": wanted.period,
                "of": wanted.periods,
                "total": str(_total(wanted)),
            },
        )
        relation = ledger.balance(dataset_account(dataset)).cap.relation
        ledger.open_account(account, replace(wanted.part().cap(), relation=relation))
    home.set_period(dataset, wanted.periods, wanted.period)
    return wanted


def _known(settings: Settings, dataset: str) -> DatasetSettings:
    known = settings.datasets.get(dataset)
    if known is None:
        raise InvalidParameterError(
            f"there is no dataset {dataset!r} in this home; it has "
            f"{', '.join(sorted(settings.datasets)) or 'none'}."
        )
    return known


def _total(budget: BudgetSettings) -> Budget:
    return Budget(budget.epsilon, budget.delta)


def _check_new(
    home: Home,
    settings: Settings,
    dataset: str,
    data: str | os.PathLike[str],
    least: float,
) -> None:
    """Refuse a file in which hardly anybody is new."""
    if not 0 < least <= 1:
        raise InvalidParameterError(f"least={least} must be above 0 and at most 1.")
    key, seen, schema = members_key(home), set(), None
    for name in settings.models:
        stored = settings.load_model(name)
        members = read_members(home, home.model_path(name).name)
        if stored.dataset.name == dataset and members is not None:
            schema = stored.schema
            seen.update(members.table["who"].tolist())
    if schema is None:
        raise InvalidParameterError(
            f"it is not known who is in the models on {dataset!r}, so new records "
            "cannot be told from old ones. Name a unit column in the schema, and fit a "
            "model that is asked."
        )
    units = read_table(data, schema).units
    who = {keyed_hash(key, unit) for unit in (() if units is None else units)}
    if not len(who - seen) >= max(1.0, least * len(who)):
        raise InvalidParameterError(
            f"fewer than {100 * least:g} % of the units in the file are new. A period "
            "is for new records: without them it would only spend more of the people "
            "who stay."
        )


def _composed(
    balance: Balance,
    part: Cap,
    known: DatasetSettings,
    certificate: Certificate[Any],
    answers: int | None,
) -> Certificate[Any]:
    cap = balance.cap
    if not cap.allows(balance.spent):
        # It was lowered below what is spent, so it is no longer what holds.
        spent = spent_so_far(balance)
        if spent is not None:
            return spent
        promised_by(balance)  # says that nobody knows
    times, together = 1, None
    if certificate.scope is Scope.ANSWER:
        most = part.answers_left(Charge.of(certificate))
        times = max(1, most) if answers is None else answers
        together = times * known.periods
        if answers is not None and answers > most:
            raise InvalidParameterError(
                f"answers={answers}: a period of {balance.account} admits at most "
                f"{most} of them. Who stays in the data pays in {known.periods} "
                f"periods, so ask for at most {most}."
            )
    forms = [certificate]
    if certificate.scope is Scope.INTERFACE:
        forms = total_forms(certificate)  # the account was charged in one of them
    for form in forms:
        with suppress(RuleError):
            return whole_cap(form, cap.filter, times, together)
    raise BudgetExhaustedError(
        f"{balance.account} may spend {cap.budget}, which can never pay for "
        f"{certificate.headline()}. 'reticent accounts cap' changes it."
    )
