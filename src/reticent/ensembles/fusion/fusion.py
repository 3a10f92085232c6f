"""Fuses fitted models into arrays if possible, and decides which batches use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from sklearn import get_config

from reticent._arrays import Ints
from reticent._sklearn import MatrixLike
from reticent.ensembles.fusion.encoding import POLARS, Encoded, Encoding
from reticent.ensembles.fusion.lightgbm_reading import is_lightgbm
from reticent.ensembles.fusion.linear import FusedLinear
from reticent.ensembles.fusion.linear_reading import fuse_linear, predicted_width
from reticent.ensembles.fusion.pipelines import FusablePipeline, as_fusable_pipeline
from reticent.ensembles.fusion.tree_reading import (
    category_kinds,
    common_codes,
    fuse_trees,
    most_trees,
)
from reticent.ensembles.fusion.trees import FusedTrees
from reticent.ensembles.model_answers import n_rows
from reticent.estimators import Labels

# Walking flat arrays costs more per row than a tree library's compiled loop, and less
# per call. Arrays are faster up to this many rows, and rows times trees of a shard;
# chosen by measurement.
_TREE_ROWS = 1024
_TREE_WALKS = 1 << 13

#: The models of an ensemble as arrays.
FusedModels: TypeAlias = FusedLinear | FusedTrees


@dataclass(frozen=True, slots=True, eq=False)
class Fusion:
    """The common encoding of rows, and the arrays of the models behind it."""

    encoding: Encoding  #: how rows become the matrix that all models see
    models: FusedModels
    #: The largest number of trees of a model by the parameters of its estimator;
    #: public.
    n_trees: int = 1
    takes_polars: bool = True  #: whether models read polars data frames like arrays

    def suits(self, X: MatrixLike) -> bool:
        """Whether a batch should be answered through the arrays.

        The choice depends on the type and the size of the batch, on the estimator's
        parameters, and on scikit-learn's setting `assume_finite`, with which models
        answer for rows that they otherwise refuse.
        """
        if not self.encoding.takes(X):
            return False
        if isinstance(self.models, FusedTrees) and sparse.issparse(X):
            return False
        if get_config()["assume_finite"]:
            return False
        if isinstance(self.models, FusedLinear):
            return True
        walks = n_rows(X) * self.n_trees
        return n_rows(X) <= _TREE_ROWS and walks <= _TREE_WALKS

    def encode(self, X: MatrixLike) -> Encoded:
        """Encode the rows of a batch that the models do not refuse."""
        encoded = self.encoding.encode(X)
        refused = self.models.refused(encoded.values) if len(encoded.rows) else None
        if refused is None:
            return encoded
        kept = np.flatnonzero(~refused)
        return Encoded(encoded.rows[kept], encoded.values[kept], encoded.types)

    def reproduces_models(self, encoded: Encoded) -> bool:
        """Whether the models' own arithmetic on encoded rows is that of the arrays.

        Libraries convert numbers of other than double precision in different ways, and
        scalers compute in the type of their input.
        """
        others = encoded.types - {np.dtype(np.float64)}
        if self.takes_polars:
            others -= {POLARS}
        if isinstance(self.models, FusedTrees):
            return not others
        return all(kind.kind in "biu" for kind in others)

    @property
    def shards(self) -> Ints:
        """The shards whose models are among the arrays."""
        return self.models.shards


def fuse(models: Sequence[Any], labels: Labels | None) -> tuple[Fusion, ...]:
    """Fuse fitted models, one per shard, as far as possible.

    A model is None where fitting failed; `labels` are None for regression. Models that
    read rows in the same way are fused together, the largest group first. Single
    shards may be left out.

    Guarantee
    ---------
    Whether a shard's model is among the arrays depends on that model alone. *Proof.*
    Models of one group agree in all that decides it, so it does not matter which of
    them is looked at; groups do not look at each other.
    """
    groups: list[dict[int, FusablePipeline]] = []
    for shard, model in enumerate(models):
        pipeline = None if model is None else as_fusable_pipeline(model)
        if pipeline is None:
            continue
        for group in groups:
            if _are_alike(pipeline, next(iter(group.values()))):
                group[shard] = pipeline
                break
        else:
            groups.append({shard: pipeline})
    fused = [_fuse_alike(group, labels) for group in groups]
    found = [fusion for fusion in fused if fusion is not None]
    return tuple(sorted(found, key=lambda fusion: -len(fusion.shards)))


def _are_alike(one: FusablePipeline, other: FusablePipeline) -> bool:
    """Whether two models read rows in the same way and are of one kind.

    What a step learned may differ: an imputer drops a column that is missing in all
    rows of its shard, and categories are numbers or text as a shard has them.
    """
    return (
        type(one.predictor) is type(other.predictor)
        and one.moves == other.moves
        and predicted_width(one) == predicted_width(other)
        and category_kinds(one) == category_kinds(other)
        and one.reads_like(other)
    )


def _fuse_alike(
    pipelines: dict[int, FusablePipeline], labels: Labels | None
) -> Fusion | None:
    """Fuse models that are alike, None if models of this kind cannot be fused."""
    example = next(iter(pipelines.values()))
    codes = common_codes(pipelines)
    encoding = Encoding.of(example, codes)
    linear = fuse_linear(pipelines, labels)
    if linear is not None:
        return Fusion(encoding, linear)
    trees = fuse_trees(pipelines, labels, codes)
    if trees is None:
        return None
    return Fusion(
        encoding,
        trees,
        n_trees=most_trees(example, labels),
        takes_polars=not is_lightgbm(example.predictor),
    )
