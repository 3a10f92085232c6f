"""What can be learned for which distributions, as facts that run (S0).

Definition 13: a problem is learnable for a family of distributions if one algorithm is
consistent for each of them; privately so if that algorithm is private. The best
algorithm for a finite family is a linear program (L8), so facts about all algorithms
are checked on small cases, and facts about one algorithm by its formula.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from reticent.guarantees import ApproxDP, Scope, any_on_subsample
from reticent.hypotheses import Thresholds
from reticent.learners import PublicCoverClassifier, optimal_learner
from tests.stats import assert_rate_at_most

# Without privacy in all but name: e^-30.
UNBOUND = 30.0


def subsets(n_points, most):
    """Return hypotheses as rows of 0 and 1: all subsets with at most so many points."""
    every = range(n_points)
    chosen = [c for k in range(most + 1) for c in combinations(every, k)]
    return np.array([[float(z in c) for z in every] for c in chosen])


def missed(p, n):
    """Return the expected risk of the seen points: what was not among `n` draws."""
    return float(np.sum(p * (1 - p) ** n))


# ------------------------------------------------------------ Example 1: S0 Sec. 3.4


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_finite_subsets_are_not_learnable(n):
    """Uniform on 3n of infinitely many points: two thirds are missed at the least."""
    assert missed(np.full(3 * n, 1 / (3 * n)), n) >= 2 / 3


def test_no_learner_sees_what_was_not_drawn():
    """One draw from a uniform pair among six points, against all algorithms.

    Whatever is said beside the drawn point is a guess among the five others.
    """
    points, support = 6, 2
    hypotheses = subsets(points, support)
    losses = 1 - hypotheses.T
    family = [
        [1 / support if z in chosen else 0.0 for z in range(points)]
        for chosen in combinations(range(points), support)
    ]
    best = optimal_learner(losses, 1, UNBOUND, family=family, risk="population")
    guessed = 1 / (points - 1)
    assert best.value == pytest.approx((1 - guessed) / 2, abs=1e-6)


@pytest.mark.parametrize("values", [1, 5, 40])
def test_a_bound_on_the_number_of_values_makes_them_learnable(values):
    """The seen points miss at most N/n, whatever the distribution (Definition 13)."""
    rng = np.random.default_rng(values)
    for n in (1, 10, 500):
        worst = values / (n + 1) * (n / (n + 1)) ** n
        laws = [rng.dirichlet(np.full(values, a)) for a in (0.1, 1.0, 10.0)]
        laws.append(np.append(np.full(values - 1, 1 / (n + 1)), 0.0))
        assert max(missed(p, n) for p in laws) <= worst + 1e-12 <= values / n + 1e-12


# ------------------------------------------------------------------------ Example 2


@pytest.mark.parametrize("points", [3, 6, 12])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_private_algorithm_fits_no_continuous_sample(points, epsilon):
    """Always saying the empty set is private and consistent; no fit is.

    With equal cells in the place of a density, some private algorithm covers its one
    unit with probability e^eps/(e^eps + M - 1), hence with none at all in the end.
    """
    losses = 1 - np.eye(points)
    uniform = [np.full(points, 1 / points)]
    fitted = optimal_learner(losses, 1, epsilon, family=uniform)
    expected = (points - 1) / (math.exp(epsilon) + points - 1)
    assert fitted.value == pytest.approx(expected, abs=1e-6)
    assert fitted.value >= 1 - math.exp(epsilon) / points
    # Its population risk is that of any point: the excess is nothing.
    consistent = optimal_learner(losses, 1, epsilon, family=uniform, risk="population")
    assert consistent.value == pytest.approx(0.0, abs=1e-6)
    # Without privacy the sample itself is an empirical minimiser.
    assert optimal_learner(losses, 1, UNBOUND, family=uniform).value < 1e-6


# ------------------------------------------------------------------------ Example 6


def test_a_random_set_represents_thresholds_for_bounded_densities():
    """Uniform thresholds, drawn without data: one is near every target.

    For densities of at most c, a threshold within alpha/c of the target errs on at most
    alpha; none of k uniform ones does with probability at most (1 - alpha/c)^k.
    """
    alpha, beta, c = 0.05, 0.01, 2.0
    k = math.ceil(math.log(beta) / math.log1p(-alpha / c))
    rng = np.random.default_rng(0)
    drawn = rng.random((4000, k))
    targets = [0.0, 0.3, 0.5, 1.0]
    for target in targets:
        far = (np.abs(drawn - target) > alpha / c).all(axis=1).sum()
        # At the border one side is missing: the exact chance is (1 - alpha/c)^k.
        assert_rate_at_most(int(far), len(drawn), beta)


def test_a_random_representation_learns_its_family_and_no_other():
    rng = np.random.default_rng(1)
    representation = rng.random((120, 1))
    n, epsilon, target = 4000, 1.0, 0.37

    def error(x, cut):
        y = (x > cut).astype(int)
        model = PublicCoverClassifier(Thresholds(), epsilon, classes=[0, 1])
        law = model.fit(x[:, None], y, public=representation)
        candidates = law.candidates(representation)
        rows = x[:, None]
        said = [Thresholds().predict(h, rows) for h in candidates.projection]
        mistakes = (np.array(said) != y).mean(axis=1)
        chances = law.response(x[:, None], y, public=representation).probabilities[0]
        return float(chances @ mistakes)

    inside = error(np.linspace(0, 1, n), target)
    assert inside <= 0.05 + 2 * math.log(121) / (epsilon * n)
    # All mass in a cell that the representation does not cut: a density of 10^6.
    narrow = target + np.linspace(-5e-7, 5e-7, n)
    assert not ((representation > narrow[0]) & (representation < narrow[-1])).any()
    assert error(narrow, target) > 0.4


# ------------------------------------------------------------------- Proposition 26


def test_a_large_delta_makes_everything_learnable():
    """Any learner on a share delta of the units: (0, delta)-DP, and its own rate."""
    rates = []
    for n in (10**2, 10**4, 10**6):
        delta = n**-0.5  # omega(1/n)
        kept = round(n * delta)
        certificate = any_on_subsample(drawn=kept, n=n, scope=Scope.MODEL.value)
        assert certificate.guarantee == ApproxDP(0.0, kept / n)
        rates.append(missed(np.full(8, 1 / 8), kept))
    assert rates[0] < 0.3
    assert rates[-1] < 1e-50


@pytest.mark.parametrize("points", [4, 10])
@pytest.mark.parametrize("delta", [0.0, 0.01, 0.1])
def test_a_small_delta_does_not(points, delta):
    """On a packing of K datasets success is at most e^{n eps}/K + delta_n (G7).

    Constant datasets, one per point: all n units differ, and the sets of good outputs
    are disjoint. With delta = o(e^{-n eps}) more points mean no success at all.
    """
    epsilon = 0.5
    losses = 1 - np.eye(points)
    best = optimal_learner(losses, 1, epsilon, delta=delta)
    growth = math.exp(epsilon)
    success = (growth + delta * (points - 1)) / (growth + points - 1)
    assert 1 - best.value == pytest.approx(success, abs=1e-6)
    assert success <= growth / points + delta
    if points < 10:
        two = optimal_learner(losses, 2, epsilon, delta=delta)
        constant = (two.datasets == 2).any(axis=1)
        law, data = two.law[constant], two.datasets[constant]
        reached = (law * (data == 2)).sum(axis=1).mean()
        assert reached <= growth**2 / points + delta * (1 + growth) + 1e-9
