"""The error bound of RRSPM: each of its parts computed a second time."""

import math

import numpy as np
import pytest

from reticent.hypotheses import FiniteClass, Intervals, Stumps, Thresholds
from reticent.learners.public.separator_bounds import (
    ExcessErrorBound,
    _largest_sum,
    rrspm_error_at_most,
)
from reticent.learners.public.teaching_sets import most_labelings


def bound(hypotheses=None, **changes):
    facts = {"n": 10_000, "m": 200, "epsilon": 2.0, "failure": 0.04}
    return rrspm_error_at_most(hypotheses or Thresholds("up"), **{**facts, **changes})


def test_sampling_is_vapnik_s_and_hoeffding_s():
    # A quarter of the failure each; 2n + 1 labelings of 2n points by thresholds.
    vapnik = math.sqrt(8 * math.log(4 * 20_001 / 0.01) / 10_000)
    hoeffding = math.sqrt(math.log(100) / 20_000)
    assert bound().sampling == pytest.approx(vapnik + hoeffding)


@pytest.mark.parametrize("sigma", [1.0, 0.25])
def test_disagreement_is_that_of_a_net(sigma):
    # 2 labelings^2 2^(-a m / 2) = 0.01, solved for a; the density ratio on top.
    a = 2 / 200 * math.log2(2 * 401**2 / 0.01)
    assert bound(sigma=sigma).disagreement == pytest.approx(a / sigma)


@pytest.mark.parametrize(
    ("hypotheses", "settings", "taught", "labelings"),
    [
        (Thresholds("up"), {}, 2, 201),
        (Thresholds("up"), {"m": 1}, 1, 2),
        (Thresholds("up"), {"scale_by": "points"}, 200, 201),
        (Intervals(1, start="0"), {}, 200, None),
    ],
)
def test_noise_is_chernoff_s_over_all_labelings(
    hypotheses, settings, taught, labelings
):
    found = bound(hypotheses, **settings).noise
    m = settings.get("m", 200)
    if labelings is None:
        labelings = hypotheses.growth(m)
    scale = 1.001 * 2 * taught / 2.0
    exponent = math.log(labelings / 0.01)
    rates = np.linspace(1e-6, math.sqrt(0.5), 200_001)  # lambda b
    best = ((exponent + 2 * m * rates**2) / rates).min() * scale
    assert found == pytest.approx(best / 10_000, rel=1e-6)


def test_stumps_are_taught_by_two_points_a_feature():
    one, three = (bound(Stumps(), n_features=width).noise for width in (1, 3))
    labelings = [math.log(Stumps().on(width).growth(200) / 0.01) for width in (1, 3)]
    sums = [_largest_sum(200, 1.0, exponent) for exponent in labelings]
    assert three / one == pytest.approx(3 * sums[1] / sums[0])


@pytest.mark.parametrize("count", [1, 50])
@pytest.mark.parametrize("exponent", [0.5, 20.0])
def test_sums_of_laplace_noise_use_the_best_rate_that_is_allowed(count, exponent):
    rates = np.linspace(1e-6, math.sqrt(0.5), 200_001)
    best = ((exponent + 2 * count * rates**2) / rates).min()
    assert _largest_sum(count, 3.0, exponent) == pytest.approx(3 * best, rel=1e-6)


def test_the_parts_add_up_to_one_at_most():
    assert ExcessErrorBound(0.1, 0.2, 0.4).total == pytest.approx(0.7)
    assert ExcessErrorBound(0.5, 0.5, 0.4).total == 1.0


def test_a_list_of_hypotheses_has_no_more_labelings_than_points_allow():
    family = FiniteClass.from_table(
        [[0], [1]], [[0, 0], [0, 1], [1, 0], [1, 1], [0, 1]]
    )
    counts = [most_labelings(family, m) for m in (1, 2, 3)]
    assert counts == [2, 4, min(len(family), 8)]
