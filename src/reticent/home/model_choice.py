"""What is trained for a model of a home: encoders and estimators by option."""

from __future__ import annotations

from typing import Any

from sklearn.linear_model import LogisticRegression

from reticent.ensembles import SHARD_TREES
from reticent.errors import InvalidParameterError
from reticent.home.fit_options import FitOptions
from reticent.learners import (
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    ObjectivePerturbationClassifier,
    ObjectivePerturbationRegressor,
    PrivateTabularClassifier,
    PrivateTabularRegressor,
    StudentClassifier,
)
from reticent.prediction import (
    PrivateAveragingRegressor,
    PrivateNeighborsClassifier,
    PrivateNeighborsRegressor,
    PrivateVotingClassifier,
)
from reticent.schemas import Encoder, NumericTarget, Schema

# Public knots of a numeric column in a released additive model.
_KNOTS = 8


def asked_predictor(
    schema: Schema, options: FitOptions, delta: float
) -> tuple[Encoder, Any]:
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
    # Accounts with a delta count zCDP, of which a soft vote costs a quarter as much.
    rule = "soft" if delta > 0 else "auto"
    codes = list(range(len(schema.classes)))
    base = _classifier(linear)
    return encoder, PrivateVotingClassifier(
        base, options.epsilon, codes, rule=rule, **settings
    )


def lasting_predictor(
    schema: Schema, options: FitOptions, delta: float
) -> tuple[Encoder, Any]:
    """Return a predictor that asks the records near a question, however often."""
    facts: dict[str, Any] = {
        "columns": list(schema.columns.values()),
        "relation": options.relation,
        "local": options.local,
        "questions": options.questions,
        "client_share": options.client_share,
        "constant_time": options.constant_time,
    }
    target = schema.label
    encoder = Encoder(schema, style="ordinal")
    if isinstance(target, NumericTarget):
        bounds = (target.low, target.high)
        return encoder, PrivateNeighborsRegressor(
            options.epsilon, delta=delta, bounds=bounds, **facts
        )
    codes = list(range(len(schema.classes)))
    return encoder, PrivateNeighborsClassifier(
        options.epsilon, delta=delta, classes=codes, **facts
    )


def released_learner(
    schema: Schema, options: FitOptions, delta: float
) -> tuple[Encoder, Any]:
    """Return a learner whose model is itself private: by default one for tables."""
    target = schema.label
    # Without a delta there is a model for tables of two labels only.
    for_tables = delta > 0 or (
        not isinstance(target, NumericTarget) and len(schema.classes) == 2
    )
    if options.learner is not None or not for_tables:
        return linear_release(schema, options, delta)
    _check_release(options)
    facts: dict[str, Any] = {"columns": list(schema.columns.values()), "delta": delta}
    encoder = Encoder(schema, style="ordinal")
    if isinstance(target, NumericTarget):
        bounds = (target.low, target.high)
        learner: Any = PrivateTabularRegressor(options.epsilon, bounds=bounds, **facts)
    else:
        codes = list(range(len(schema.classes)))
        learner = PrivateTabularClassifier(options.epsilon, classes=codes, **facts)
    return encoder, learner


def _check_release(options: FitOptions) -> None:
    if options.learner == "boosting" or options.shards is not None:
        raise InvalidParameterError(
            "a release trains one model on all rows: learner='linear' or none, and no "
            "shards."
        )
    if options.scratch is not None:
        raise InvalidParameterError(
            "a scratch folder (--scratch) is for models on shards, which are trained "
            "one after the other; a release needs all rows in memory."
        )


def linear_release(
    schema: Schema, options: FitOptions, delta: float
) -> tuple[Encoder, Any]:
    """Return a learner of a private model that is linear in public splines."""
    _check_release(options)
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


def taught_student(
    schema: Schema, options: FitOptions, delta: float
) -> tuple[Encoder, Any]:
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
