"""Numbers that rules carry although no later step of today reads them.

Somebody who adds Gaussian noise to these sums, or composes these runs, will read them.
"""

from __future__ import annotations

import pytest

from reticent.evaluation.sums import unit_counts, unit_sums
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    GaussianDP,
    PureDP,
    ReplaceOne,
    Scope,
    claim,
)
from reticent.learners.search.rules import one_run
from reticent.learners.tabular.pure import leaf_sums


def test_sums_move_no_further_in_l2_than_in_l1():
    sums = unit_sums(n=9, steps=3, dimension=2).guarantee
    assert (sums.l1, sums.l2) == (6.0, 6.0)
    counts = unit_counts(n=9, dimension=4).guarantee
    assert (counts.l1, counts.l2) == (2.0, 2.0)
    leaves = leaf_sums(n=9, bound=1.5).guarantee
    assert (leaves.l1, leaves.l2) == (3.0, 3.0)


@pytest.mark.parametrize(
    ("promised", "level", "slack", "most"),
    [
        (PureDP(0.5), 1.0, 0.0, PureDP(1.0)),
        (ApproxDP(0.5, 1e-7), 1.0, 1e-6, ApproxDP(1.0, 1e-6)),
        (ZCDP(0.1), 0.3, 0.0, ZCDP(0.3)),
        (GaussianDP(0.1), 0.3, 0.0, GaussianDP(0.3)),
    ],
)
def test_a_run_promises_what_all_runs_may_cost(promised, level, slack, most):
    premise = claim(promised, ReplaceOne(9), Scope.MODEL, statement="a test says so")
    assert one_run(premise, level=level, slack=slack).guarantee == most
