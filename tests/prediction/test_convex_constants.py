"""Constants of stable linear models: what one unit moves, and when it is proved."""

import math

import pytest

from reticent.errors import RuleError
from reticent.estimators.linear.stability import psgd_sensitivity


def moved(**changes):
    facts = {"n": 400, "lipschitz": 0.5, "feature_bound": 3.0, "radius": 2.0}
    return psgd_sensitivity(**{**facts, "smoothness": 0.25, **changes}).guarantee.l1


def test_one_pass_moves_by_twice_its_step():
    # Steps of R/(L sqrt n) against gradients of norm L, forwards instead of backwards.
    assert moved() == pytest.approx(2 * 2.0 / 20 * 3.0, rel=1e-12)
    assert moved(rounding=0.01) == pytest.approx(0.6 + 0.02, rel=1e-12)
    # Never further than across the ball.
    assert moved(n=1, smoothness=0.0) == pytest.approx(2 * 2.0 * 3.0, rel=1e-12)


def test_one_pass_needs_steps_that_do_not_expand():
    # Smoothness of at most two over the step, 2 L sqrt(n) / R.
    limit = 2 * 0.5 * math.sqrt(400) / 2.0
    assert moved(smoothness=limit * (1 - 1e-9)) == moved()
    with pytest.raises(RuleError, match="smoothness"):
        moved(smoothness=limit * (1 + 1e-9))
