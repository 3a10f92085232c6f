"""Training the linear models of all shards at once, on one encoded matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from reticent._arrays import Floats, Ints
from reticent.ensembles.fusion.encoding import Encoding
from reticent.ensembles.fusion.fusion import Fusion
from reticent.ensembles.fusion.linear import MAGNITUDE_LIMIT, FusedLinear
from reticent.ensembles.fusion.linear_reading import FoldedModel, join_models
from reticent.ensembles.fusion.pipelines import Block
from reticent.ensembles.linear_recipe import LinearRecipe, linear_recipe
from reticent.ensembles.newton import StackedLogisticLoss, minimise, solve_each
from reticent.ensembles.shard_stacks import (
    Group,
    count_scores,
    group_shards,
    stack,
    standardise,
)
from reticent.ensembles.spool import DealtRows
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators import NO_BALLOT, Partition, numbers_by_shard

#: The largest number of coefficients of one shard's model, over all labels. Newton's
#: method solves a system of about this size for every shard; larger models are faster
#: one by one.
MOST_UNKNOWNS = 600

# Converged Newton steps are exact to about this much; far below any tolerance that a
# model is usually fitted with.
_TOLERANCE = 1e-9
_MAX_ITER = 200


def fused_recipe(
    estimator: Any, n_columns: int, n_classes: int | None
) -> LinearRecipe | None:
    """Return how to train an estimator on all shards at once, if that is faster.

    This is the one place that decides. It looks at public facts alone: the
    estimator's parameters, the number of columns and of labels (None for regression).

    Returns
    -------
    LinearRecipe or None
        None if the estimator is not a linear model that `linear_recipe` reads, is for
        another task, or has more than `MOST_UNKNOWNS` coefficients.
    """
    recipe = linear_recipe(estimator)
    if recipe is None or recipe.classifies != (n_classes is not None):
        return None
    return recipe if _unknowns(n_columns, n_classes) <= MOST_UNKNOWNS else None


def _unknowns(n_columns: int, n_classes: int | None) -> int:
    return (n_columns + 1) * (n_classes or 1)


def train_linear(
    recipe: LinearRecipe,
    Z: Floats,
    targets: NDArray[Any],
    partition: Partition,
    *,
    n_classes: int | None,
    n_jobs: int | None = None,
) -> FusedLinear:
    """Train one linear model per shard, all at once.

    The rows `Z` are encoded by public rules. Targets are places of labels in the public
    list of `n_classes`, or numbers if this is None. Shards that scikit-learn could not
    be fitted on (a single label, or cells that are not numbers, not finite, or
    overflow) are left out.

    Guarantee
    ---------
    The model of a shard is a function of that shard's rows alone, to the last bit.
    Coefficients are those of scikit-learn's solvers run to convergence: no entry of
    the gradient of the average loss exceeds 1e-9.
    """
    Z = np.asarray(Z)
    if Z.ndim != 2 or len(Z) != len(partition.shard_of_row) or len(targets) != len(Z):
        raise InvalidDataError(
            f"Z of shape {Z.shape} and targets of length {len(targets)} must have the "
            f"{len(partition.shard_of_row)} rows of the partition."
        )
    numbers = numbers_by_shard(Z, partition)
    shards = partition.rows_by_shard()
    models = _train_shards(recipe, numbers, targets, shards, n_classes, n_jobs)
    return _joined(recipe, models, n_classes, Z.shape[1])


def train_spooled(
    recipe: LinearRecipe,
    rows: DealtRows,
    *,
    n_classes: int | None,
    n_jobs: int | None = None,
) -> FusedLinear:
    """Train one linear model per shard on rows on disk.

    The models are those of `train_linear` for the whole table in memory, to the last
    bit: the model of a shard does not depend on the shards it is read with.
    """
    models: dict[int, FoldedModel] = {}
    for first, Z, targets, partition in rows.groups():
        Z = np.asarray(Z, dtype=np.float64)
        goals = targets if n_classes is None else targets.astype(np.int64)
        shards = partition.rows_by_shard()
        trained = _train_shards(recipe, Z, goals, shards, n_classes, n_jobs)
        models |= {first + place: model for place, model in trained.items()}
    return _joined(recipe, models, n_classes, rows.n_columns)


def _train_shards(
    recipe: LinearRecipe,
    Z: Floats,
    targets: NDArray[Any],
    shards: list[Ints],
    n_classes: int | None,
    n_jobs: int | None,
) -> dict[int, FoldedModel]:
    if not _unknowns(Z.shape[1], n_classes) <= MOST_UNKNOWNS:
        raise InvalidParameterError(
            f"training all shards at once takes at most {MOST_UNKNOWNS} coefficients "
            f"per shard; got {_unknowns(Z.shape[1], n_classes)}. Fit the shards one "
            "by one instead."
        )
    unknowns = (Z.shape[1] + 1) * count_scores(n_classes)
    trained = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(_train_group)(recipe, Z, targets, group)
        for group in group_shards(Z, targets, shards, n_classes, unknowns)
    )
    return {shard: model for group in trained for shard, model in group.items()}


def _joined(
    recipe: LinearRecipe,
    models: dict[int, FoldedModel],
    n_classes: int | None,
    n_columns: int,
) -> FusedLinear:
    return join_models(
        dict(sorted(models.items())),
        n_scores=count_scores(n_classes),
        n_columns=n_columns,
        steps=4 * recipe.scaled,
        link=_link(recipe, n_classes),
    )


def _train_group(
    recipe: LinearRecipe, Z: Floats, targets: NDArray[Any], group: Group
) -> dict[int, FoldedModel]:
    with np.errstate(all="ignore"):  # what overflows is in a shard, and stays there
        return _solve_group(recipe, Z, targets, group)


def _solve_group(
    recipe: LinearRecipe, Z: Floats, targets: NDArray[Any], group: Group
) -> dict[int, FoldedModel]:
    design, target = stack(Z, targets, group, signed=recipe.loss == "squared")
    filled = np.array([len(rows) for rows in group.rows], dtype=np.float64)
    centre, scale = np.zeros((2, len(design), design.shape[2] - 1))
    scale += 1
    if recipe.scaled:
        centre, scale = standardise(design, filled)
    if recipe.loss == "logistic":
        if not recipe.fit_intercept:
            design = np.ascontiguousarray(design[:, :, :-1])
        loss = StackedLogisticLoss(recipe.penalty, recipe.fit_intercept)
        weights = minimise(loss, design, target, tol=_TOLERANCE, max_iter=_MAX_ITER)
    else:
        weights = _solve_ridge(recipe, design, target, filled)
    if not recipe.fit_intercept:
        weights = np.concatenate([weights, np.zeros_like(weights[:, :, :1])], axis=2)
    labels = np.full(2, NO_BALLOT) if group.present is None else group.present
    models: dict[int, FoldedModel] = {}
    for place, shard in enumerate(group.shards):
        own = weights[place]
        slopes = own[:, :-1] / scale[place]
        shift = slopes @ centre[place]
        bulk = np.abs(own[:, -1]) + np.abs(slopes) @ np.abs(centre[place])
        model = FoldedModel(
            labels=labels,
            weights=slopes,
            intercepts=own[:, -1] - shift,
            missing=np.full_like(slopes, np.nan),
            bulk=float(bulk.max()),
        )
        if model.largest <= MAGNITUDE_LIMIT:  # NaN is not
            models[shard] = model
    return models


def _solve_ridge(
    recipe: LinearRecipe, design: Floats, target: Floats, filled: Floats
) -> Floats:
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
    slopes = solve_each(gram, moments).swapaxes(1, 2)
    if not recipe.fit_intercept:
        return slopes
    intercepts = level.swapaxes(1, 2) - slopes @ middle.swapaxes(1, 2)
    return np.concatenate([slopes, intercepts], axis=2)


def _link(recipe: LinearRecipe, n_classes: int | None) -> str:
    if recipe.loss != "logistic":
        return ""
    return "logistic" if n_classes == 2 else "softmax"


def linear_fusion(recipe: LinearRecipe, fused: FusedLinear) -> Fusion:
    """Return linear models as the ensembles take them."""
    return Fusion(Encoding((Block(None, (), ()),), moves=recipe.scaled), fused)
