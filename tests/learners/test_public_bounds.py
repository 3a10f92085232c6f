"""The excess bound of regularised minimisation: each of its parts, by itself."""

import math

import numpy as np
import pytest

from reticent.learners.public.bounds import regularized_excess_at_most

# Facts that make all parts but the one that is looked at vanish.
NO_SPEND = {
    "n": 10**300,
    "m": 10**300,
    "dimension": 1,
    "eta": 1e-300,
    "noise_scale": 0.0,
    "reach": 1.0,
    "slope": 1e-9,
    "smoothness": 1.0,
}


def excess(**facts):
    return regularized_excess_at_most(**{**NO_SPEND, **facts})


@pytest.mark.parametrize("reach", [0.5, 2.0])
def test_the_penalty_counts_at_the_reach(reach):
    # eta |f|_m^2 of the best function, which nowhere exceeds the reach.
    assert excess(eta=0.1, reach=reach) == pytest.approx(0.1 * reach**2)


@pytest.mark.parametrize("n", [4, 900])
def test_the_sample_counts_twice_its_rademacher_complexity(n):
    # Linear functions of norm at most W on rows of norm at most B, reach = W B: the
    # complexity W E|sum s_i x_i| / n is largest for rows of full length, where it is at
    # most reach / sqrt(n); attained for n rows at right angles.
    rows = np.eye(n)
    signs = np.ones(n)  # by symmetry every choice of signs gives the same norm
    reach, slope = 0.5, 0.25
    complexity = reach * np.linalg.norm(signs @ rows) / n
    assert excess(n=n, reach=reach, slope=slope) == pytest.approx(
        2 * slope * complexity, rel=1e-6
    )


@pytest.mark.parametrize(("m", "dimension"), [(1000, 3), (50, 10)])
@pytest.mark.parametrize("sigma", [1.0, 0.25])
def test_the_noise_counts_twice_in_the_span_and_over_the_points(m, dimension, sigma):
    slope, scale, reach = 0.01, 0.7, 1.5
    # Noise in the span of the features: a projection of that rank, so its mean square
    # over the points is s^2 d / m; once for itself, once for the ridge of the
    # projection, which was chosen to cost as much.
    projection = np.zeros((m, m))
    projection[:dimension, :dimension] = np.eye(dimension)
    span = scale**2 * np.trace(projection) / m
    # From points to their distribution: (2 reach)^2 / sqrt(m), because functions
    # differ by twice the reach and second moments err by 1 / sqrt(m) in the mean.
    points = (2 * reach) ** 2 / math.sqrt(m)
    found = excess(
        m=m, dimension=dimension, noise_scale=scale, reach=reach, slope=slope,
        smoothness=sigma,
    )  # fmt: skip
    expected = slope * math.sqrt((2 * span + points) / sigma)
    assert found == pytest.approx(expected, rel=1e-6)


def test_the_parts_add_up_to_at_most_the_range_of_the_loss():
    facts = {
        "n": 10**4, "m": 10**6, "dimension": 4, "eta": 0.01, "noise_scale": 2.0,
        "reach": 1.0, "slope": 0.5, "smoothness": 0.5,
    }  # fmt: skip
    # By hand: 0.01 + 2 * 0.5 / 100 + 0.5 sqrt((2 * 4 * 4e-6 + 4e-3) / 0.5).
    expected = 0.01 + 0.01 + 0.5 * math.sqrt(0.008064)
    assert regularized_excess_at_most(**facts) == pytest.approx(expected, rel=1e-12)
    assert regularized_excess_at_most(**{**facts, "m": 1}) == 1.0
