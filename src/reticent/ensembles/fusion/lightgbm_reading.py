"""Reads the trees of LightGBM models from their text form."""

from __future__ import annotations

import sys
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats, Ints
from reticent.ensembles.fusion.tree_nodes import Nodes

# Objectives whose raw scores decide by our boosted rule.
_OBJECTIVES = ("binary sigmoid:1", "multiclass num_class:", "regression")

_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_MISSING_NONE, _MISSING_ZERO = 0, 1

# LightGBM treats values up to this as zeros before it walks a tree.
_ZERO = float(np.float32(1e-35))

# Settings besides the parameters of its classes that are known not to change the
# predictions of a fitted model.
_HARMLESS = frozenset(
    {
        "bagging_fraction",
        "bagging_freq",
        "bagging_seed",
        "data_random_seed",
        "deterministic",
        "drop_rate",
        "drop_seed",
        "extra_trees",
        "feature_fraction",
        "feature_fraction_bynode",
        "feature_fraction_seed",
        "force_col_wise",
        "force_row_wise",
        "lambda_l1",
        "lambda_l2",
        "max_bin",
        "max_drop",
        "min_data_in_bin",
        "min_data_in_leaf",
        "min_gain_to_split",
        "min_sum_hessian_in_leaf",
        "num_threads",
        "path_smooth",
        "seed",
        "skip_drop",
        "uniform_drop",
        "use_missing",
        "verbose",
        "verbosity",
        "xgboost_dart_mode",
    }
)


def is_lightgbm(model: Any) -> bool:
    """Whether a model is LightGBM's own classifier or regressor.

    A LightGBM model can exist only if the library is loaded, so it is never imported
    here.
    """
    library = sys.modules.get("lightgbm")
    return library is not None and type(model) in (
        library.LGBMClassifier,
        library.LGBMRegressor,
    )


def predicts_plainly(model: Any) -> bool:
    """Whether a model predicts by walking all of its trees, as far as settings tell.

    Settings that are not known to keep predictions the same (such as early stopping
    while predicting) are assumed to change them.
    """
    named = set(signature(type(model)).parameters)
    return set(model.get_params(deep=False)) <= named | _HARMLESS


def booster_rounds(model: Any) -> list[list[Nodes]] | None:
    """Return a fitted model's trees round by round.

    None if it predicts in a way that trees of thresholds do not describe: other
    objectives, averaged or linear trees, categorical splits, zeros as missing values.
    """
    booster = model.booster_
    if booster.pandas_categorical:
        return None
    head, *sections = booster.model_to_string().split("\nTree=")
    settings = _settings(head)
    objective = settings.get("objective", "")
    known = objective in _OBJECTIVES or objective.startswith(_OBJECTIVES[1])
    if not known or "average_output" in head.splitlines():
        return None
    trees = [_nodes(_settings(section)) for section in sections]
    per_round = int(settings["num_tree_per_iteration"])
    rounds: list[list[Nodes]] = []
    for tree in trees:
        if tree is None:
            return None
        if not rounds or len(rounds[-1]) == per_round:
            rounds.append([])
        rounds[-1].append(tree)
    return rounds or None


def _settings(section: str) -> dict[str, str]:
    pairs = (line.split("=", 1) for line in section.split("\n\n")[0].splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _nodes(tree: dict[str, str]) -> Nodes | None:
    """Return one tree, inner nodes first, then leaves."""
    if tree.get("num_cat", "0") != "0" or tree.get("is_linear", "0") != "0":
        return None
    values = _numbers(tree["leaf_value"], np.float64)
    n_inner = int(tree["num_leaves"]) - 1
    n_nodes = n_inner + len(values)
    left, right = np.full((2, n_nodes), -1)
    feature = np.zeros(n_nodes, dtype=np.int64)
    threshold = np.zeros(n_nodes)
    missing_left = np.zeros(n_nodes, dtype=bool)
    if n_inner > 0:
        decisions = _numbers(tree["decision_type"], np.int64)
        missing = decisions >> 2
        if (decisions & _CATEGORICAL).any() or (missing == _MISSING_ZERO).any():
            return None
        feature[:n_inner] = _numbers(tree["split_feature"], np.int64)
        threshold[:n_inner] = _numbers(tree["threshold"], np.float64)
        left[:n_inner] = _places(tree["left_child"], n_inner)
        right[:n_inner] = _places(tree["right_child"], n_inner)
        # A node that saw no missing values in training treats them as zeros.
        missing_left[:n_inner] = np.where(
            missing == _MISSING_NONE,
            threshold[:n_inner] >= 0,
            decisions & _DEFAULT_LEFT,
        )
        threshold[:n_inner] = _around_zero(threshold[:n_inner])
    leaf_values = np.zeros((n_nodes, 1))
    leaf_values[n_inner:, 0] = values
    return Nodes(left, right, feature, threshold, missing_left, leaf_values)


def _around_zero(threshold: Floats) -> Floats:
    """Return thresholds that split rows as these do once small values are zeros."""
    below = np.nextafter(-_ZERO, -np.inf)
    moved = np.where(threshold >= 0, np.maximum(threshold, _ZERO), threshold)
    return np.where((moved >= -_ZERO) & (moved < 0), below, moved)


def _places(text: str, n_inner: int) -> Ints:
    """Return the places of children: leaf i is written as ``-(i + 1)``."""
    children = _numbers(text, np.int64)
    return np.where(children < 0, n_inner + ~children, children)


def _numbers(text: str, kind: type) -> NDArray[Any]:
    return np.array(text.split(), dtype=kind)
