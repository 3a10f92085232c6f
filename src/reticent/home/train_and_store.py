"""From a file of sensitive rows to a model in a home: what ``reticent fit`` calls."""

from __future__ import annotations

import os
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reticent.errors import (
    BudgetExhaustedError,
    InvalidParameterError,
    NearChanceWarning,
    OnlyNoiseError,
    OnlyNoiseWarning,
    ReticentError,
    ReticentWarning,
)
from reticent.estimators import ReleaseExpectation, unit_positions
from reticent.guarantees import Budget
from reticent.home.accounts import charge_release
from reticent.home.dataset_budgets import DatasetBudget, planned, release_delta
from reticent.home.evaluations import evaluate_model
from reticent.home.fit_options import FitOptions
from reticent.home.held_out import QUESTIONS, split_rows
from reticent.home.home import Home
from reticent.home.model_choice import (
    asked_predictor,
    lasting_predictor,
    released_learner,
    taught_student,
)
from reticent.home.on_disk.members import write_members
from reticent.home.rehearsal import rehearse
from reticent.home.served_models import paying_accounts
from reticent.ledger import Cap, Charge, Request
from reticent.prediction import total_charges
from reticent.schemas import (
    Encoder,
    NumericTarget,
    Schema,
    Table,
    read_batches,
    read_table,
)
from reticent.storage import load_model, save_model


def train_and_store(
    home: Home,
    data: str | os.PathLike[str],
    schema: Schema,
    options: FitOptions,
    *,
    note: Callable[[str], None] | None = None,
) -> Any:
    """Train on a file and store the model in a home; pay for it if it is a release.

    Parameters
    ----------
    home : Home
        Where model, ledger and keys are.
    data : path
        The sensitive rows: CSV or Parquet.
    schema : Schema
        What is publicly known about them.
    options : FitOptions
        What to make of them.
    note : callable or None, default=None
        Called with a sentence when training begins, and with warnings.

    Returns
    -------
    estimator
        The fitted model.

    Raises
    ------
    BudgetExhaustedError
        If the dataset's budget can never pay for the model. Where that can be told
        beforehand, nothing is trained.
    OnlyNoiseError
        If answers would be hardly more than noise, and `accept_noise` is not set.
        Nothing is trained then, and nothing stored.
    """
    check_label(schema)
    check_name_is_free(home, options)
    account = DatasetBudget(home, options.dataset)
    change = options.change_budget
    budget = account.settle(options.budget, options.delta, change=change)
    balance = account.balance()
    cap = Cap.within(budget) if balance is None else balance.cap
    release = options.releases
    number = isinstance(schema.label, NumericTarget)
    delta = release_delta(options.epsilon, cap) if release else budget.delta
    if options.lasting:
        account.check_total(options.epsilon, delta, options.relation, budget)
    else:
        expected = planned(options.epsilon, cap, release=release, number=number)
        account.check(expected, budget)
        if not release:
            account.check_clients(expected)
    encoder, model = _chosen(options)(schema, options, delta)
    if note is not None:
        note(f"training on {os.fspath(data)} ...")
    with heard(note, accept_noise=options.accept_noise):
        units, held_out = _train(model, encoder, data, options)
    _warn_of_delta(budget.delta, model, note)
    path = store_model(account, model, encoder, options, budget)
    shards = getattr(model, "shard_of_row_", None)
    if units is not None and shards is not None:
        write_members(home, path.name, units, shards)
    if held_out is not None:
        _measure(home, held_out, options, note)
    return model


def _warn_of_delta(
    delta: float, model: Any, note: Callable[[str], None] | None
) -> None:
    """Say that a delta is so large that it allows giving away a record."""
    units = model.certificate_.relation.n
    if delta * units >= 1 and note is not None:
        note(
            f"warning: delta={delta:g} is not below one divided by the number of units "
            f"({units:,}). A promise with it allows that a whole record is given away; "
            "choose one far below (--delta)."
        )


def check_label(schema: Schema) -> None:
    """Refuse a schema that does not say what is to be predicted."""
    if schema.label is None:
        raise InvalidParameterError(
            "the schema declares no label; name the column to be predicted."
        )


def check_name_is_free(home: Home, options: FitOptions) -> None:
    """Refuse a name that a model has, unless it is to be replaced."""
    if not options.replace and home.has_model(options.name):
        raise InvalidParameterError(
            f"there is a model {options.name!r} already; choose another name, or "
            "replace it (--replace)."
        )


def _train(
    model: Any, encoder: Encoder, data: str | os.PathLike[str], options: FitOptions
) -> tuple[Any, Table | None]:
    """Fit a model; return the unit of each row it saw, and the rows held out.

    None where the schema names no unit, and where nothing was to be held out.
    """
    if options.scratch is not None:
        model.fit_batches(_batches(data, encoder), options.scratch)
        return None, None
    rows, held_out = read_table(data, encoder.schema), None
    if options.measure is not None:
        rows, held_out = split_rows(rows, most=None if options.releases else QUESTIONS)
    expected = expect_release(model, encoder, rows, options)
    known = {}
    if options.public is not None:
        known["public"] = encoder.transform(
            read_table(options.public, encoder.schema, labelled=False)
        )
    with told_already(expected):
        model.fit(encoder.transform(rows), rows.label, units=rows.units, **known)
    if expected is not None:
        model.expectation_ = expected
    return rows.units, held_out


@contextmanager
def told_already(expected: ReleaseExpectation | None) -> Iterator[None]:
    """Leave out what a learner expects by itself if trials have said more."""
    with warnings.catch_warnings():
        if expected is not None:
            warnings.simplefilter("ignore", NearChanceWarning)
        yield


def expect_release(
    model: Any, encoder: Encoder, rows: Table, options: FitOptions
) -> ReleaseExpectation | None:
    """Say what a release of a small table is worth, and warn if that is little.

    Parameters
    ----------
    model : estimator
        What will be trained.
    encoder : Encoder
        How rows are encoded.
    rows : Table
        The rows; only their number of units is looked at.
    options : FitOptions
        What to make of them.
    """
    if not options.release:
        return None
    _, n_units = unit_positions(rows.units, len(rows))
    expected = rehearse(model, encoder, n_units)
    if expected is not None:
        expected.warn(options.epsilon)
    return expected


def _measure(
    home: Home,
    held_out: Table,
    options: FitOptions,
    note: Callable[[str], None] | None,
) -> None:
    """Measure a stored model; say so if the budget does not cover that."""
    number = isinstance(held_out.schema.label, NumericTarget)
    try:
        found = evaluate_model(
            home,
            options.name,
            held_out,
            metric="r2" if number else "accuracy",
            epsilon=options.measure or 0.0,
            accept_noise=options.accept_noise,
        )
    except (BudgetExhaustedError, OnlyNoiseError) as error:
        if note is not None:
            note(f"warning: the model is stored, but was not measured: {error}")
        return
    if note is not None:
        note(f"measured on held-out units: {found}.")


@contextmanager
def heard(note: Callable[[str], None] | None, *, accept_noise: bool) -> Iterator[None]:
    """Pass our warnings on as notes; refuse what would be noise, unless accepted.

    Parameters
    ----------
    note : callable or None
        Called with every warning.
    accept_noise : bool
        Whether answers may be hardly more than noise.
    """
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ReticentWarning)
        if not accept_noise:
            warnings.simplefilter("error", OnlyNoiseWarning)
        try:
            yield
        except OnlyNoiseWarning as warning:
            raise OnlyNoiseError(
                f"{warning} To train all the same, accept the noise (--accept-noise)."
            ) from None
    for one in told:
        if isinstance(one.message, ReticentWarning) and note is not None:
            note(f"warning: {one.message}")
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _chosen(
    options: FitOptions,
) -> Callable[[Schema, FitOptions, float], tuple[Encoder, Any]]:
    if options.public is not None:
        return taught_student
    if options.lasting:
        return lasting_predictor
    return released_learner if options.release else asked_predictor


def _batches(
    data: str | os.PathLike[str], encoder: Encoder
) -> Iterator[tuple[Any, ...]]:
    for rows in read_batches(data, encoder.schema):
        yield encoder.transform(rows), rows.label, rows.units


def store_model(
    account: DatasetBudget,
    model: Any,
    encoder: Encoder,
    options: FitOptions,
    budget: Budget,
) -> Path:
    """Write a model; what is paid once is paid before it gets its name.

    Parameters
    ----------
    account : DatasetBudget
        The dataset that pays.
    model : fitted estimator
        The model.
    encoder : Encoder
        How rows were encoded.
    options : FitOptions
        What was asked for.
    budget : Budget
        What the dataset gets, if it has no budget yet.

    Returns
    -------
    Path
        Where it is.
    """
    home = account.home
    final = home.new_model_path(options.name)
    if options.lasting:
        opened = account.open_total(budget, total_charges(model.certificate_))
    else:
        if not options.releases:
            account.check(model.certificate_, budget)
        opened = account.open(budget, Charge.of(model.certificate_).relation)
    unpaid = home.models / f".{options.name}.{secrets.token_hex(6)}.unpaid"
    path = unpaid if options.paid_once else final
    # Accounts with a delta add up zCDP, which Gaussian noise is best described by.
    concentrated = (
        options.releases
        and bool(opened.cap.rho)
        and hasattr(model, "zcdp_certificate_")
    )
    try:
        save_model(
            path,
            model,
            encoder.schema,
            signing_key=home.signing_key(),
            encoder=encoder,
            dataset=options.dataset,
            concentrated=concentrated,
            replace=True,
        )
    except ReticentError:
        if options.releases:
            _charge_anyway(account, model, concentrated=concentrated)
        raise
    if options.paid_once:
        try:
            with account.ledger() as ledger:
                stored = load_model(path, signing_key=home.signing_key())
                also = paying_accounts(home.settings(), stored.dataset.name)[1:]
                charge_release(ledger, stored, also=also)
        except BaseException:  # also Ctrl-C: a lasting model holds records
            shutil.rmtree(path, ignore_errors=True)
            raise
        path.rename(final)
    home.register(options.name, final)
    return final


def _charge_anyway(account: DatasetBudget, model: Any, *, concentrated: bool) -> None:
    """Charge a release that cannot be stored.

    Whether it can may depend on the private answers that it was made of, as with a
    student that was taught one label only. Whoever tried again until it can would learn
    that for nothing.
    """
    certificate = model.zcdp_certificate_ if concentrated else model.certificate_
    accounts = paying_accounts(account.home.settings(), account.dataset)
    with account.ledger() as ledger:
        ledger.charge(
            Request(
                key=f"/release/unstored/{secrets.token_hex(16)}",
                accounts=accounts,
                charge=Charge.of(certificate),
                queries=(b"a model that cannot be stored",),
            )
        )
