"""Everything that one shard shows, measured from outside, whatever the others hold."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import config_context

from reticent.errors import ShardFailureWarning
from reticent.prediction import (
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
)
from tests.prediction.hostile_tables import (
    ATTACKS,
    KEPT,
    KEPT_ROWS,
    N_SHARDS,
    RETYPED,
    SEED,
    attacked,
    contained,
    labels_of,
    rows,
)

CELLS = rows(90)
LABELS = labels_of(CELLS)
KINDS = ("array", "pandas", "polars", "batches")
PREDICTORS = {
    "voting": (PrivateVotingClassifier, "labels"),
    "averaging": (PrivateAveragingClassifier, "labels"),
    "numbers": (PrivateAveragingRegressor, "numbers"),
}


@dataclass(frozen=True)
class Seen:
    """What the kept shard shows of itself.

    `effect` is what it adds to the sums of all shards, beyond what it adds once its
    rows are all alike; it belongs to the kept rows only if nothing crosses.
    """

    effect: Any
    answers: Any
    path: Any
    warned: Any
    assumed: Any


class RefusedAtFitError(Exception):
    """The curator was told at fit time that this table cannot be used."""


def kinds_for(animal):
    if animal.pandas:
        return ("pandas",)
    kinds = ("pandas", "polars") if animal.mixed else KINDS
    return kinds if animal.polars else tuple(k for k in kinds if k != "polars")


def queries(kind, mixed, n):
    """Return batches by name: clean rows, hostile ones, and another container.

    The last is asked with scikit-learn's checks for finite values switched off.
    """
    form = "array" if kind == "batches" else kind
    cells = rows(n, seed=7)
    nasty = [column[:3] for column in cells]
    nasty[0][1], nasty[1][2] = "old", "" if form == "array" else None
    if mixed:
        nasty[3][2] = "astronaut"
    clean = contained(cells, form, mixed=mixed)
    return {
        "clean": clean,
        "nasty": contained(nasty, form, mixed=mixed),
        "unchecked": sparse.csr_matrix(clean[:3]) if form == "array" else clean[:3],
    }


def fit(animal, predictor, kind, cells, labels, retyped):
    """Fit a predictor; a refusal is raised as `RefusedAtFitError`."""
    maker, task = PREDICTORS[predictor]
    pipeline = animal.pipeline(task)
    settings = {"n_shards": N_SHARDS, "random_state": SEED, "epsilon": 1.0}
    if task == "labels":
        model = maker(pipeline, classes=[0, 1], **settings)
        y = np.array(labels)
    else:
        model = maker(pipeline, bounds=(0.0, 1.0), **settings)
        y = np.array(labels, dtype=float)
    form = "array" if kind == "batches" else kind
    X = contained(cells, form, mixed=animal.mixed, retyped=retyped)
    # As many a script begins.
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
    try:
        if kind != "batches":
            return model.fit(X, y)
        late = X[40:].astype(np.float32) if retyped == "single" else X[40:]
        return model.fit_batches([(X[:40].astype(float), y[:40]), (late, y[40:])])
    except ValueError as error:
        raise RefusedAtFitError(str(error)) from None


def ask(model, task, batch):
    """Return the sums over all shards, or the error that the query meets."""
    before = batch.copy() if isinstance(batch, np.ndarray) else None
    try:
        X = model.law_.form.rows(batch)
        ensemble = model.ensemble_
        if task == "numbers":
            sums = [ensemble.output_sums(X)]
        else:
            sums = [ensemble.votes(X)]
            if hasattr(model.estimator, "predict_proba"):
                sums.append(ensemble.probability_sums(X))
        drawn = model.predict(batch[:1])
    except ValueError as error:
        return f"{type(error).__name__}: {error}", ()
    if before is not None:
        same = (before == batch) | ((before != before) & (batch != batch))
        assert same.all(), "the caller's own rows were written to"
    return (str(drawn.dtype), drawn.shape, [(s.dtype, s.shape) for s in sums]), sums


def path(model, batch):
    """Return how the kept shard answers this batch."""
    read = model.ensemble_.columns.read(batch)
    answering = model.ensemble_._encoded(read, True)
    fused = [shard for fusion, _ in answering for shard in fusion.shards.tolist()]
    return "fused" if KEPT in fused else "looped"


def silence(cells, labels, cell):
    """Make the kept rows all alike, so that hardly anything can be learned."""
    for row in KEPT_ROWS:
        labels[row] = 0
        for column in cells:
            column[row] = cell


def seen(animal, predictor, kind, attack="none", retyped=None, n_queries=200):
    """Fit twice, with the kept rows and with them silenced; compare."""
    _, task = PREDICTORS[predictor]
    tables = [attacked(CELLS, LABELS, attack) for _ in range(2)]
    silence(*tables[1], 0 if kind == "batches" else "silenced")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        models = [
            fit(animal, predictor, kind, cells, y, retyped) for cells, y in tables
        ]
        answers, effect, paths = {}, {}, {}
        batches = queries(kind, animal.mixed, n_queries)
        for name, batch in batches.items():
            with config_context(assume_finite=name == "unchecked"):
                said = [ask(model, task, batch) for model in models]
                paths[name] = path(models[0], batch)
            answers[name] = [shown for shown, _ in said]
            pairs = zip(said[0][1], said[1][1], strict=False)
            effect[name] = [(a - b).tolist() for a, b in pairs]
    return Seen(
        effect,
        answers,
        paths,
        # How many shards failed is told to the curator when the model is fitted. Nobody
        # else hears it: queries do not warn.
        [
            (w.category.__name__, str(w.message))
            for w in told
            if not issubclass(w.category, ShardFailureWarning)
        ],
        sorted(a.code for a in models[0].certificate_.assumptions),
    )


def differences(one, other):
    """Return the names of what differs between two sights of the kept shard."""
    names = [field.name for field in fields(Seen)]
    return [name for name in names if getattr(one, name) != getattr(other, name)]


def attacks_for(animal, kind):
    """Return pairs of an attack and another type for the table."""
    plain = [(attack, None) for attack in ATTACKS if attack != "none"]
    if kind == "polars":
        return plain
    if kind == "batches":
        numeric = ("constant", "huge", "numbers", "whole", "missing", "marked")
        return [(attack, None) for attack in numeric] + [("none", "single")]
    return plain + [
        ("none", retyped)
        for retyped in RETYPED
        if not (animal.mixed and retyped in ("single", "fortran"))
    ]
