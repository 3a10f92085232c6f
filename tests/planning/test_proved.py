"""What a plan calls proved holds for the model that the plan builds.

Every option with a bound is built with its own settings, and the bound is compared with
the exact expected error, or with hits of single answers, each on a dataset of its own,
by an exact test. `CHECKS` lists the methods: one that begins to state a bound fails
here until it has a check.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom, laplace

from reticent.estimators.linear.losses import classification_loss
from reticent.mechanisms import two_step_response
from reticent.planning import bounds, plan
from reticent.planning.all_methods import METHODS
from reticent.planning.classes import hypotheses_for
from reticent.prediction import ProjectedWalkClassifier
from tests.stats import assert_rate_at_most, rejects

CHECKS = {"walk", "selection", "public-cover", "rrspm", "stable-linear"}


def options(**facts):
    found = plan("classification", **facts)
    return found.facts, {o.method: o for o in found.options if o.bound is not None}


@cache
def sketches():
    """Facts and sketches of all methods that fit them, over a grid of facts."""
    base = plan("classification", 1000, 1.0).facts
    names = ("n", "epsilon", "delta", "queries", "features", "public")
    found = []
    for case in product(
        *((300, 10**5), (0.3, 4.0), (0.0, 1e-6)),
        *((1, 20, math.inf), (1, 4), (0, 500)),
    ):
        facts = replace(base, **dict(zip(names, case, strict=True)))
        for method in METHODS.values():
            sketch = method.sketch(facts)
            if sketch is not None:
                found.append((method, facts, sketch))
    return found


def test_every_method_with_a_bound_is_checked_here():
    stated = {
        method.key for method, _, sketch in sketches() if sketch.bound is not None
    }
    assert stated == CHECKS


def test_bounds_are_of_the_settings_that_are_built():
    n_bounds = 0
    for method, facts, sketch in sketches():
        if sketch.bound is None:
            continue
        n_bounds += 1
        built = method.build(sketch.settings, None, {}).get_params()
        settings = {
            name: built.get(name, value) for name, value in sketch.settings.items()
        }
        assert settings == sketch.settings
        if "hypotheses" in built:
            assert type(built["hypotheses"]) is type(hypotheses_for(facts))
        assert method.proved(facts, settings) == sketch.bound
    assert n_bounds > 80


def test_votes_of_learners_without_a_theorem_are_estimates():
    for method, _, sketch in sketches():
        if method.key in ("vote-trees", "vote-linear", "average-trees"):
            assert sketch.bound is None
            assert sketch.estimate is not None
            assert sketch.bound_says.startswith("none: ")
    found = plan("classification", 10**6, 1.0, queries=1, alpha=0.1)
    votes = [option for option in found.options if option.method == "vote-trees"]
    assert [option.rows_proved for option in votes] == [None]


# ----- the walk: exactly, for all distributions at once ------------------------------


def ones_by_position(epsilon, reach):
    """The exact probability of answering 1, by position from -reach to reach."""
    positions = np.arange(-reach, reach + 1)
    return two_step_response(positions, epsilon, bound=reach).probabilities[:, 1]


def largest_error(n, epsilon, reach):
    """The largest expected error over all distributions that a threshold fits.

    Values without ties; labels are 0 up to the threshold and 1 above it. Among the n
    rows and the query, the query has any rank with the same probability, whatever the
    number of values up to the threshold, so the error is a mean over that number. Its
    largest value is found among all of them.
    """
    ones = ones_by_position(epsilon, reach)
    steps = np.arange(n + 1)
    falling = np.cumsum(np.append(0.0, ones[reach - np.minimum(steps, reach)]))
    errors = falling[np.arange(n + 2)]
    for below in range(min(n + 1, reach) + 1):
        positions = np.minimum(steps - below, reach)
        rising = np.cumsum(np.append(0.0, (1 - ones)[positions + reach]))
        here = slice(below, below + 1 if below < reach else None)
        errors[here] += rising[n + 1 - np.arange(n + 2)[here]]
    return float(errors.max() / (n + 1))


def noisy_error(n, epsilon, reach, below, noise):
    """The exact error if `below` of n + 1 values are up to the threshold."""
    ones = ones_by_position(epsilon, reach)
    law = np.zeros(2 * reach + 1)
    law[reach] = 1.0
    total = 0.0
    for rank in range(n + 1):
        # The query has this rank, so `rank` rows stand before it.
        chance = noise if rank < below else 1 - noise
        answered = float(law @ ones)
        total += answered + chance - 2 * answered * chance
        step = noise if rank < below else 1 - noise
        up, down = np.roll(law, 1), np.roll(law, -1)
        up[0], down[-1] = 0.0, 0.0
        up[-1] += law[-1]
        down[0] += law[0]
        law = step * up + (1 - step) * down
    return total / (n + 1)


WALKS = [(200, 1.0, 1), (3_000, 1.0, 4), (10_000, 0.3, 3), (10**5, 1.0, 1)]
WALKS += [(10**5, 3.0, 1), (10**5, 5.0, 50)]


def assert_walk_within(n, epsilon, error, bound):
    reach = math.ceil(2 * math.log(2 / error) / epsilon)
    assert largest_error(n, epsilon, reach) <= bound


@pytest.mark.parametrize(("n", "epsilon", "queries"), WALKS)
def test_the_walk_errs_no_more_than_is_proved(n, epsilon, queries):
    _, found = options(n=n, epsilon=epsilon, queries=queries, features=1)
    option, model = found["walk"], found["walk"].build()
    assert option.bound < 1
    assert_walk_within(n, model.epsilon, model.error, option.bound)


def test_the_bound_of_another_walk_is_caught():
    """The bound for the accuracy that rows allow, the model with its default."""
    _, found = options(n=10**6, epsilon=1.0, queries=1, features=1)
    bound, model = found["walk"].bound, found["walk"].build()
    assert bound < 0.0004
    assert_walk_within(10**6, 1.0, model.error, bound)
    default = ProjectedWalkClassifier().error
    assert rejects(assert_walk_within, 10**6, 1.0, default, bound)


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.3, 0.45])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.97])
def test_the_walk_errs_no_more_than_is_proved_under_noise(noise, share):
    n, epsilon = 1_000, 0.7
    _, found = options(n=n, epsilon=epsilon, queries=1, features=1)
    option, model = found["walk"], found["walk"].build()
    reach = math.ceil(2 * math.log(2 / model.error) / epsilon)
    error = noisy_error(n, epsilon, reach, round(share * n), noise)
    assert error <= option.bound + math.exp(epsilon) * noise
    assert error >= noise


def test_the_exact_error_is_that_of_the_fitted_walk():
    """The computations above against real fits, over all places of the query."""
    n, epsilon = 40, 1.0
    model = ProjectedWalkClassifier(epsilon, error=0.3, classes=[0, 1])
    reach = math.ceil(2 * math.log(2 / 0.3))
    for below in (0, 1, 7, 20, 41):
        total = 0.0
        for rank in range(n + 1):
            values = np.delete(np.arange(n + 1.0), rank)[:, None]
            model.fit(values, (values[:, 0] >= below).astype(int))
            law = model.response(np.array([[float(rank)]])).probabilities
            total += law[0, 0 if rank >= below else 1]
        assert model.reach_ == reach
        exact = noisy_error(n, epsilon, reach, below, 0.0)
        assert total / (n + 1) == pytest.approx(exact, rel=1e-9)
        assert exact <= largest_error(n, epsilon, reach) + 1e-12


@pytest.mark.parametrize("masses", [(0.5, 0.5), (0.9, 0.02, 0.08), (0.3, 0.05, 0.65)])
def test_the_walk_errs_no_more_than_is_proved_on_few_points(masses):
    """Ties: all counts of rows on two or three points, the first with label 0."""
    n, epsilon = 200, 1.5
    _, found = options(n=n, epsilon=epsilon, queries=1, features=1)
    option, model = found["walk"], found["walk"].build()
    reach = math.ceil(2 * math.log(2 / model.error) / epsilon)
    ones = ones_by_position(epsilon, reach)
    first, second, *third = masses
    low = np.arange(n + 1)[:, None]
    high = np.arange(n + 1)[None, :]
    weight = binom.pmf(low, n, first) * binom.pmf(high, n - low, second / (1 - first))
    here = np.maximum(-low, -reach) + 0 * high
    next_ = np.minimum(here + high, reach)
    wrong = first * ones[here + reach] + second * (1 - ones[next_ + reach])
    if third:
        last = np.minimum(next_ + np.maximum(n - low - high, 0), reach)
        wrong = wrong + third[0] * (1 - ones[last + reach])
    assert weight.sum() == pytest.approx(1)
    assert float((weight * wrong).sum()) <= option.bound


# ----- stable linear models: exactly, for a coin -------------------------------------


@cache
def coin_losses(n, epsilon, radius):
    """Expected losses of a noisy score for either label, by the number of ones."""
    _, found = options(n=n, epsilon=epsilon, queries=1, features=1)
    model = found["stable-linear"].build(radius=radius)
    loss = classification_loss(model.loss, model.width)
    X = np.ones((n, 1))
    shares = (np.arange(20_000) + 0.5) / 20_000
    losses = np.empty((n + 1, 2))
    for ones in range(n + 1):
        model.fit(X, (np.arange(n) < ones).astype(int))
        noise = laplace.ppf(shares, scale=model.law_.noise.scale)
        scores = model.law_.scores(X[:1])[0] + noise
        for label in (0, 1):
            losses[ones, label] = loss.loss.value(
                scores, np.full_like(scores, label)
            ).mean()
    return losses


def coin_excess(n, epsilon, radius, p):
    """Exact expected loss above the best score in the ball, for a coin of chance p."""
    weights = binom.pmf(np.arange(n + 1), n, p)
    mean = weights @ coin_losses(n, epsilon, radius) @ np.array([1 - p, p])
    loss = classification_loss("hinge", 1.0)

    def at(score):
        values = loss.loss.value(np.array([score, score]), np.array([0.0, 1.0]))
        return float(values @ np.array([1 - p, p]))

    reach = 3.0 * math.sqrt(2)
    best = minimize_scalar(at, bounds=(-reach, reach), method="bounded").fun
    return mean - best


@pytest.mark.parametrize("p", [0.5, 0.55, 0.8, 1.0])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_stable_linear_models_lose_no_more_than_is_proved(epsilon, p):
    n = 40
    _, found = options(n=n, epsilon=epsilon, queries=1, features=1)
    option = found["stable-linear"]
    assert option.bound_on == "loss"
    assert coin_excess(n, epsilon, 3.0, p) <= option.bound


def test_the_bound_of_another_ball_is_caught():
    _, found = options(n=40, epsilon=4.0, queries=1, features=1)

    def within(radius):
        assert coin_excess(40, 4.0, radius, 0.55) <= found["stable-linear"].bound

    within(3.0)
    assert rejects(within, 100.0)


# ----- classes of hypotheses: one answer a dataset -----------------------------------

TRIALS = 80


def wrong_answers(option, facts, noise, seed):
    """Count wrong answers; each is to one query, on a dataset of its own.

    A threshold on the first column, at its median, is the best of the class; labels
    are flipped with probability `noise`.
    """
    rng = np.random.default_rng(seed)

    def draw(rows):
        X = rng.random((rows, facts.features))
        ones = X[:, 0] > 0.5
        return X, (ones ^ (rng.random(rows) < noise)).astype(int)

    wrong = 0
    for _ in range(TRIALS):
        X, y = draw(facts.n)
        public = {}
        if option.job == "public":
            public = {"public": draw(facts.public)[0]}
        query, label = draw(1)
        wrong += int(option.build().fit(X, y, **public).predict(query)[0] != label[0])
    return wrong


@pytest.mark.parametrize("method", ["selection", "public-cover", "rrspm"])
@pytest.mark.parametrize(
    ("features", "noise"), [(1, 0.1), pytest.param(3, 0.1, marks=pytest.mark.long)]
)
def test_classes_err_no_more_than_is_proved(method, features, noise, seed):
    facts, found = options(
        n=10_000, epsilon=4.0, queries=1, features=features, public=1_000
    )
    option = found[method]
    assert option.bound + noise < 0.9
    wrong = wrong_answers(option, facts, noise, seed)
    assert_rate_at_most(wrong, TRIALS, option.bound + noise)
    # Whoever is always wrong is caught.
    assert rejects(assert_rate_at_most, TRIALS, TRIALS, option.bound)


def test_fewer_public_rows_than_planned_are_refused():
    _, found = options(n=1_000, epsilon=1.0, queries=1, features=1, public=100)
    X = np.random.default_rng(0).random((1_000, 1))
    for method in ("public-cover", "rrspm"):
        model = found[method].build()
        assert model.n_public == found[method].settings["n_public"]
        with pytest.raises(ValueError, match="n_public"):
            model.fit(X, (X[:, 0] > 0.5).astype(int), public=X[:5] + 2)


def test_an_expected_bound_counts_its_failures():
    asked = []
    assert (
        bounds.expected(lambda failure: asked.append(failure) or 0.2) >= 0.2 + asked[0]
    )
    assert asked[0] > 0
    assert bounds.expected(lambda failure: 5.0) == 1.0
