"""From a file of sensitive rows to a tuned model: what ``reticent tune`` calls."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from reticent.errors import InvalidParameterError
from reticent.guarantees import (
    ApproxDP,
    Budget,
    Certificate,
    PureDP,
    ReplaceOne,
    Scope,
    claim,
)
from reticent.home.accounts import price_problem
from reticent.home.dataset_budgets import DatasetBudget, planned, release_delta
from reticent.home.fit_options import FitOptions, check_above_zero
from reticent.home.home import Home
from reticent.home.model_choice import (
    asked_predictor,
    linear_release,
    released_learner,
)
from reticent.home.served_models import paying_accounts
from reticent.home.train_and_store import (
    check_label,
    check_name_is_free,
    expect_release,
    heard,
    store_model,
    told_already,
)
from reticent.learners import PrivateSearch
from reticent.ledger import Cap, Charge, Request
from reticent.schemas import NumericTarget, Schema, read_table

_Grid: TypeAlias = dict[str, list[Any]]

# Settings that are tried if none are named. Public: they do not depend on any data.
_TABLE: _Grid = {"detail": [0.3, 1.0, 3.0, 10.0], "interactions": [0.0, 0.45, 0.75]}
_GRADIENT: _Grid = {"clip": [0.25, 0.5, 1.0], "steps": [50, 100, 200, 400]}
_OBJECTIVE: _Grid = {"regularization": ["auto", 0.001, 0.003, 0.01, 0.03, 0.1]}
_TREES: _Grid = {
    "estimator__max_leaf_nodes": [4, 8, 16],
    "estimator__learning_rate": [0.05, 0.1, 0.2, 0.4],
}
_LINEAR_LABELS: _Grid = {"estimator__C": [0.01, 0.1, 1.0, 10.0]}
_LINEAR_NUMBERS: _Grid = {"estimator__alpha": [0.1, 1.0, 10.0, 100.0]}
# Part of the dataset's delta that a search uses. Accounts keep a twentieth for charges
# that have a delta of their own.
_DELTA_SHARE = 0.02


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How to search: the options of ``reticent tune`` that ``fit`` does not have.

    Parameters
    ----------
    epsilon : float, default=1.0
        What choosing costs; for a release this includes the model.
    grid : mapping or None, default=None
        Lists of values by the name of a parameter; None tries a public default.
    runs : float or None, default=None
        With Gaussian noise, the most settings that are tried, 5 by default; else the
        number of runs on average, 10 by default.
    verbose : bool, default=False
        Whether to show progress where the number of runs is no secret.
    """

    epsilon: float = 1.0
    grid: Mapping[str, list[Any]] | None = None
    runs: float | None = None
    verbose: bool = False

    def __post_init__(self) -> None:
        check_above_zero("epsilon", self.epsilon)


def tune_and_store(
    home: Home,
    data: str | os.PathLike[str],
    schema: Schema,
    options: FitOptions,
    tuning: Tuning,
    *,
    note: Callable[[str], None] | None = None,
) -> PrivateSearch:
    """Search for settings on a file, pay for it, and store what was found.

    Parameters
    ----------
    home : Home
        Where model, ledger and keys are.
    data : path
        The sensitive rows: CSV or Parquet.
    schema : Schema
        What is publicly known about them.
    options : FitOptions
        What to make of them: a release, or a predictor with its own epsilon.
    tuning : Tuning
        How to search.
    note : callable or None, default=None
        Called with what the search will cost, before it begins, and with warnings.

    Returns
    -------
    PrivateSearch
        The fitted search.

    Raises
    ------
    BudgetExhaustedError
        If the dataset's budget does not cover the search; nothing is trained then.
    OnlyNoiseError
        If answers would be hardly more than noise, and `accept_noise` is not set.
    """
    check_label(schema)
    check_name_is_free(home, options)
    if options.public is not None or options.scratch is not None:
        raise InvalidParameterError(
            "tuning takes rows in memory, and no public rows; fit with the settings "
            "that were found instead."
        )
    account = DatasetBudget(home, options.dataset)
    change = options.change_budget
    budget = account.settle(options.budget, options.delta, change=change)
    price = _settled_price(account, budget, schema, options, tuning.epsilon)
    build = asked_predictor
    if options.release:
        build = released_learner if price.delta > 0 else linear_release
    encoder, model = build(schema, options, price.delta)
    search = PrivateSearch(
        model,
        dict(tuning.grid) if tuning.grid is not None else _grid(model, options),
        price,
        runs=tuning.runs,
        verbose=tuning.verbose,
    )
    if note is not None:
        note(_announced(price, options, budget))
        note(f"searching on {os.fspath(data)} ...")
    rows = read_table(data, schema)
    with heard(note, accept_noise=options.accept_noise):
        expected = expect_release(model, encoder, rows, options)
        with told_already(expected):
            search.fit(encoder.transform(rows), rows.label, units=rows.units)
    if expected is not None:
        search.best_estimator_.expectation_ = expected
    if not options.release:
        charge = Charge.of(search.certificate_)
        account.open(budget, charge.relation)
        with account.ledger() as ledger:
            ledger.charge(
                Request(
                    key=f"/tuning/{secrets.token_hex(16)}",
                    accounts=paying_accounts(home.settings(), options.dataset),
                    charge=charge,
                    queries=(b"the choice",),
                )
            )
    store_model(account, search.best_estimator_, encoder, options, budget)
    return search


def _announced(price: Budget, options: FitOptions, budget: Budget) -> str:
    """Say what a search costs, before it begins."""
    cost = str(price).removesuffix(" in total")
    what = "and the model" if options.release else "alone: later answers cost more"
    return (
        f"this costs {cost}, for the search {what}. Dataset {options.dataset!r} has "
        f"{budget}."
    )


def _settled_price(
    account: DatasetBudget,
    budget: Budget,
    schema: Schema,
    options: FitOptions,
    epsilon: float,
) -> Budget:
    """Return what the search may cost; refuse what the dataset can never pay."""
    known = account.balance()
    cap = Cap.within(budget) if known is None else known.cap
    if options.release and cap.rho:
        # Charged as concentrated DP, like any release with Gaussian noise.
        number = isinstance(schema.label, NumericTarget)
        account.check(planned(epsilon, cap, release=True, number=number), budget)
        return Budget(epsilon, release_delta(epsilon, cap))
    if not options.release:
        number = isinstance(schema.label, NumericTarget)
        later = planned(options.epsilon, cap, release=False, number=number)
        account.check_clients(later)
    price = _price(cap, budget, epsilon)
    account.check(_expected(price), budget)
    return price


def _price(cap: Cap, budget: Budget, epsilon: float) -> Budget:
    """Return what the search may cost: with a delta only if the account takes one."""
    asked = Budget(epsilon, _DELTA_SHARE * budget.delta)
    if asked.delta == 0:
        return asked
    charge = Charge.loss(
        epsilon=asked.epsilon,
        delta=asked.delta,
        rho=asked.epsilon**2 / 2,
        certificate="tuning",
    )
    return asked if price_problem(cap, charge) is None else Budget(epsilon)


def _expected(price: Budget) -> Certificate[Any]:
    """Return what the search will promise."""
    loss: Any = PureDP(price.epsilon)
    if price.delta > 0:
        loss = ApproxDP(price.epsilon, price.delta)
    return claim(loss, ReplaceOne(1), Scope.MODEL, statement="before it is trained")


def _grid(model: Any, options: FitOptions) -> _Grid:
    known = model.get_params()
    if "detail" in known:
        return _TABLE
    if options.release:
        return _GRADIENT if "steps" in known else _OBJECTIVE
    if not options.linear:
        return _TREES
    return _LINEAR_LABELS if "estimator__C" in known else _LINEAR_NUMBERS
