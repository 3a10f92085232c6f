"""Models of disjoint shards, and their votes and averages.

Internal: everything fitted here, votes and averages included, is as secret as the
records. The rooms that use it add the noise.
"""

from __future__ import annotations

from reticent.ensembles.ensemble import ClassifierEnsemble, RegressorEnsemble
from reticent.ensembles.fitting import (
    FittedShards,
    check_base_estimator,
    fit_shards,
    fit_spooled,
)
from reticent.ensembles.fusion.encoding import Encoded, Encoding
from reticent.ensembles.fusion.fusion import Fusion, fuse
from reticent.ensembles.fusion.linear import FusedLinear
from reticent.ensembles.fusion.pipelines import Block
from reticent.ensembles.fusion.trees import FusedTrees
from reticent.ensembles.linear_recipe import SHARD_TREES, LinearRecipe, linear_recipe
from reticent.ensembles.linear_training import (
    fused_recipe,
    train_linear,
    train_spooled,
)
from reticent.ensembles.output_steps import (
    OUTPUT_STEPS,
    output_steps,
    probability_steps,
)
from reticent.ensembles.spool import DealtRows, RowSpool
from reticent.ensembles.training import (
    Task,
    train_ensemble,
    train_ensemble_spooled,
)

__all__ = [
    "OUTPUT_STEPS",
    "SHARD_TREES",
    "Block",
    "ClassifierEnsemble",
    "DealtRows",
    "Encoded",
    "Encoding",
    "FittedShards",
    "FusedLinear",
    "FusedTrees",
    "Fusion",
    "LinearRecipe",
    "RegressorEnsemble",
    "RowSpool",
    "Task",
    "check_base_estimator",
    "fit_shards",
    "fit_spooled",
    "fuse",
    "fused_recipe",
    "linear_recipe",
    "output_steps",
    "probability_steps",
    "train_ensemble",
    "train_ensemble_spooled",
    "train_linear",
    "train_spooled",
]
