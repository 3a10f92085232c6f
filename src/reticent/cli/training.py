"""What ``reticent fit`` makes: a private predictor, or a released model, on disk."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sklearn.linear_model import LogisticRegression

from reticent.cli.budgets import DatasetBudget, planned, release_delta
from reticent.cli.home import Home
from reticent.errors import InvalidParameterError, ReticentError
from reticent.guarantees import Budget
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
from reticent.service import build
from reticent.storage import save_model

LEARNERS = ("boosting", "linear")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Public knots of a numeric column in a released additive model.
_KNOTS = 8


@dataclass(frozen=True)
class Order:
    """What to make.

    Parameters
    ----------
    name, dataset : str
        What to call the model, and whose budget it spends.
    epsilon : float
        Privacy cost of one answer, or of the whole model if it is released.
    budget : Budget
        What everything made from the dataset may cost together. It is the dataset's
        own if that has one; see `DatasetBudget.settle`.
    learner : str
        What is trained: "boosting" or "linear".
    release : bool
        Whether the model itself is made private, so that its answers are free.
    public : Path or None
        Public rows without labels; a student of private answers about them is released.
    shards, jobs : int or None
        Number of shards, and how many are trained at a time.
    replace : bool
        Whether a model of this name may be replaced.
    scratch : Path or None
        Where rows lie while shards are trained, for files larger than memory; None
        reads the whole file.
    delta : float
        Of a released model, or of the budget; worked out by `train_and_store`.
    """

    name: str
    dataset: str
    epsilon: float
    budget: Budget
    learner: str = "boosting"
    release: bool = False
    public: Path | None = None
    shards: int | None = None
    jobs: int | None = None
    replace: bool = False
    scratch: Path | None = None
    delta: float = 0.0


def train_and_store(place: Home, data: Path, schema: Schema, order: Order) -> Any:
    """Train on a file, store the model in a home, and return the fitted model.

    A model that the dataset's budget can never pay for is refused before it is trained.
    """
    if schema.label is None:
        raise InvalidParameterError(
            "the schema declares no label; name the column to be predicted."
        )
    if not _NAME.fullmatch(order.name):
        raise InvalidParameterError(
            f"--name {order.name!r} must be at most 64 letters, digits, '-', '_' or "
            "'.', beginning with a letter or digit."
        )
    if (place.models / order.name).exists() and not order.replace:
        raise InvalidParameterError(
            f"there is a model {order.name!r} already; give another --name, or "
            "--replace it."
        )
    account = DatasetBudget(place, order.dataset)
    balance = account.balance()
    cap = Cap.within(order.budget) if balance is None else balance.cap
    number = isinstance(schema.label, NumericTarget)
    expected = planned(order.epsilon, cap, release=order.release, number=number)
    account.check(expected, order.budget)
    delta = release_delta(order.epsilon, cap) if order.release else order.budget.delta
    encoder, model = _chosen(order)(schema, replace(order, delta=delta))
    if order.scratch is None:
        rows = read_table(data, schema)
        known = {}
        if order.public is not None:
            known["public"] = encoder.transform(
                read_table(order.public, schema, labelled=False)
            )
        model.fit(encoder.transform(rows), rows.label, units=rows.units, **known)
    else:
        model.fit_batches(_batches(data, encoder), order.scratch)
    _store(place, model, encoder, order)
    return model


def _chosen(order: Order) -> Callable[[Schema, Order], tuple[Encoder, Any]]:
    if order.public is not None:
        return _taught
    return _released if order.release else _asked


def _batches(data: Path, encoder: Encoder) -> Iterator[tuple[Any, ...]]:
    for rows in read_batches(data, encoder.schema):
        yield encoder.transform(rows), rows.label, rows.units


def _store(place: Home, model: Any, encoder: Encoder, order: Order) -> None:
    """Write the model; a release is paid for before it gets its name."""
    final = place.models / order.name
    account = DatasetBudget(place, order.dataset)
    if not order.release:
        account.check(model.certificate_, order.budget)
    relation = Charge.of(model.certificate_).relation
    opened = account.open(order.budget, relation)
    path = place.models / f".{order.name}.unpaid" if order.release else final
    save_model(
        path,
        model,
        encoder.schema,
        signing_key=place.signing_key(),
        encoder=encoder,
        dataset=order.dataset,
        # Accounts with a delta add up zCDP, which Gaussian noise is best described by.
        concentrated=order.release and bool(opened.cap.rho),
        replace=True,
    )
    if order.release:
        try:
            # Opening the parts of a service charges what was released and not paid.
            build(place.settings(models={order.name: str(path.resolve())})).close()
        except ReticentError:
            shutil.rmtree(path)
            raise
        if final.exists():
            shutil.rmtree(final)
        path.rename(final)
    place.register(order.name)


def _asked(schema: Schema, order: Order) -> tuple[Encoder, Any]:
    """Return a predictor over shards, whose answers are private one by one."""
    settings: dict[str, Any] = {
        "n_shards": "auto" if order.shards is None else order.shards,
        "n_jobs": order.jobs,
        "verbose": sys.stderr.isatty(),
    }
    linear = order.learner == "linear"
    encoder = Encoder(schema, style="dense" if linear else "ordinal")
    target = schema.label
    if isinstance(target, NumericTarget):
        bounds = (target.low, target.high)
        base = _regressor(linear)
        return encoder, PrivateAveragingRegressor(
            base, order.epsilon, bounds, **settings
        )
    # Accounts with a delta count zCDP, by which a soft vote costs a quarter.
    rule = "soft" if order.delta > 0 else "auto"
    codes = list(range(len(schema.classes)))
    base = _classifier(linear)
    return encoder, PrivateVotingClassifier(
        base, order.epsilon, codes, rule=rule, **settings
    )


def _released(schema: Schema, order: Order) -> tuple[Encoder, Any]:
    """Return a learner whose model is private itself: linear in public splines."""
    if order.learner != "linear" or order.shards is not None:
        raise InvalidParameterError(
            "--release trains one linear model on splines of the columns; it takes "
            "--learner linear and no --shards."
        )
    if order.scratch is not None:
        raise InvalidParameterError(
            "--scratch is for models on shards, which are trained one after the other; "
            "--release needs all rows in memory."
        )
    encoder = Encoder(schema, basis="splines", knots=_KNOTS)
    privacy = (order.epsilon, order.delta)
    known: dict[str, Any] = {"norm_bound": encoder.row_norm_bound}
    target = schema.label
    if isinstance(target, NumericTarget):
        bounds = (target.low, target.high)
        if order.delta > 0:
            return encoder, NoisyGradientRegressor(*privacy, bounds, **known)
        return encoder, ObjectivePerturbationRegressor(order.epsilon, bounds, **known)
    known["classes"] = list(range(len(schema.classes)))
    if order.delta > 0:
        return encoder, NoisyGradientClassifier(*privacy, **known)
    return encoder, ObjectivePerturbationClassifier(order.epsilon, **known)


def _taught(schema: Schema, order: Order) -> tuple[Encoder, Any]:
    """Return a student of private answers about public rows."""
    if isinstance(schema.label, NumericTarget):
        raise InvalidParameterError(
            "--public is for labels from a list; this schema predicts a number. "
            "Release without it."
        )
    if order.learner != "linear":
        raise InvalidParameterError("--public takes --learner linear.")
    shards = "auto" if order.shards is None else order.shards
    teacher = PrivateVotingClassifier(
        _classifier(linear=True),
        classes=list(range(len(schema.classes))),
        n_shards=shards,
        n_jobs=order.jobs,
        verbose=sys.stderr.isatty(),
    )
    student = LogisticRegression(max_iter=1000)
    return Encoder(schema), StudentClassifier(
        teacher, student, order.epsilon, delta=order.delta
    )


def _classifier(linear: bool) -> Any:
    if linear:
        return LogisticRegression()
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(**_trees())


def _regressor(linear: bool) -> Any:
    if linear:
        from sklearn.linear_model import Ridge

        return Ridge()
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(**_trees())


def _trees() -> dict[str, Any]:
    """Return settings for a shard's few rows; category codes are split as numbers."""
    return {
        "max_iter": 60,
        "max_leaf_nodes": 8,
        "min_samples_leaf": 10,
        "l2_regularization": 1.0,
        "early_stopping": False,
    }
