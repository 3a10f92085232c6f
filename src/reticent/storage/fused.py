"""Fused ensembles as arrays, and arrays as fused ensembles that hold together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.ensembles import (
    Block,
    ClassifierEnsemble,
    Encoding,
    FusedLinear,
    FusedTrees,
    Fusion,
    RegressorEnsemble,
)
from reticent.errors import ModelFileError
from reticent.storage.pipelines import SKOPS, pack_models

FAMILIES: dict[str, type[FusedLinear] | type[FusedTrees]] = {
    "linear": FusedLinear,
    "trees": FusedTrees,
}
_SCALARS: dict[str, dict[str, type]] = {
    "linear": {"steps": int, "roundoff": float, "link": str},
    "trees": {"rule": str, "single": bool, "missing": bool},
}
STORABLE = (
    "estimators and pipelines of scikit-learn, fitted on the matrix of the schema's "
    "Encoder; linear models and trees are stored as plain arrays"
)


@dataclass(frozen=True, slots=True, eq=False)
class PackedEnsemble:
    """The models of all shards: family, scalars, arrays."""

    family: str
    scalars: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def pack_ensemble(
    ensemble: ClassifierEnsemble | RegressorEnsemble, n_features: int
) -> PackedEnsemble:
    """Take a fitted ensemble apart, or say why it cannot be stored."""
    fusion = ensemble.fusion
    if ensemble.columns.names is not None:
        raise ModelFileError(
            "this pipeline was fitted on columns with names. Encode rows with the "
            f"schema's Encoder before fitting. What can be stored: {STORABLE}."
        )
    if ensemble.columns.count != n_features:
        raise ModelFileError(
            f"the models take {ensemble.columns.count} features, the encoder makes "
            f"{n_features}. Pass the encoder that encoded the training rows."
        )
    if fusion is None or not _is_plain(fusion) or not _is_whole(ensemble, fusion):
        held = () if fusion is None else fusion.shards.tolist()
        if any(ensemble.models[shard] is None for shard in held):
            raise ModelFileError(
                "some shards hold models as arrays and others do not, so the "
                f"ensemble cannot be stored. What can be: {STORABLE}."
            )
        return PackedEnsemble(SKOPS, {}, pack_models(ensemble.models))
    family = "linear" if isinstance(fusion.models, FusedLinear) else "trees"
    parts = fusion.models.to_arrays()
    scalars = {
        name: kind(parts.pop(name).item()) for name, kind in _SCALARS[family].items()
    }
    return PackedEnsemble(family, scalars, parts)


def _is_plain(fusion: Fusion) -> bool:
    """Say whether models take the rows as the schema's encoder makes them."""
    (block, *more) = fusion.encoding.blocks
    own = more or block.columns is not None or block.encoders or fusion.encoding.codes
    return not own


def _is_whole(ensemble: ClassifierEnsemble | RegressorEnsemble, fusion: Fusion) -> bool:
    """Say whether every existing model has been fused."""
    fused = set(fusion.shards.tolist())
    return all(
        model is None or shard in fused for shard, model in enumerate(ensemble.models)
    )


def fusion_of(
    family: Any,
    scalars: Any,
    arrays: Mapping[str, NDArray[Any]],
    *,
    n_shards: int,
    n_labels: int | None,
    n_features: int,
) -> Fusion:
    """Put the models of all shards together, if they hold together.

    `n_labels` is None for regression. Every index is checked to lead somewhere here,
    so that no query can fail later.
    """
    if family not in FAMILIES:
        raise _damaged("family")
    wanted = _SCALARS[family]
    if not (
        isinstance(scalars, Mapping)
        and set(scalars) == set(wanted)
        and all(type(scalars[name]) is kind for name, kind in wanted.items())
    ):
        raise _damaged("scalars")
    check = _check_linear if family == "linear" else _check_trees
    check(scalars, arrays, n_features)
    _check_votes(arrays, n_shards, n_labels)
    parts: dict[str, Any] = {
        **arrays,
        **{name: np.asarray(value) for name, value in scalars.items()},
    }
    models = FAMILIES[family].from_arrays(parts)
    block = Block(columns=None, encoders=(), movers=())
    # Moved columns are folded into the weights; whether there were any only matters
    # for sparse rows, which the schema's encoder never makes.
    return Fusion(Encoding(blocks=(block,), moves=False), models)


def _damaged(what: str) -> ModelFileError:
    return ModelFileError(
        f"the {what} of the stored models do not fit together; the model is damaged. "
        "Save it again."
    )


def _need(condition: Any, what: str) -> None:
    if not bool(condition):
        raise _damaged(what)


def _typed(
    arrays: Mapping[str, NDArray[Any]], kinds: Mapping[str, tuple[str, int]]
) -> None:
    """Check names, types and dimensions of all arrays."""
    _need(set(arrays) == set(kinds), "arrays")
    for name, (dtype, ndim) in kinds.items():
        _need(arrays[name].dtype.str == dtype and arrays[name].ndim == ndim, name)


def _check_linear(
    scalars: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_features: int
) -> None:
    kinds = {
        "shards": ("<i8", 1),
        "labels": ("<i8", 2),
        "weights": ("<f8", 3),
        "intercepts": ("<f8", 2),
        "missing": ("<f8", 3),
        "bulk": ("<f8", 1),
    }
    _typed(arrays, kinds)
    n_models, n_scores, n_columns = arrays["weights"].shape
    _need(n_scores >= 1 and n_columns == n_features, "weights")
    _need(np.isfinite(arrays["weights"]).all(), "weights")
    _need(arrays["intercepts"].shape == (n_models, n_scores), "intercepts")
    _need((arrays["intercepts"] < np.inf).all(), "intercepts")
    _need(arrays["missing"].shape[:2] == (n_models, n_scores), "missing")
    _need(arrays["missing"].shape[2] in (0, n_columns), "missing")
    _need(not np.isinf(arrays["missing"]).any(), "missing")
    _need(arrays["bulk"].shape == (n_models,), "bulk")
    _need(np.isfinite(arrays["bulk"]).all(), "bulk")
    _need(arrays["labels"].shape == (n_models, max(2, n_scores)), "labels")
    _need(scalars["steps"] >= 0, "scalars")
    _need(isfinite(scalars["roundoff"]) and scalars["roundoff"] > 0, "scalars")
    _need(scalars["link"] in ("", "logistic", "softmax"), "scalars")


def _check_trees(
    scalars: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_features: int
) -> None:
    kinds = {
        "shards": ("<i8", 1),
        "labels": ("<i8", 2),
        "roots": ("<i4", 3),
        "baseline": ("<f8", 2),
        "feature": ("<i4", 1),
        "threshold": ("<f8", 1),
        "children": ("<i4", 2),
        "missing_left": ("|b1", 1),
        "values": ("<f8", 2),
        "branch": ("<i4", 1),
        "branches": ("|b1", 1),
    }
    _typed(arrays, kinds)
    n_nodes = len(arrays["children"])
    _need(arrays["children"].shape == (n_nodes, 2) and n_nodes > 0, "children")
    for name in ("feature", "threshold", "missing_left", "values", "branch"):
        _need(len(arrays[name]) == n_nodes, name)
    inner = arrays["children"][:, 0] != np.arange(n_nodes)
    # Children come after their parents, so every walk ends.
    forward = arrays["children"] > np.arange(n_nodes)[:, None]
    _need((forward.all(axis=1) | ~inner).all(), "children")
    _need((arrays["children"] < n_nodes).all(), "children")
    # A node that branches on categories needs the table of its pipeline's codes.
    _need((arrays["branch"] < 0).all() and not len(arrays["branches"]), "branch")
    feature = arrays["feature"][inner]
    _need(((feature >= 0) & (feature < n_features)).all(), "feature")
    _need(np.isfinite(arrays["values"]).all(), "values")
    _need(np.isfinite(arrays["baseline"]).all(), "baseline")
    n_models, n_rounds, n_trees = arrays["roots"].shape
    _need(((arrays["roots"] >= 0) & (arrays["roots"] < n_nodes)).all(), "roots")
    _need(n_rounds >= 1 and n_trees >= 1, "roots")
    n_scores = arrays["baseline"].shape[1]
    _need(arrays["baseline"].shape == (n_models, n_scores) and n_scores, "baseline")
    _need(arrays["labels"].shape == (n_models, max(2, n_scores)), "labels")
    _need(n_trees in (1, n_scores), "roots")
    width = n_scores if n_trees == 1 else 1
    _need(arrays["values"].shape[1] == width, "values")
    _need(scalars["rule"] in ("mean", "boosted"), "scalars")


def _check_votes(
    arrays: Mapping[str, NDArray[Any]], n_shards: int, n_labels: int | None
) -> None:
    """Each model belongs to its own shard and can only vote for public labels."""
    shards, labels = arrays["shards"], arrays["labels"]
    _need(len(np.unique(shards)) == len(shards) == len(labels), "shards")
    _need(((shards >= 0) & (shards < n_shards)).all(), "shards")
    if n_labels is None:
        _need((labels == -1).all(), "labels")
    else:
        _need(((labels >= -1) & (labels < n_labels)).all(), "labels")
        _need((labels >= 0).any(axis=1).all(), "labels")
