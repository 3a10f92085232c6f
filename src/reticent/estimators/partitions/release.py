"""The release of a table: how its budget is shared out, and what is learned."""

from __future__ import annotations

from typing import Any

from reticent.estimators.partitions.codes import CodedColumns
from reticent.estimators.partitions.descent import (
    PartitionPlan,
    fit_prior,
    signal_of,
    trees_for,
)
from reticent.estimators.partitions.model import PartitionModel
from reticent.estimators.partitions.relevance import noisy_relevance
from reticent.estimators.partitions.rounds import RoundBudget, Rounds
from reticent.estimators.partitions.rows import UnitRows
from reticent.estimators.partitions.trees import Shares

#: The shares of a unit's budget that a release takes: for the spread of columns, and
#: for everything else. A little is left because costs are rounded up.
SPREAD_SHARE, REST_SHARE = 0.03, 0.96
# Slopes of numbers reach further in a release than where a prior is learned.
_NUMBERS_PACE = 0.8
# The share for the relevance of columns.
_RELEVANCE_SHARE = 0.04


def fit_release(
    rows: UnitRows,
    columns: CodedColumns,
    shares: Shares,
    rounds: Rounds,
    *,
    logistic: bool,
    share: float,
    pace: float = 1.0,
    **asked: Any,
) -> PartitionModel:
    """Learn a model that answers alone.

    Parameters
    ----------
    rows : UnitRows
        The rows.
    columns : CodedColumns
        The columns.
    shares : tuple
        How rows are spread over columns; released.
    rounds : Rounds
        Whose noise is added, and who pays.
    logistic : bool
        Whether targets are labels.
    share : float
        What each unit pays at most, as a share of its budget; above 0.04.
    pace : float, default=1.0
        How long gradients are followed, in terms of the usual time.
    **asked
        What else `PartitionPlan.of` is asked for.
    """
    # Numbers to predict gained nothing from weights of columns.
    relevance, steps = None, share
    if logistic:
        steps = share - _RELEVANCE_SHARE
        relevance = noisy_relevance(
            rows, columns, shares, rounds, share=_RELEVANCE_SHARE, logistic=logistic
        )
    plan = PartitionPlan.of(
        columns,
        shares,
        rounds,
        n_units=rows.n_units,
        share=steps,
        relevance=relevance,
        n_trees=trees_for(rows.n_units),
        **asked,
    )
    return fit_prior(
        rows,
        plan,
        rounds,
        logistic=logistic,
        share=steps,
        pace=pace if logistic else _NUMBERS_PACE * pace,
        level=True,
    )


def release_signal(n_units: int, budget: RoundBudget) -> float:
    """Return how much clearer than noise a sum over all units is in a release."""
    return signal_of(n_units, budget, REST_SHARE - _RELEVANCE_SHARE)
