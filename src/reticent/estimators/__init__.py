"""Shared parts of predictors and learners: tables, units, labels, linear models.

Internal: the rooms above add the privacy.
"""

from __future__ import annotations

from reticent.estimators.columns import Columns
from reticent.estimators.inputs import (
    checked_labels,
    checked_targets,
    needs_no_validation,
    require_one_row_per_unit,
    two_labels,
)
from reticent.estimators.labels import NO_BALLOT, Labels, fixed_ballots
from reticent.estimators.linear.losses import (
    ROUND_OFF,
    BoundedLoss,
    automatic_regularization,
    classification_loss,
    regression_loss,
)
from reticent.estimators.linear.released import (
    Float,
    ReleasedLinear,
    ReleasedLinearClassifier,
    ReleasedLinearRegressor,
    centred,
)
from reticent.estimators.linear.rows import row_bound, rows_in_ball
from reticent.estimators.linear.solvers import (
    BallProblem,
    minimise_risk,
    one_pass,
    one_pass_error,
)
from reticent.estimators.linear.stability import erm_sensitivity, psgd_sensitivity
from reticent.estimators.progress import with_progress
from reticent.estimators.tables import (
    as_table,
    canonical_table,
    check_column_types,
    numbers_by_shard,
    unshared_copy,
)
from reticent.estimators.units import (
    Partition,
    UnitCounter,
    deal_units,
    partition_rows,
    unit_positions,
)

__all__ = [
    "NO_BALLOT",
    "ROUND_OFF",
    "BallProblem",
    "BoundedLoss",
    "Columns",
    "Float",
    "Labels",
    "Partition",
    "ReleasedLinear",
    "ReleasedLinearClassifier",
    "ReleasedLinearRegressor",
    "UnitCounter",
    "as_table",
    "automatic_regularization",
    "canonical_table",
    "centred",
    "check_column_types",
    "checked_labels",
    "checked_targets",
    "classification_loss",
    "deal_units",
    "erm_sensitivity",
    "fixed_ballots",
    "minimise_risk",
    "needs_no_validation",
    "numbers_by_shard",
    "one_pass",
    "one_pass_error",
    "partition_rows",
    "psgd_sensitivity",
    "regression_loss",
    "require_one_row_per_unit",
    "row_bound",
    "rows_in_ball",
    "two_labels",
    "unit_positions",
    "unshared_copy",
    "with_progress",
]
