"""The attack of a report: copies of a stored model, and its learner unprotected."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge

from reticent.audit.membership import membership_inference
from reticent.audit.membership_result import MembershipInference
from reticent.audit.report import Check, Status
from reticent.prediction import (
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
)
from reticent.schemas import NumericTarget, Table
from reticent.storage.manifests import Manifest

QUESTION = "Can an attacker find out from answers whether somebody's record was used?"
# With the sampling test's, the level adds up to less than one in a thousand.
_CONFIDENCE = 0.9995
# Copies of the model in the attack: so many shards of so many people.
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
    units = 0 if records is None else len(_one_row_a_unit(records))
    wanted = _SHARDS * _SHARD_UNITS
    if copy is None or records is None or units < 2 * wanted:
        why = (
            "no records were given to the audit."
            if records is None
            else "the records have no label."
            if records.label is None
            else "this kind of model cannot be fitted anew from what is stored."
            if copy is None
            else f"the attack needs {2 * wanted} people in the records."
        )
        return (None, None), Check(
            "attack", QUESTION, Status.NOT_RUN, f"Not run: {why}"
        )
    people = records.take(_one_row_a_unit(records))
    X, y = manifest.encoder.transform(people), people.label
    settings: dict[str, Any] = {
        "n": wanted,
        "shadows": 4 if quick else 12,
        "games": 60 if quick else 300,
        "targets": 3 if quick else 6,
        "answers": 12,
        "poison": 2,
        "confidence": _CONFIDENCE,
        "verbose": verbose,
    }
    labels = np.asarray(y)
    ours = membership_inference(copy, X, labels, **settings)
    plain = None
    # Without protection some learners refuse a sample that lacks a label, or warn.
    with contextlib.suppress(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = membership_inference(estimator, X, labels, **settings)
    return (ours, plain), _judged(ours, plain)


def _judged(ours: MembershipInference, plain: MembershipInference | None) -> Check:
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
    return None


def _one_row_a_unit(records: Table) -> Any:
    """Return the place of the first row of every unit."""
    if records.units is None:
        return np.arange(len(records))
    return np.sort(np.unique(records.units.astype(str), return_index=True)[1])


def _learner(manifest: Manifest) -> Any:
    """Return a learner of the family that was stored."""
    numbers = isinstance(manifest.schema.label, NumericTarget)
    if manifest.parameters.get("family") == "linear":
        return Ridge() if numbers else LogisticRegression()
    boosting = (
        HistGradientBoostingRegressor if numbers else (HistGradientBoostingClassifier)
    )
    return boosting(max_iter=30, max_leaf_nodes=8, min_samples_leaf=3)
