"""Many models, one pass: shards of privacy units, their models, their votes.

Everything fitted here, votes and averages included, is as secret as the records. The
rooms that use it add the noise.
"""

from __future__ import annotations

from reticent.ensembles.columns import Columns
from reticent.ensembles.encoding import Encoded, Encoding
from reticent.ensembles.ensemble import ClassifierEnsemble, RegressorEnsemble
from reticent.ensembles.fitting import (
    FittedShards,
    check_base_estimator,
    fit_shards,
    fit_spooled,
)
from reticent.ensembles.fused_linear import FusedLinear
from reticent.ensembles.fused_trees import FusedTrees
from reticent.ensembles.fusing import Fusion, fuse
from reticent.ensembles.labels import Labels, fixed_ballots
from reticent.ensembles.recipe import LinearRecipe, linear_recipe
from reticent.ensembles.spool import DealtRows, RowSpool
from reticent.ensembles.steps import (
    STEPS,
    check_bounds,
    output_steps,
    probability_steps,
)
from reticent.ensembles.tables import as_table, canonical, check_types
from reticent.ensembles.training import (
    linear_fusion,
    train_classifiers,
    train_linear,
    train_regressors,
    train_spooled,
)
from reticent.ensembles.units import (
    Partition,
    deal_units,
    partition_rows,
    unit_positions,
)

__all__ = [
    "STEPS",
    "ClassifierEnsemble",
    "Columns",
    "DealtRows",
    "Encoded",
    "Encoding",
    "FittedShards",
    "FusedLinear",
    "FusedTrees",
    "Fusion",
    "Labels",
    "LinearRecipe",
    "Partition",
    "RegressorEnsemble",
    "RowSpool",
    "as_table",
    "canonical",
    "check_base_estimator",
    "check_bounds",
    "check_types",
    "deal_units",
    "fit_shards",
    "fit_spooled",
    "fixed_ballots",
    "fuse",
    "linear_fusion",
    "linear_recipe",
    "output_steps",
    "partition_rows",
    "probability_steps",
    "train_classifiers",
    "train_linear",
    "train_regressors",
    "train_spooled",
    "unit_positions",
]
