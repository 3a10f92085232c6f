"""Training the linear models of all shards at once, on one encoded matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from reticent.ensembles.columns import Columns
from reticent.ensembles.encoding import DOUBLE_ROUNDOFF, Encoding
from reticent.ensembles.ensemble import ClassifierEnsemble, RegressorEnsemble
from reticent.ensembles.fuse_linear import Folded, join_models
from reticent.ensembles.fused_linear import FusedLinear
from reticent.ensembles.fusing import Fusion
from reticent.ensembles.labels import NO_BALLOT, Labels
from reticent.ensembles.newton import LogisticLoss, minimise
from reticent.ensembles.pipelines import Block
from reticent.ensembles.recipe import LinearRecipe, linear_recipe
from reticent.ensembles.units import Partition
from reticent.errors import InvalidDataError, InvalidParameterError

# Shards are stacked in groups whose designs and Hessians have so many floats: they
# stay in the processor's cache. Chosen by measurement.
_GROUP_FLOATS = 1 << 18

# Rows are filled up with zeros to a multiple of this, so that shards of nearly the
# same size are solved together. The size depends on the shard alone.
_ROW_MULTIPLE = 32

# Newton's method solves a system of this size for each shard; beyond it, models are
# better fitted one by one.
_MAX_UNKNOWNS = 2048

# Converged Newton steps are exact to about this much; far below any tolerance that a
# model is usually fitted with.
_TOLERANCE = 1e-9
_MAX_ITER = 200


def train_classifiers(
    estimator: Any,
    Z: NDArray[np.float64],
    y: NDArray[Any],
    partition: Partition,
    classes: Any,
    *,
    n_jobs: int | None = None,
) -> ClassifierEnsemble:
    """Train the linear classifiers of all shards at once, on one encoded matrix.

    Parameters
    ----------
    estimator : LogisticRegression or RidgeClassifier, perhaps behind a StandardScaler
        What to train on each shard, see `linear_recipe`.
    Z : ndarray of shape (n_rows, n_columns)
        The rows, encoded by public rules.
    y : ndarray of shape (n_rows,)
        Their labels.
    partition : Partition
        The shard of each row.
    classes : array-like
        The public labels.
    n_jobs : int, default=None
        Threads that share the work, as in joblib.

    Returns
    -------
    ClassifierEnsemble
        The models, held as arrays; shards that cannot be trained cast their fixed
        votes.
    """
    labels = Labels(classes)
    places = labels.indices(y)
    if (places == NO_BALLOT).any():
        raise InvalidDataError("y has labels that are not in `classes`.")
    recipe = _recipe(estimator, classifies=True)
    fused = train_linear(
        recipe, Z, places, partition, n_classes=len(labels), n_jobs=n_jobs
    )
    return ClassifierEnsemble(
        [None] * partition.n_shards,
        Columns.of(Z),
        classes,
        fusion=_fusion(recipe, fused),
    )


def train_regressors(
    estimator: Any,
    Z: NDArray[np.float64],
    y: NDArray[np.float64],
    partition: Partition,
    bounds: tuple[float, float],
    *,
    n_jobs: int | None = None,
) -> RegressorEnsemble:
    """Train the ridge regressions of all shards at once, on one encoded matrix.

    Parameters
    ----------
    estimator : Ridge, perhaps behind a StandardScaler
        What to train on each shard, see `linear_recipe`.
    Z : ndarray of shape (n_rows, n_columns)
        The rows, encoded by public rules.
    y : ndarray of shape (n_rows,)
        Their targets.
    partition : Partition
        The shard of each row.
    bounds : (float, float)
        Public bounds on the outputs.
    n_jobs : int, default=None
        Threads that share the work, as in joblib.

    Returns
    -------
    RegressorEnsemble
        The models, held as arrays; shards that cannot be trained answer with the
        middle of the bounds.
    """
    recipe = _recipe(estimator, classifies=False)
    fused = train_linear(recipe, Z, y, partition, n_classes=None, n_jobs=n_jobs)
    return RegressorEnsemble(
        [None] * partition.n_shards,
        Columns.of(Z),
        bounds,
        fusion=_fusion(recipe, fused),
    )


def train_linear(
    recipe: LinearRecipe,
    Z: NDArray[np.float64],
    targets: NDArray[Any],
    partition: Partition,
    *,
    n_classes: int | None,
    n_jobs: int | None = None,
) -> FusedLinear | None:
    """Train one linear model per shard, all at once.

    Parameters
    ----------
    recipe : LinearRecipe
        What to minimise.
    Z : ndarray of shape (n_rows, n_columns)
        The rows, encoded by public rules.
    targets : ndarray of shape (n_rows,)
        Places of labels in the public list, or numbers for regression.
    partition : Partition
        The shard of each row.
    n_classes : int or None
        Number of public labels; None for regression.
    n_jobs : int, default=None
        Threads that share the work, as in joblib.

    Returns
    -------
    FusedLinear or None
        The models. Shards that scikit-learn could not be fitted on (a single label,
        values that are not finite) are left out; None if all are.

    Guarantee
    ---------
    The model of a shard is a function of that shard's rows alone, to the last bit.
    Coefficients are those of scikit-learn's solvers run to convergence: no entry of
    the gradient of the average loss exceeds 1e-9.
    """
    Z = np.asarray(Z, dtype=np.float64)
    if Z.ndim != 2 or len(Z) != len(partition.shard_of_row) or len(targets) != len(Z):
        raise InvalidDataError(
            f"Z of shape {Z.shape} and targets of length {len(targets)} must have the "
            f"{len(partition.shard_of_row)} rows of the partition."
        )
    unknowns = (Z.shape[1] + 1) * _n_scores(n_classes)
    if not unknowns <= _MAX_UNKNOWNS:
        raise InvalidParameterError(
            f"fused training of {unknowns} unknowns per shard needs at most "
            f"{_MAX_UNKNOWNS}. Fit the shards one by one instead."
        )
    trained = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(_train_group)(recipe, Z, targets, group)
        for group in _groups(Z, targets, partition, n_classes, unknowns)
    )
    models = {shard: model for group in trained for shard, model in group.items()}
    if not models:
        return None
    return join_models(
        dict(sorted(models.items())),
        n_scores=_n_scores(n_classes),
        steps=4 * recipe.scaled,
        roundoff=DOUBLE_ROUNDOFF,
        link=_link(recipe, n_classes),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Shards to be stacked: same number of rows, same labels present."""

    shards: list[int]
    rows: list[NDArray[np.int64]]
    n_rows: int
    present: NDArray[np.int64] | None


def _groups(
    Z: NDArray[np.float64],
    targets: NDArray[Any],
    partition: Partition,
    n_classes: int | None,
    unknowns: int,
) -> Iterator[_Group]:
    alike: dict[tuple[int, bytes], _Group] = {}
    for shard, rows in enumerate(partition.rows_by_shard()):
        present = None if n_classes is None else np.unique(targets[rows])
        fit = present is None or len(present) > 1
        if not fit or not np.isfinite(Z[rows]).all():
            continue
        n_rows = -(-len(rows) // _ROW_MULTIPLE) * _ROW_MULTIPLE
        key = (n_rows, b"" if present is None else present.tobytes())
        group = alike.setdefault(key, _Group([], [], n_rows, present))
        group.shards.append(shard)
        group.rows.append(rows)
    for group in alike.values():
        floats = max(group.n_rows * (Z.shape[1] + 1), unknowns**2)
        size = max(1, _GROUP_FLOATS // floats)
        for start in range(0, len(group.shards), size):
            some = slice(start, start + size)
            yield _Group(
                group.shards[some], group.rows[some], group.n_rows, group.present
            )


def _train_group(
    recipe: LinearRecipe,
    Z: NDArray[np.float64],
    targets: NDArray[Any],
    group: _Group,
) -> dict[int, Folded]:
    design, target = _stack(Z, targets, group, signed=recipe.loss == "squared")
    filled = np.array([len(rows) for rows in group.rows], dtype=np.float64)
    centre, scale = _standardise(design, filled, recipe)
    if recipe.loss == "logistic":
        if not recipe.fit_intercept:
            design = np.ascontiguousarray(design[:, :, :-1])
        loss = LogisticLoss(recipe.penalty, recipe.fit_intercept)
        weights = minimise(loss, design, target, tol=_TOLERANCE, max_iter=_MAX_ITER)
    else:
        weights = _solve_ridge(recipe, design, target, filled)
    if not recipe.fit_intercept:
        weights = np.concatenate([weights, np.zeros_like(weights[:, :, :1])], axis=2)
    labels = np.full(2, NO_BALLOT) if group.present is None else group.present
    models = {}
    for place, shard in enumerate(group.shards):
        own = weights[place]
        slopes = own[:, :-1] / scale[place]
        shift = slopes @ centre[place]
        bulk = np.abs(own[:, -1]) + np.abs(slopes) @ np.abs(centre[place])
        models[shard] = Folded(
            labels=labels,
            weights=slopes,
            intercepts=own[:, -1] - shift,
            missing=np.full_like(slopes, np.nan),
            bulk=float(bulk.max()),
        )
    return models


def _stack(
    Z: NDArray[np.float64], targets: NDArray[Any], group: _Group, *, signed: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return designs with a column of ones, and targets, rows filled up with zeros."""
    n_columns = Z.shape[1]
    n_scores = 1 if group.present is None else _n_scores(len(group.present))
    design = np.zeros((len(group.rows), group.n_rows, n_columns + 1))
    target = np.zeros((len(group.rows), group.n_rows, n_scores))
    for place, rows in enumerate(group.rows):
        design[place, : len(rows), :n_columns] = Z[rows]
        design[place, : len(rows), n_columns] = 1
        own = target[place, : len(rows)]
        if group.present is None:
            own[:, 0] = targets[rows]
            continue
        labels = group.present[-n_scores:]
        own[:] = targets[rows][:, None] == labels
        if signed:
            own[:] = 2 * own - 1
    return design, target


def _standardise(
    design: NDArray[np.float64], filled: NDArray[np.float64], recipe: LinearRecipe
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Standardise each shard's columns in place; return centres and scales."""
    n_problems, _, n_columns = design.shape
    centre = np.zeros((n_problems, n_columns - 1))
    scale = np.ones((n_problems, n_columns - 1))
    if not recipe.scaled:
        return centre, scale
    ones = design[:, :, -1:]
    values = design[:, :, :-1]
    for place in range(n_problems):
        rows = values[place, ones[place, :, 0] > 0]
        centre[place] = rows.mean(axis=0)
        variance = ((rows - centre[place]) ** 2).mean(axis=0)
        # As scikit-learn does, columns that are constant up to rounding stay as
        # they are.
        noise = filled[place] * np.finfo(np.float64).eps
        constant = variance <= noise * variance + (noise * centre[place]) ** 2
        scale[place] = np.sqrt(np.where(constant, 1, variance))
    values -= centre[:, None, :]
    values /= scale[:, None, :]
    values *= ones
    return centre, scale


def _solve_ridge(
    recipe: LinearRecipe,
    design: NDArray[np.float64],
    target: NDArray[np.float64],
    filled: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Solve the normal equations of all shards; return (shards, scores, columns)."""
    ones = design[:, :, -1:]
    values = design[:, :, :-1]
    if recipe.fit_intercept:
        count = filled[:, None, None]
        middle = ones.swapaxes(1, 2) @ values / count
        level = ones.swapaxes(1, 2) @ target / count
        values = (values - middle) * ones
        target = (target - level) * ones
    gram = values.swapaxes(1, 2) @ values
    gram += recipe.penalty * np.eye(gram.shape[1])
    moments = values.swapaxes(1, 2) @ target
    solution = np.asarray(np.linalg.solve(gram, moments), dtype=np.float64)
    slopes = solution.swapaxes(1, 2)
    if not recipe.fit_intercept:
        return slopes
    intercepts = level.swapaxes(1, 2) - slopes @ middle.swapaxes(1, 2)
    return np.concatenate([slopes, intercepts], axis=2)


def _n_scores(n_classes: int | None) -> int:
    return 1 if n_classes is None or n_classes == 2 else n_classes


def _link(recipe: LinearRecipe, n_classes: int | None) -> str:
    if recipe.loss != "logistic":
        return ""
    return "logistic" if n_classes == 2 else "softmax"


def _recipe(estimator: Any, *, classifies: bool) -> LinearRecipe:
    recipe = linear_recipe(estimator)
    if recipe is None or recipe.classifies != classifies:
        kinds = "LogisticRegression or RidgeClassifier" if classifies else "Ridge"
        raise InvalidParameterError(
            f"estimator={type(estimator).__name__}(...) cannot be trained fused: that "
            f"needs {kinds} with a squared penalty, alone or behind a StandardScaler. "
            "Use fit_shards for anything else."
        )
    return recipe


def _fusion(recipe: LinearRecipe, fused: FusedLinear | None) -> Fusion | None:
    if fused is None:
        return None
    return Fusion(Encoding((Block(None, (), ()),), moves=recipe.scaled), fused)
