"""The report's attack on copies of a stored model and on its unprotected learner."""

from __future__ import annotations

import contextlib
import math
import warnings
from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge

from reticent.audit.membership.inference import membership_inference
from reticent.audit.membership.result import MembershipInference
from reticent.audit.report.report import Check, Status
from reticent.estimators import unit_positions
from reticent.guarantees import ZCDP, ApproxDP, PureDP, gaussian_delta
from reticent.learners import (
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    ObjectivePerturbationClassifier,
    ObjectivePerturbationRegressor,
    OutputPerturbationClassifier,
    OutputPerturbationRegressor,
)
from reticent.prediction import (
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
)
from reticent.schemas import NumericTarget, Table
from reticent.storage import Manifest

QUESTION = "Can an attacker find out from answers whether somebody's record was used?"
# With the level of the sampling test, less than one in a thousand in total.
_CONFIDENCE = 0.9995
_RELEASED = "released-linear"
_NOISY_GRADIENT = ("L-noisy-gradient-gdp", "L-noisy-gradient-zcdp")
# The delta at which the noise of a zCDP release is converted.
_DELTA = 1e-6
# Shards of the attacked copies, and people per shard.
_SHARDS, _SHARD_UNITS = 6, 20


def attack_check(
    manifest: Manifest,
    records: Table | None,
    estimator: Any,
    *,
    quick: bool,
    verbose: bool,
) -> tuple[tuple[MembershipInference | None, ...], Check]:
    """Attack small copies of the model, and the same learner without protection.

    Returns both results, if there are any, and the check.
    """
    copy = None
    estimator = _learner(manifest) if estimator is None else estimator
    if records is not None and records.label is not None:
        copy = _copy_of(manifest, estimator)
    units = 0 if records is None else len(_one_row_per_unit(records))
    wanted = _SHARDS * _SHARD_UNITS
    if copy is None or records is None or units < 2 * wanted:
        why = (
            "no records were given to the audit."
            if records is None
            else "the records have no label."
            if records.label is None
            else "this kind of model cannot be refitted from what is stored."
            if copy is None
            else f"the attack needs {2 * wanted} people in the records."
        )
        return (None, None), Check(
            "attack", QUESTION, Status.NOT_RUN, f"Not run: {why}"
        )
    people = records.take(_one_row_per_unit(records))
    X, y = manifest.encoder.transform(people), people.label
    released = manifest.kind.startswith(_RELEASED)
    # A release takes as long as hundreds of answers.
    sizes = (3, 20, 2) if quick else (4, 60, 3)
    if not released:
        sizes = (4, 60, 3) if quick else (12, 300, 6)
    settings: dict[str, Any] = {
        **dict(zip(("shadows", "games", "targets"), sizes, strict=True)),
        "n": wanted,
        "answers": 12,
        "poison": 2,
        "confidence": _CONFIDENCE,
        "verbose": verbose,
    }
    if released and hasattr(copy, "predict_proba"):
        settings["interface"] = "predict_proba"  # the released model shows them
    labels = np.asarray(y)
    ours = membership_inference(copy, X, labels, **settings)
    plain = None
    # Without protection some learners refuse a sample that lacks a label, or warn.
    with contextlib.suppress(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = membership_inference(estimator, X, labels, **settings)
    return (ours, plain), _attack_result(ours, plain)


def _attack_result(
    ours: MembershipInference, plain: MembershipInference | None
) -> Check:
    found = (
        f"Copies of the model were attacked in {2 * ours.games:,} games with "
        f"{ours.answers} answers each. {_reached(ours)}; the promise allows "
        f"{100 * (ours.points[-1].allowed or 1):.0f}."
    )
    if plain is not None:
        found += f" On the same learner without protection, {_reached(plain, 'it')}."
    status = Status.REFUTED if ours.refuted else Status.KEPT
    numbers: dict[str, Any] = {"epsilon_at_least": ours.epsilon}
    return Check("attack", QUESTION, status, found, numbers)


def _reached(result: MembershipInference, who: str = "The attack") -> str:
    point = result.points[-1]
    wrong, right = (
        round(100 * rate[0])
        for rate in (point.false_positive_rate, point.true_positive_rate)
    )
    return (
        f"{who} found {right} in 100 of those in the data while it accused {wrong} in "
        "100 others wrongly"
    )


def _copy_of(manifest: Manifest, estimator: Any) -> Any:
    """Return an unfitted predictor with the stored parameters and fewer shards."""
    given = manifest.parameters
    settings: dict[str, Any] = {"estimator": estimator, "n_shards": _SHARDS}
    if manifest.kind == "voting" and given["rule"] != "gaussian":
        codes = list(range(len(given["classes"])))
        return PrivateVotingClassifier(
            epsilon=given["parameter"], classes=codes, rule=given["rule"], **settings
        )
    noise: dict[str, Any] = {
        "epsilon": given.get("epsilon"),
        "delta": given.get("delta"),
    }
    if manifest.kind == "averaging-classifier":
        codes = list(range(len(given["classes"])))
        return PrivateAveragingClassifier(classes=codes, **noise, **settings)
    target = manifest.schema.label
    if manifest.kind == "averaging-regressor" and isinstance(target, NumericTarget):
        bounds = (target.low, target.high)
        return PrivateAveragingRegressor(bounds=bounds, **noise, **settings)
    if manifest.kind.startswith(_RELEASED):
        return _released_copy(manifest)
    return None


def _released_copy(manifest: Manifest) -> Any:
    """Return an unfitted learner that releases with as much noise as the stored one."""
    certificate, target = manifest.certificate, manifest.schema.label
    promise, bound = certificate.guarantee, manifest.encoder.row_norm_bound
    learners: tuple[Any, Any]
    noise: dict[str, Any]
    rule = certificate.rule
    if rule == "G24-zcdp":  # says in other words what its premise says
        rule = certificate.premises[0].rule
    if isinstance(promise, ZCDP) and rule in _NOISY_GRADIENT:
        learners = NoisyGradientClassifier, NoisyGradientRegressor
        noise = {"epsilon": _epsilon_of(promise.rho), "delta": _DELTA}
    elif isinstance(promise, ApproxDP) and certificate.rule == "L-noisy-gradient":
        learners = NoisyGradientClassifier, NoisyGradientRegressor
        noise = {"epsilon": promise.epsilon, "delta": promise.delta}
    elif isinstance(promise, PureDP) and certificate.rule == "L-objective-release":
        learners = ObjectivePerturbationClassifier, ObjectivePerturbationRegressor
        noise = {"epsilon": promise.epsilon}
    elif isinstance(promise, (PureDP, ApproxDP)) and "L-output" in {
        step.rule for step in certificate.walk()
    }:
        learners = OutputPerturbationClassifier, OutputPerturbationRegressor
        noise = {"epsilon": promise.epsilon, "delta": getattr(promise, "delta", 0.0)}
    else:
        return None
    if isinstance(target, NumericTarget):
        bounds = (target.low, target.high)
        return learners[1](norm_bound=bound, bounds=bounds, **noise)
    codes = list(range(len(manifest.parameters["classes"])))
    return learners[0](norm_bound=bound, classes=codes, **noise)


def _epsilon_of(rho: float) -> float:
    """Return the epsilon of Gaussian noise that is rho-zCDP, at a small delta."""
    ratio = math.sqrt(2 * rho)
    most = rho + 2 * math.sqrt(rho * math.log(1 / _DELTA))
    return float(brentq(lambda e: gaussian_delta(ratio, e) - _DELTA, 0.0, most))


def _one_row_per_unit(records: Table) -> Any:
    """Return the position of the first row of every unit."""
    if records.units is None:
        return np.arange(len(records))
    positions, _ = unit_positions(records.units, len(records))
    return np.unique(positions, return_index=True)[1]


def _learner(manifest: Manifest) -> Any:
    """Return a learner of the family that was stored."""
    numbers = isinstance(manifest.schema.label, NumericTarget)
    linear = manifest.parameters.get("family") == "linear"
    if linear or manifest.kind.startswith(_RELEASED):
        return Ridge() if numbers else LogisticRegression()
    boosting = (
        HistGradientBoostingRegressor if numbers else (HistGradientBoostingClassifier)
    )
    return boosting(max_iter=30, max_leaf_nodes=8, min_samples_leaf=3)
