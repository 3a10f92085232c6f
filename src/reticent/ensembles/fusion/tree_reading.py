"""Reads fitted trees, forests and boosted trees into flat arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import ensemble, tree

from reticent._arrays import Bools, Floats, Ints
from reticent._sklearn import boosted_categories, boosted_rounds, takes_missing
from reticent.ensembles.fusion.categories import CategoryCodes, branch_table, kind_of
from reticent.ensembles.fusion.lightgbm_reading import (
    booster_rounds,
    is_lightgbm,
    predicts_plainly,
)
from reticent.ensembles.fusion.pipelines import FusablePipeline
from reticent.ensembles.fusion.tree_nodes import Nodes, TreeArrays
from reticent.ensembles.fusion.trees import FusedTrees
from reticent.estimators import NO_BALLOT, Labels

# Exact types only: a subclass may predict differently.
_TREES = (
    tree.DecisionTreeClassifier,
    tree.DecisionTreeRegressor,
    tree.ExtraTreeClassifier,
    tree.ExtraTreeRegressor,
)
_FORESTS = (
    ensemble.ExtraTreesClassifier,
    ensemble.ExtraTreesRegressor,
    ensemble.RandomForestClassifier,
    ensemble.RandomForestRegressor,
)
_BOOSTED = (
    ensemble.HistGradientBoostingClassifier,
    ensemble.HistGradientBoostingRegressor,
)

# Losses whose raw scores are the predictions themselves.
_IDENTITY_LOSSES = ("squared_error", "absolute_error", "quantile")


@dataclass(frozen=True, slots=True, eq=False)
class TreeRounds:
    """One model: its trees round by round, and the scores they are added to."""

    baseline: Floats
    trees: list[list[Nodes]]


def common_codes(pipelines: dict[int, FusablePipeline]) -> CategoryCodes | None:
    """Return common codes for the categories of boosted trees, None without any."""
    found = [
        boosted_categories(pipeline.predictor)
        for pipeline in pipelines.values()
        if type(pipeline.predictor) in _BOOSTED
    ]
    known = [shard for shard in found if shard is not None]
    if not known:
        return None
    return CategoryCodes(known[0][0], [categories for _, categories in known])


def category_kinds(pipeline: FusablePipeline) -> tuple[Any, ...] | None:
    """Return the categorical columns of a boosted model and the kinds of their levels.

    None for other models, and without such columns.
    """
    if type(pipeline.predictor) not in _BOOSTED:
        return None
    found = boosted_categories(pipeline.predictor)
    if found is None:
        return None
    is_categorical, categories = found
    return (*np.flatnonzero(is_categorical).tolist(), *map(kind_of, categories))


def most_trees(pipeline: FusablePipeline, labels: Labels | None) -> int:
    """Return the most trees that a model can have by its parameters, which are public.

    The actual number is not public: boosting may stop early because of one record.
    """
    settings = pipeline.predictor.get_params(deep=False)
    rounds = settings.get("max_iter", settings.get("n_estimators", 1))
    averaged = type(pipeline.predictor) in _TREES + _FORESTS
    n_trees = 1 if averaged or labels is None or len(labels) == 2 else len(labels)
    return int(rounds) * n_trees


def fuse_trees(
    pipelines: dict[int, FusablePipeline],
    labels: Labels | None,
    codes: CategoryCodes | None,
) -> FusedTrees | None:
    """Return the models of the given shards as flat arrays, where possible.

    All pipelines have one structure; `labels` are None for regression; `codes` are
    those of categories in the encoded rows. Returns None if the predictors are not
    trees, if shards transform their columns, or if arrays cannot reproduce the
    predictions to the last bit. All of this is known from types and parameters.
    """
    example = next(iter(pipelines.values()))
    kind = type(example.predictor)
    averaged = kind in _TREES + _FORESTS
    boosted = kind in _BOOSTED or is_lightgbm(example.predictor)
    if example.moves or not (averaged or boosted) or not _follows(example.predictor):
        return None
    models = {}
    for shard, known in _known_labels(pipelines, labels, least=1 if averaged else 2):
        rounds = _rounds(pipelines[shard].predictor, codes)
        if rounds is not None:
            models[shard] = (known, rounds)
    if not models:
        return None
    if averaged:
        n_scores = 1 if labels is None else len(labels)
    else:
        n_scores = 1 if labels is None or len(labels) == 2 else len(labels)
    own_scores = boosted and n_scores > 1
    arrays = TreeArrays(1 if own_scores else n_scores)
    n_rounds = max(len(rounds.trees) for _, rounds in models.values())
    roots = np.zeros((len(models), n_rounds, n_scores if own_scores else 1), np.int32)
    baseline = np.zeros((len(models), n_scores))
    names = np.full((len(models), max(2, n_scores)), NO_BALLOT)
    for place, (known, rounds) in enumerate(models.values()):
        names[place, : len(known)] = known
        # A single margin is compared with a score of zero.
        first = len(known) - len(rounds.baseline) if own_scores else 0
        baseline[place, first : first + len(rounds.baseline)] = rounds.baseline
        for turn, trees in enumerate(rounds.trees):
            for column, nodes in enumerate(trees):
                roots[place, turn, first + column] = arrays.add(nodes)
    return FusedTrees(
        shards=np.array(list(models), dtype=np.int64),
        labels=names,
        roots=roots,
        baseline=baseline,
        rule="mean" if averaged else "boosted",
        single=averaged,
        missing=boosted or _takes_missing(example.predictor),
        **arrays.arrays(),
    )


def _follows(model: Any) -> bool:
    """Whether arrays can reproduce a model's arithmetic, by its parameters."""
    if is_lightgbm(model):
        return predicts_plainly(model)
    if type(model) in _FORESTS:
        # Threads add the trees up in the order in which they finish.
        return model.n_jobs in (None, 1)
    return True


def _known_labels(
    pipelines: dict[int, FusablePipeline], labels: Labels | None, *, least: int
) -> list[tuple[int, Ints]]:
    """Return the places of each shard's labels, for shards with enough of them."""
    if labels is None:
        return [(shard, np.full(1, NO_BALLOT)) for shard in pipelines]
    known = [
        (shard, labels.indices(pipeline.predictor.classes_))
        for shard, pipeline in pipelines.items()
    ]
    return [
        (shard, places)
        for shard, places in known
        if len(places) >= least and not (places == NO_BALLOT).any()
    ]


def _rounds(model: Any, codes: CategoryCodes | None) -> TreeRounds | None:
    if is_lightgbm(model):
        trees = booster_rounds(model)
        return None if trees is None else TreeRounds(np.zeros(len(trees[0])), trees)
    if type(model) in _BOOSTED:
        return _boosted_rounds(model, codes)
    members = model.estimators_ if type(model) in _FORESTS else [model]
    n_scores = members[0].tree_.value.shape[2]
    return TreeRounds(np.zeros(n_scores), [[_tree_nodes(m.tree_)] for m in members])


def _tree_nodes(tree: Any) -> Nodes:
    return Nodes(
        left=tree.children_left,
        right=tree.children_right,
        feature=tree.feature,
        threshold=tree.threshold,
        missing_left=tree.missing_go_to_left,
        values=tree.value[:, 0, :],
    )


def _boosted_rounds(model: Any, codes: CategoryCodes | None) -> TreeRounds | None:
    if getattr(model, "loss", "log_loss") not in (*_IDENTITY_LOSSES, "log_loss"):
        return None
    own_codes = []
    categories = boosted_categories(model)
    if (codes is None) != (categories is None):
        return None
    if codes is not None and categories is not None:
        if not codes.covers(*categories):
            return None
        own_codes = [codes.own_codes(c, known) for c, known in enumerate(categories[1])]
    baseline, rounds = boosted_rounds(model)
    return TreeRounds(
        baseline,
        [[_boosted_nodes(*tree, own_codes) for tree in turn] for turn in rounds],
    )


def _boosted_nodes(
    nodes: NDArray[Any], left_sets: NDArray[np.uint32], own_codes: list[Ints]
) -> Nodes:
    is_leaf = nodes["is_leaf"].astype(bool)
    branch: list[Bools | None] = [None] * len(nodes)
    for place in np.flatnonzero(nodes["is_categorical"] & ~is_leaf):
        node = nodes[place]
        branch[place] = branch_table(
            own_codes[node["feature_idx"]],
            left_sets[node["bitset_idx"]],
            bool(node["missing_go_to_left"]),
        )
    return Nodes(
        left=np.where(is_leaf, -1, nodes["left"].astype(np.int64)),
        right=nodes["right"].astype(np.int64),
        feature=nodes["feature_idx"],
        threshold=nodes["num_threshold"],
        missing_left=nodes["missing_go_to_left"],
        values=nodes["value"][:, None],
        branch=branch,
    )


def _takes_missing(model: Any) -> bool:
    return takes_missing(model.estimators_[0] if type(model) in _FORESTS else model)
