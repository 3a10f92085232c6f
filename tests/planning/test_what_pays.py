"""Plans take as much as pays; a bound is said only if it says something."""

import itertools
import re

import numpy as np
import pytest

from reticent.hypotheses import Thresholds
from reticent.planning import bounds, plan


def cover_of(found):
    (option,) = [each for each in found.options if each.method == "public-cover"]
    return option


@pytest.mark.parametrize("public", [30, 1000, 10**6])
@pytest.mark.parametrize(("n", "epsilon"), [(20_000, 1.0), (10**6, 0.1)])
def test_a_cover_uses_as_many_public_points_as_pay(n, epsilon, public):
    """Against a finer scan of numbers of points."""
    found = plan("classification", n=n, epsilon=epsilon, features=1, public=public)
    option = cover_of(found)
    used = option.settings["n_public"]
    assert used <= public

    def bound(points):
        return bounds.expected(
            lambda failure: bounds.cover_bound(
                Thresholds(), n, points, option.settings["epsilon"], failure
            )
        )

    tried = {int(m) for m in np.geomspace(20, min(public, 10**6), 25)} | {public}
    best = min(bound(m) for m in tried if Thresholds().growth(m) <= 10**6)
    assert option.bound == pytest.approx(bound(used))
    assert option.bound <= 1.05 * best


def test_no_plan_prints_a_lower_bound_of_nothing():
    said = 0
    for n, epsilon, features in itertools.product(
        (100, 10**4, 10**9), (0.1, 4), (1, 30)
    ):
        text = str(plan("classification", n=n, epsilon=epsilon, features=features))
        assert not re.search(r"below 0(\.0+)? %", text), (n, epsilon, features)
        said += "No method can guarantee" in text
    assert said >= 4  # not vacuous
