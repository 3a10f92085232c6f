"""From a file of sensitive rows to a model in a home: what ``reticent fit`` calls."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.linear_model import LogisticRegression

from reticent._text import checked_name
from reticent.ensembles import SHARD_TREES
from reticent.errors import InvalidParameterError, ReticentError
from reticent.guarantees import Budget
from reticent.home.accounts import charge_release
from reticent.home.dataset_budgets import DatasetBudget, planned, release_delta
from reticent.home.home import Home
from reticent.learners import (
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    ObjectivePerturbationClassifier,
    ObjectivePerturbationRegressor,
    StudentClassifier,
)
from reticent.ledger import Cap, Charge
from reticent.prediction import PrivateAveragingRegressor, PrivateVotingClassifier
from reticent.schemas import Encoder, NumericTarget, Schema, read_batches, read_table
from reticent.storage import load_model, save_model

LEARNERS = ("boosting", "linear")
# Public knots of a numeric column in a released additive model.
_KNOTS = 8


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What to make of the rows; the options of ``reticent fit``.

    Parameters
    ----------
    name, dataset : str
        What to call the model, and whose budget it spends.
    epsilon : float, default=1.0
        Privacy cost of one answer, or of the whole model if it is released.
    budget, delta : float or None, default=None
        What everything made from the dataset may cost together. None takes what the
        dataset has, or 50 and 1e-6 for a new one.
    change_budget : bool, default=False
        Whether a dataset that has another budget gets this one, for all its models.
    learner : {"boosting", "linear"} or None, default=None
        What is trained; None takes boosting, or linear for a release.
    release : bool, default=False
        Whether the model itself is made private, so that its answers are free.
    public : Path or None, default=None
        Public rows without labels: a student of private answers about them is
        released.
    shards, jobs : int or None, default=None
        Number of shards, and how many are trained at a time.
    scratch : Path or None, default=None
        Where rows lie while shards are trained, for files larger than memory; None
        reads the whole file.
    replace : bool, default=False
        Whether a model of this name may be replaced.
    verbose : bool, default=False
        Whether to show progress.
    """

    name: str = "model"
    dataset: str = "data"
    epsilon: float = 1.0
    budget: float | None = None
    delta: float | None = None
    change_budget: bool = False
    learner: str | None = None
    release: bool = False
    public: Path | None = None
    shards: int | None = None
    jobs: int | None = None
    scratch: Path | None = None
    replace: bool = False
    verbose: bool = False

    def __post_init__(self) -> None:
        checked_name("name", self.name)
        checked_name("dataset", self.dataset)
        if self.learner not in (None, *LEARNERS):
            raise InvalidParameterError(
                f"learner={self.learner!r} must be one of {', '.join(LEARNERS)}."
            )

    @property
    def releases(self) -> bool:
        """Whether the model itself is made private."""
        return self.release or self.public is not None

    @property
    def linear(self) -> bool:
        """Whether linear models are trained."""
        return self.learner == "linear" or (self.learner is None and self.releases)


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
        Called with a sentence when training begins.

    Returns
    -------
    estimator
        The fitted model.

    Raises
    ------
    BudgetExhaustedError
        If the dataset's budget can never pay for the model. Where that can be told
        beforehand, nothing is trained.
    """
    if schema.label is None:
        raise InvalidParameterError(
            "the schema declares no label; name the column to be predicted."
        )
    if (home.models / options.name).exists() and not options.replace:
        raise InvalidParameterError(
            f"there is a model {options.name!r} already; choose another name, or "
            "replace it."
        )
    account = DatasetBudget(home, options.dataset)
    change = options.change_budget
    budget = account.settle(options.budget, options.delta, change=change)
    balance = account.balance()
    cap = Cap.within(budget) if balance is None else balance.cap
    release = options.releases
    number = isinstance(schema.label, NumericTarget)
    expected = planned(options.epsilon, cap, release=release, number=number)
    account.check(expected, budget)
    delta = release_delta(options.epsilon, cap) if release else budget.delta
    encoder, model = _chosen(options)(schema, options, delta)
    if note is not None:
        note(f"training on {os.fspath(data)} ...")
    if options.scratch is None:
        rows = read_table(data, schema)
        known = {}
        if options.public is not None:
            known["public"] = encoder.transform(
                read_table(options.public, schema, labelled=False)
            )
        model.fit(encoder.transform(rows), rows.label, units=rows.units, **known)
    else:
        model.fit_batches(_batches(data, encoder), options.scratch)
    _store(account, model, encoder, options, budget)
    return model


def _chosen(
    options: FitOptions,
) -> Callable[[Schema, FitOptions, float], tuple[Encoder, Any]]:
    if options.public is not None:
        return _taught
    return _released if options.release else _asked


def _batches(
    data: str | os.PathLike[str], encoder: Encoder
) -> Iterator[tuple[Any, ...]]:
    for rows in read_batches(data, encoder.schema):
        yield encoder.transform(rows), rows.label, rows.units


def _store(
    account: DatasetBudget,
    model: Any,
    encoder: Encoder,
    options: FitOptions,
    budget: Budget,
) -> None:
    """Write the model; a release is paid for before it gets its name."""
    home = account.home
    final = home.models / options.name
    if not options.releases:
        account.check(model.certificate_, budget)
    opened = account.open(budget, Charge.of(model.certificate_).relation)
    path = home.models / f".{options.name}.unpaid" if options.releases else final
    save_model(
        path,
        model,
        encoder.schema,
        signing_key=home.signing_key(),
        encoder=encoder,
        dataset=options.dataset,
        # Accounts with a delta add up zCDP, which Gaussian noise is best described by.
        concentrated=options.releases and bool(opened.cap.rho),
        replace=True,
    )
    if options.releases:
        try:
            with account.ledger() as ledger:
                stored = load_model(path, signing_key=home.signing_key())
                charge_release(ledger, stored)
        except ReticentError:
            shutil.rmtree(path)
            raise
        if final.exists():
            shutil.rmtree(final)
        path.rename(final)
    home.register(options.name)


def _asked(schema: Schema, options: FitOptions, delta: float) -> tuple[Encoder, Any]:
    """Return a predictor over shards, whose answers are private one by one."""
    settings: dict[str, Any] = {
        "n_shards": "auto" if options.shards is None else options.shards,
        "n_jobs": options.jobs,
        "verbose": options.verbose,
    }
    linear = options.linear
    encoder = Encoder(schema, style="dense" if linear else "ordinal")
    target = schema.label
    if isinstance(target, NumericTarget):
        bounds = (target.low, target.high)
        base = _regressor(linear)
        return encoder, PrivateAveragingRegressor(
            base, options.epsilon, bounds=bounds, **settings
        )
    # Accounts with a delta count zCDP, by which a soft vote costs a quarter.
    rule = "soft" if delta > 0 else "auto"
    codes = list(range(len(schema.classes)))
    base = _classifier(linear)
    return encoder, PrivateVotingClassifier(
        base, options.epsilon, codes, rule=rule, **settings
    )


def _released(schema: Schema, options: FitOptions, delta: float) -> tuple[Encoder, Any]:
    """Return a learner whose model is private itself: linear in public splines."""
    if not options.linear or options.shards is not None:
        raise InvalidParameterError(
            "a release trains one linear model on splines of the columns: "
            "learner='linear', and no shards."
        )
    if options.scratch is not None:
        raise InvalidParameterError(
            "a scratch folder (--scratch) is for models on shards, which are trained "
            "one after the other; a release needs all rows in memory."
        )
    encoder = Encoder(schema, basis="splines", knots=_KNOTS)
    known: dict[str, Any] = {"norm_bound": encoder.row_norm_bound}
    if delta > 0:
        known["delta"] = delta
    target = schema.label
    gradient: Any
    objective: Any
    if isinstance(target, NumericTarget):
        known["bounds"] = (target.low, target.high)
        objective, gradient = ObjectivePerturbationRegressor, NoisyGradientRegressor
    else:
        known["classes"] = list(range(len(schema.classes)))
        objective, gradient = ObjectivePerturbationClassifier, NoisyGradientClassifier
    learner = gradient if delta > 0 else objective
    return encoder, learner(options.epsilon, **known)


def _taught(schema: Schema, options: FitOptions, delta: float) -> tuple[Encoder, Any]:
    """Return a student of private answers about public rows."""
    if isinstance(schema.label, NumericTarget):
        raise InvalidParameterError(
            "public rows are for labels from a list; this schema predicts a number. "
            "Release without them."
        )
    if not options.linear:
        raise InvalidParameterError("with public rows the learner must be 'linear'.")
    shards = "auto" if options.shards is None else options.shards
    teacher = PrivateVotingClassifier(
        _classifier(linear=True),
        classes=list(range(len(schema.classes))),
        n_shards=shards,
        n_jobs=options.jobs,
        verbose=options.verbose,
    )
    student = LogisticRegression(max_iter=1000)
    return Encoder(schema), StudentClassifier(
        teacher, student, options.epsilon, delta=delta
    )


def _classifier(linear: bool) -> Any:
    if linear:
        return LogisticRegression()
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(**SHARD_TREES)


def _regressor(linear: bool) -> Any:
    if linear:
        from sklearn.linear_model import Ridge

        return Ridge()
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(**SHARD_TREES)
