"""G7: how many poisoned units an answer withstands, against the laws of real votes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from reticent.errors import RuleError
from reticent.guarantees import (
    ZCDP,
    AddRemove,
    ApproxDP,
    BoundedRange,
    GaussianDP,
    PureDP,
    Scope,
    ZeroOut,
    chance_after_poisoning,
    claim,
    group,
    poisoned_units,
)
from reticent.mechanisms import (
    geometric_vote,
    geometric_vote_certificate,
    soft_vote,
    soft_vote_certificate,
)
from tests.guarantees.cases import answer

VOTES = [
    (soft_vote, soft_vote_certificate),
    (geometric_vote, geometric_vote_certificate),
]


@pytest.mark.parametrize(("law", "certify"), VOTES, ids=["soft", "geometric"])
@pytest.mark.parametrize("epsilon", [0.1, 0.7])
@pytest.mark.parametrize("voters", [9, 20])
def test_votes_withstand_what_is_promised(law, certify, epsilon, voters):
    """Each poisoned unit moves one vote: the exact law after every number of them."""
    certificate = certify(n=500, epsilon=epsilon)
    chances = {
        ones: float(law(np.array([[voters - ones, ones]]), epsilon).probabilities[0, 1])
        for ones in range(voters + 1)
    }
    tight = 0.0
    for clean in range(voters + 1):
        for poisoned in range(clean + 1):
            bound = chance_after_poisoning(certificate, chances[clean], poisoned)
            assert bound <= chances[clean - poisoned] * (1 + 1e-12)
            tight = max(tight, bound / chances[clean - poisoned] if poisoned else 0)
        kept = poisoned_units(certificate, chances[clean])
        for k in range(1, min(kept, clean) + 1):
            assert chances[clean - k] >= 0.5 - 1e-12
    assert tight > 0.999


def test_a_bound_for_one_unit_is_false_for_two():
    """A control: without G7 the vote would seem to withstand more."""
    certificate = soft_vote_certificate(n=500, epsilon=0.7)
    chances = soft_vote(np.array([[2, 7], [4, 5]]), 0.7).probabilities[:, 1]
    assert chance_after_poisoning(certificate, chances[0], 1) > chances[1]
    assert chance_after_poisoning(certificate, chances[0], 2) <= chances[1]


@pytest.mark.parametrize("relation", [ZeroOut(500), AddRemove()], ids=str)
def test_replacing_a_unit_is_two_steps_where_neighbours_lack_one(relation):
    """The sign of a sum of 1 and -1 with Gaussian noise: a replaced unit moves it by 2.

    Leaving a unit out moves it by 1.
    """
    sigma, clean = 10.0, 20
    own = claim(GaussianDP(1 / sigma), relation, Scope.ANSWER, statement="a test")
    chances = norm.cdf((clean - 2 * np.arange(11)) / sigma)
    for poisoned, chance in enumerate(chances):
        found = chance_after_poisoning(own, chances[0], poisoned)
        assert chance * (1 - 1e-9) <= found <= chance * (1 + 1e-12)
    assert poisoned_units(own, chances[0]) in (9, 10)


@pytest.mark.parametrize("kind", [PureDP(0.2), ApproxDP(0.2, 1e-4), GaussianDP(0.2)])
def test_the_bound_is_that_of_the_groups_worst_pair(kind):
    certificate, chance = answer(kind, n=50), 0.9
    for units in (1, 2, 5):
        found = chance_after_poisoning(certificate, chance, units)
        promise = group(certificate, size=units).guarantee
        if isinstance(kind, GaussianDP):
            expected = norm.cdf(norm.ppf(chance) - promise.mu)
        else:
            # The smallest q with p <= e^e q + d and 1 - q <= e^e (1 - p) + d.
            delta = getattr(promise, "delta", 0.0)
            q = np.linspace(0, 1, 200_001)
            growth = math.exp(promise.epsilon)
            allowed = (chance <= growth * q + delta) & (
                1 - q <= growth * (1 - chance) + delta
            )
            expected = q[allowed][0]
        assert found == pytest.approx(expected, abs=1e-5)
        assert found <= expected + 1e-9


def test_how_many_units_are_withstood():
    certificate = answer(BoundedRange(0.1), n=1000)
    # The log-odds fall by a tenth per unit: ln(0.95/0.05) = 2.944.
    assert poisoned_units(certificate, 0.95) == 29
    assert poisoned_units(certificate, 0.95, least=0.9) == 7
    assert poisoned_units(certificate, 0.4) == 0
    assert poisoned_units(certificate, 0.51) == 0
    assert poisoned_units(answer(PureDP(0.0), n=7), 0.9) == 7
    assert poisoned_units(answer(ApproxDP(0.1, 0.2), n=50), 0.95) == 2
    assert chance_after_poisoning(certificate, 1.0, 3) == pytest.approx(1.0)
    assert chance_after_poisoning(certificate, 0.0, 3) == 0.0
    assert chance_after_poisoning(answer(PureDP(900.0)), 0.9, 3) == 0.0


def test_mistakes_are_named():
    certificate = answer(PureDP(0.1))
    with pytest.raises(RuleError, match="chance"):
        chance_after_poisoning(certificate, 1.2, 1)
    with pytest.raises(RuleError, match="least"):
        poisoned_units(certificate, 0.9, least=0.0)
    with pytest.raises(RuleError, match="zcdp_to_approx"):
        chance_after_poisoning(answer(ZCDP(0.1)), 0.9, 1)
