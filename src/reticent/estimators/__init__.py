"""Shared parts of predictors and learners: tables, units, labels, linear models.

Internal: the rooms above add the privacy.
"""

from __future__ import annotations

from reticent.estimators.columns import Columns
from reticent.estimators.expectation import (
    LINEAR,
    PURE_LINEAR,
    REFUSED,
    TABLE,
    WARNED,
    ReleaseExpectation,
    without_noise,
)
from reticent.estimators.inputs import (
    check_label_type,
    checked_labels,
    checked_targets,
    needs_no_validation,
    require_one_row_per_unit,
    two_labels,
)
from reticent.estimators.labels import NO_BALLOT, Labels, fixed_ballots
from reticent.estimators.linear.base import (
    POSITIVE,
    POSITIVE_OR_AUTO,
    LinearClassifier,
    LinearExamples,
    LinearModel,
    LinearRegressor,
    is_auto,
)
from reticent.estimators.linear.losses import (
    ROUND_OFF,
    BoundedLoss,
    automatic_regularization,
    regression_loss,
)
from reticent.estimators.linear.released import (
    BallExamples,
    CertifiedCoefficients,
    LinearFacts,
    ReleasedLinear,
    ReleasedLinearClassifier,
    ReleasedLinearRegressor,
)
from reticent.estimators.linear.rows import (
    CONSTANT,
    LONGEST_ROW,
    bounded_rows,
    row_bound,
    rows_in_ball,
    unit_weights,
    with_constant,
)
from reticent.estimators.linear.solvers import (
    BallProblem,
    Risk,
    minimise_risk,
    one_pass,
    one_pass_error,
)
from reticent.estimators.linear.stability import erm_sensitivity, psgd_sensitivity
from reticent.estimators.linear.targets import TargetRange, check_bounds
from reticent.estimators.partitions.codes import (
    STEPS,
    CodedColumn,
    CodedColumns,
    Codes,
    ColumnFacts,
)
from reticent.estimators.partitions.declared_ranges import warn_of_clipped
from reticent.estimators.partitions.descent import (
    TREE_SHARE,
    PartitionPlan,
    fit_prior,
    signal_of,
)
from reticent.estimators.partitions.features import additive_maps
from reticent.estimators.partitions.model import PartitionModel
from reticent.estimators.partitions.release import (
    REST_SHARE,
    SPREAD_SHARE,
    fit_release,
    release_signal,
)
from reticent.estimators.partitions.relevance import noisy_relevance
from reticent.estimators.partitions.rounds import RELATIONS, RoundBudget, Rounds
from reticent.estimators.partitions.rows import UnitRows
from reticent.estimators.partitions.shares import noisy_label_shares, noisy_shares
from reticent.estimators.partitions.sums import part_scores
from reticent.estimators.partitions.trees import (
    Partitions,
    Shares,
    random_trees,
    single_columns,
)
from reticent.estimators.progress import with_progress
from reticent.estimators.tables import (
    as_table,
    canonical_table,
    check_column_types,
    numbers_by_shard,
    unshared_copy,
)
from reticent.estimators.unit_ids import unit_key
from reticent.estimators.units import (
    Partition,
    UnitCounter,
    UnitIds,
    deal_units,
    partition_rows,
    unit_positions,
)

__all__ = [
    "CONSTANT",
    "LINEAR",
    "LONGEST_ROW",
    "NO_BALLOT",
    "POSITIVE",
    "POSITIVE_OR_AUTO",
    "PURE_LINEAR",
    "REFUSED",
    "RELATIONS",
    "REST_SHARE",
    "ROUND_OFF",
    "SPREAD_SHARE",
    "STEPS",
    "TABLE",
    "TREE_SHARE",
    "WARNED",
    "BallExamples",
    "BallProblem",
    "BoundedLoss",
    "CertifiedCoefficients",
    "CodedColumn",
    "CodedColumns",
    "Codes",
    "ColumnFacts",
    "Columns",
    "Labels",
    "LinearClassifier",
    "LinearExamples",
    "LinearFacts",
    "LinearModel",
    "LinearRegressor",
    "Partition",
    "PartitionModel",
    "PartitionPlan",
    "Partitions",
    "ReleaseExpectation",
    "ReleasedLinear",
    "ReleasedLinearClassifier",
    "ReleasedLinearRegressor",
    "Risk",
    "RoundBudget",
    "Rounds",
    "Shares",
    "TargetRange",
    "UnitCounter",
    "UnitIds",
    "UnitRows",
    "additive_maps",
    "as_table",
    "automatic_regularization",
    "bounded_rows",
    "canonical_table",
    "check_bounds",
    "check_column_types",
    "check_label_type",
    "checked_labels",
    "checked_targets",
    "deal_units",
    "erm_sensitivity",
    "fit_prior",
    "fit_release",
    "fixed_ballots",
    "is_auto",
    "minimise_risk",
    "needs_no_validation",
    "noisy_label_shares",
    "noisy_relevance",
    "noisy_shares",
    "numbers_by_shard",
    "one_pass",
    "one_pass_error",
    "part_scores",
    "partition_rows",
    "psgd_sensitivity",
    "random_trees",
    "regression_loss",
    "release_signal",
    "require_one_row_per_unit",
    "row_bound",
    "rows_in_ball",
    "signal_of",
    "single_columns",
    "two_labels",
    "unit_key",
    "unit_positions",
    "unit_weights",
    "unshared_copy",
    "warn_of_clipped",
    "with_constant",
    "with_progress",
    "without_noise",
]
