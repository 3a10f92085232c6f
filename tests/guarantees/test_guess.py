"""What a promise means to one person: bounds that worst pairs of laws reach."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from reticent.errors import RuleError
from reticent.guarantees import (
    ZCDP,
    AddRemove,
    ApproxDP,
    BoundedRange,
    Budget,
    GaussianDP,
    PureDP,
    ReplaceOne,
    Scope,
    Sensitivity,
    ZeroOut,
    best_guess,
    claim,
    in_plain_words,
)


def right_guesses(p, q):
    """The best guess between two equally likely laws is the likelier one."""
    return np.maximum(p, q).sum() / 2


def worst_pair(epsilon, delta):
    """Two laws that are (epsilon, delta)-close and as far apart as that allows."""
    high = (1 - delta) / (1 + math.exp(-epsilon))
    low = 1 - delta - high
    return np.array([delta, high, low, 0.0]), np.array([0.0, low, high, delta])


@pytest.mark.parametrize("epsilon", [1e-12, 0.01, 0.25, 1.0, 8.0, 50.0, 2000.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1, 0.9])
def test_the_worst_pair_reaches_the_bound_and_does_not_pass_it(epsilon, delta):
    seen = right_guesses(*worst_pair(epsilon, delta))
    promised = best_guess(ApproxDP(epsilon, delta))
    assert seen <= promised <= seen + 1e-12
    assert promised == best_guess(Budget(epsilon, delta))
    if delta == 0:
        assert promised == best_guess(PureDP(epsilon))
    elif delta == 0.1 and epsilon <= 1:
        # Leaving delta out would promise too much.
        assert seen > best_guess(PureDP(epsilon))


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 20.0])
def test_a_range_is_worst_if_it_is_centred(epsilon):
    found = []
    for top in np.linspace(0, epsilon, 101)[1:-1]:  # log-ratios in [top - eps, top]
        high, low = math.exp(top), math.exp(top - epsilon)
        q = (1 - low) / (high - low)
        found.append(right_guesses(np.array([high * q, low * (1 - q)]), [q, 1 - q]))
    promised = best_guess(BoundedRange(epsilon))
    assert max(found) <= promised <= max(found) + 1e-9
    assert promised < best_guess(PureDP(epsilon))


@pytest.mark.parametrize("sigma", [0.1, 1.0, 3.0, 100.0])
def test_gaussian_noise_keeps_what_zcdp_and_gdp_say(sigma):
    seen = (1 + math.erf(1 / (sigma * math.sqrt(8)))) / 2
    assert seen <= best_guess(GaussianDP(1 / sigma)) <= seen + 1e-12
    assert seen <= best_guess(ZCDP(1 / (2 * sigma**2)))
    assert best_guess(ZCDP(1 / (20 * sigma**2))) < max(seen, 0.999)


def test_the_sentence_rounds_up_and_names_whom_it_is_about():
    said = in_plain_words(PureDP(0.25), about="one person")
    assert "at most 57 times in 100" in said  # 56.2 rounded up
    assert "one person" in said
    assert "at most 51 times" in in_plain_words(PureDP(1e-9))


def test_a_promise_that_protects_hardly_anything_says_so():
    assert "hardly anything" in in_plain_words(Budget(50, 1e-6))
    assert not re.search("at most", in_plain_words(Budget(50, 1e-6)))


def test_a_promise_about_a_group_is_not_told_as_one_about_a_person():
    many = claim(PureDP(1.0), ReplaceOne(9, group=3), Scope.MODEL, statement="a test")
    assert "3 units together" in in_plain_words(many, about="one person")
    assert "one person" not in in_plain_words(many, about="one person")


def laplace(shift, scale=1.0):
    """The law of a sum with Laplace noise, on a fine grid."""
    mass = np.exp(-np.abs(np.linspace(-60, 60, 240_001) - shift) / scale)
    return mass / mass.sum()


def test_leaving_a_unit_out_is_not_told_as_two_facts_about_it():
    """A unit adds 1, -1 or nothing to a sum with Laplace noise of scale 1.

    Zeroing it is 1-DP. Two facts about it are guessed right more often than 1-DP says.
    """
    one, other, nothing = laplace(1.0), laplace(-1.0), laplace(0.0)
    promised = best_guess(PureDP(1.0))
    assert right_guesses(one, nothing) <= promised
    assert right_guesses(one, other) > promised + 0.05
    for relation in (ZeroOut(9), AddRemove()):
        own = claim(PureDP(1.0), relation, Scope.MODEL, statement="a test")
        said = in_plain_words(own, about="one person")
        assert "facts" not in said
        assert "whether one person contributed at all" in said
        budget = in_plain_words(Budget(1.0), about="one person", relation=relation.name)
        assert budget == said
    several = in_plain_words(Budget(1.0), relation="zero-out/3")
    assert "whether 3 units together contributed" in several
    replaced = claim(PureDP(1.0), ReplaceOne(9), Scope.MODEL, statement="a test")
    assert "two equally likely facts" in in_plain_words(replaced)
    # What a certificate says itself counts.
    assert in_plain_words(replaced, relation="zero-out") == in_plain_words(replaced)


def test_what_is_no_privacy_promise_is_refused():
    with pytest.raises(RuleError, match="does not bound"):
        best_guess(Sensitivity(l1=1.0, l2=1.0))
