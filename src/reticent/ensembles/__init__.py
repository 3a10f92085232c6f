"""Models of disjoint shards, and their votes and averages.

Internal: everything fitted here, votes and averages included, is as secret as the
records. The rooms that use it add the noise.
"""

from __future__ import annotations

from reticent.ensembles.carried_state import keeps_what_it_learned
from reticent.ensembles.ensemble import ClassifierEnsemble, RegressorEnsemble
from reticent.ensembles.fitting import check_base_estimator
from reticent.ensembles.fusion.encoding import Encoded, Encoding
from reticent.ensembles.fusion.fusion import Fusion
from reticent.ensembles.fusion.linear import FusedLinear
from reticent.ensembles.fusion.pipelines import Block
from reticent.ensembles.fusion.trees import FusedTrees
from reticent.ensembles.linear_recipe import SHARD_TREES
from reticent.ensembles.output_steps import OUTPUT_STEPS
from reticent.ensembles.spool import RowSpool
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
    "Encoded",
    "Encoding",
    "FusedLinear",
    "FusedTrees",
    "Fusion",
    "RegressorEnsemble",
    "RowSpool",
    "Task",
    "check_base_estimator",
    "keeps_what_it_learned",
    "train_ensemble",
    "train_ensemble_spooled",
]
