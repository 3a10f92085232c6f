"""Choosing on a share of the budget, then fitting with the rest (rule G26-fit)."""

import math

import mpmath
import numpy as np
import pytest

from reticent.errors import InvalidParameterError, RuleError
from reticent.evaluation import UNIT_STEPS
from reticent.guarantees import (
    Budget,
    GaussianDP,
    ReplaceOne,
    Scope,
    claim,
    gaussian_noise_gdp,
    gaussian_ratio,
    recheck,
)
from reticent.learners import (
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    ObjectivePerturbationClassifier,
    PrivateSearch,
    PrivateTabularClassifier,
)
from reticent.learners.search.choice import ChoicePlan, clearly_best
from reticent.learners.search.rules import choose_then_fit, trial_scores

BUDGET = Budget(1.0, 1e-6)
GRADIENT = NoisyGradientClassifier(classes=[False, True], steps=5)
ROWS = np.random.default_rng(0).uniform(-0.7, 0.7, size=(400, 2))
YES = ROWS[:, 0] > 0


def part(mu, n, scope=Scope.MODEL):
    return claim(GaussianDP(mu), ReplaceOne(n), scope, statement="a test says so")


def moved_by(unit, trained, scored, sigmas):
    """Return the mu of all that is released, if each step tells sums of bits.

    Two trials on the units of one part, their scores on the other, a fit on all. The
    law is one Gaussian vector, whose mu is the norm of how far its means move.
    """
    trial, score, fit = sigmas
    shifts = [1 / trial] * 2 * (unit in trained) + [1 / score] * 2 * (unit in scored)
    return math.hypot(*shifts, 1 / fit)


@pytest.mark.parametrize("sigmas", [(2.0, 5.0, 3.0), (5.0, 2.0, 3.0), (4.0, 4.0, 1.0)])
def test_the_rule_is_what_the_joint_law_says(sigmas):
    trial, score, fit = sigmas
    found = choose_then_fit(
        part(math.sqrt(2) / trial, 2), part(math.sqrt(2) / score, 1), part(1 / fit, 3)
    )
    promised = found.guarantee.mu
    worst = max(moved_by(unit, {0, 1}, {2}, sigmas) for unit in range(3))
    assert worst * (1 - 1e-12) <= promised <= worst * (1 + 1e-12)
    assert found.relation == ReplaceOne(3)
    # If the scores came from the units of training, the promise would be false.
    assert moved_by(0, {0, 1}, {0, 1}, sigmas) > promised * 1.01


def test_parts_that_are_not_disjoint_are_refused():
    with pytest.raises(RuleError, match="disjoint parts"):
        choose_then_fit(part(0.1, 3), part(0.1, 1), part(0.1, 3))
    with pytest.raises(RuleError, match="a model that is released"):
        choose_then_fit(part(0.1, 2), part(0.1, 1), part(0.1, 3, Scope.ANSWER))
    two = claim(GaussianDP(0.1), ReplaceOne(2, group=2), Scope.MODEL, statement="test")
    with pytest.raises(RuleError, match="one replaced unit"):
        choose_then_fit(two, part(0.1, 1), part(0.1, 3))


def test_scores_move_by_the_root_of_the_number_of_trials():
    moved = trial_scores(n=7, steps=3, trials=5).guarantee
    assert moved.l1 == 15
    exact = 3 * mpmath.sqrt(5)
    assert exact <= moved.l2 <= exact * (1 + 1e-15)


@pytest.mark.parametrize("share", [0.01, 0.2, 0.9])
@pytest.mark.parametrize("trials", [1, 13])
def test_the_plan_spends_the_budget_and_no_more(share, trials):
    plan = ChoicePlan.of(BUDGET, share, trials)
    each, rest = plan.trial.promise.mu, plan.fit.promise.mu
    total = gaussian_ratio(1.0, 1e-6)
    assert each * math.sqrt(trials) <= plan.choosing
    assert total * (1 - 1e-8) <= math.hypot(plan.choosing, rest) <= total
    assert plan.choosing == pytest.approx(math.sqrt(share) * total, rel=1e-8)


@pytest.mark.parametrize(
    ("learner", "grid"),
    [
        (GRADIENT, {"steps": [5, 10], "clip": [0.5, 1.0]}),
        (
            PrivateTabularClassifier(classes=[False, True]),
            {"detail": [1.0, 3.0], "interactions": [0.0, 0.45]},
        ),
    ],
    ids=["linear", "table"],
)
def test_the_search_is_within_its_budget_and_fits_all_units(learner, grid):
    search = PrivateSearch(learner, grid, BUDGET).fit(ROWS, YES)
    certificate, model = search.certificate_, search.best_estimator_
    recheck(certificate)
    assert BUDGET.covers(certificate.guarantee)
    assert certificate.guarantee.epsilon > 0.9999
    assert certificate.proved
    assert certificate.scope is Scope.MODEL
    assert certificate.relation == ReplaceOne(400)
    assert model.certificate_ is certificate
    # What a ledger charges is the whole search too, not the fit alone.
    assert model.gaussian_certificate_ is certificate.premises[0]
    assert model.zcdp_certificate_.premises == (certificate.premises[0],)
    assert model.n_units_ == 400
    assert not hasattr(search, "repetitions_")
    # The first trial is what was given; a setting that equals it is not tried again.
    settings = [setting for setting, _ in search.trials_]
    assert settings[0] == {}
    assert len(settings) == (4 if "detail" in grid else 5)
    assert search.predict(ROWS).shape == (400,)


def test_few_runs_try_few_settings():
    grid = {"clip": [0.1, 0.2, 0.3, 0.4, 0.5]}
    search = PrivateSearch(GRADIENT, grid, BUDGET, runs=2).fit(ROWS, YES)
    assert len(search.trials_) == 3


def test_what_was_given_stays_unless_a_setting_is_clearly_better():
    assert clearly_best(np.array([0.80, 0.81, 0.79]), noise=0.005, n_units=6000) == 0
    assert clearly_best(np.array([0.80, 0.84, 0.85]), noise=0.005, n_units=6000) == 2
    # The same lead, measured on few units or under more noise, is not clear.
    assert clearly_best(np.array([0.80, 0.85]), noise=0.005, n_units=100) == 0
    assert clearly_best(np.array([0.80, 0.85]), noise=0.02, n_units=6000) == 0


def test_equal_settings_seldom_replace_what_was_given():
    rng = np.random.default_rng(0)
    n, noise = 6000, 0.004
    apart = math.sqrt(0.1 / n / 2)  # models that differ on a tenth of the rows
    replaced = sum(
        clearly_best(
            rng.normal(0.8, math.hypot(apart, noise), 13), noise=noise, n_units=n
        )
        > 0
        for _ in range(2000)
    )
    assert replaced < 200


def test_a_setting_that_is_much_better_is_found():
    """A clip that hides all gradients is no match for the default."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.7, 0.7, size=(6000, 2))
    bad = NoisyGradientClassifier(classes=[False, True], steps=20, learning_rate=1e-6)
    search = PrivateSearch(
        bad, {"learning_rate": [2.0, 5.0]}, Budget(3.0, 1e-6), random_state=0
    ).fit(X, X[:, 0] + X[:, 1] > 0.5)
    assert search.best_params_["learning_rate"] in (2.0, 5.0)
    assert search.score(X, X[:, 0] + X[:, 1] > 0.5) > 0.9
    assert not search.certificate_.proved  # the seed


def test_noise_of_scores_is_what_the_certificate_says():
    moved = trial_scores(n=80, steps=UNIT_STEPS, trials=3)
    search = PrivateSearch(GRADIENT, {"clip": [0.2, 0.4]}, BUDGET).fit(ROWS, YES)
    scored = search.certificate_.premises[0].premises[1]
    assert scored.premises[0].guarantee == moved.guarantee
    scale = dict(scored.details)["scale"]
    assert gaussian_noise_gdp(moved, scale=scale).guarantee == scored.guarantee
    choosing = math.sqrt(0.15) * gaussian_ratio(1.0, 1e-6)
    assert scored.guarantee.mu == pytest.approx(choosing, rel=1e-6)
    assert scored.guarantee.mu <= choosing


def test_regressors_and_units_of_several_rows_are_searched():
    y = (ROWS[:, 0] + 0.7) / 1.4
    learner = NoisyGradientRegressor(bounds=(0, 1), steps=5)
    search = PrivateSearch(learner, {"clip": [0.5, 1.0]}, Budget(3.0, 1e-6))
    search.fit(ROWS, y, units=np.arange(400) // 2)
    assert search.certificate_.relation == ReplaceOne(200)


def test_misuse_is_explained():
    pure = ObjectivePerturbationClassifier(classes=[False, True])
    for learner, budget in ((pure, BUDGET), (GRADIENT, Budget(1.0))):
        search = PrivateSearch(learner, {}, budget, method="choose-then-fit")
        with pytest.raises(InvalidParameterError, match="choose-then-fit"):
            search.fit(ROWS, YES)
    zeroed = PrivateTabularClassifier(classes=[False, True], relation="zero-out")
    with pytest.raises(InvalidParameterError, match="replacing one unit"):
        PrivateSearch(zeroed, {}, BUDGET).fit(ROWS, YES)


@pytest.mark.parametrize(
    ("learner", "budget"),
    [
        (GRADIENT, BUDGET),
        (PrivateTabularClassifier(classes=[False, True]), BUDGET),
        (ObjectivePerturbationClassifier(classes=[False, True]), Budget(2.0)),
    ],
    ids=["linear", "table", "best run"],
)
def test_no_setting_is_about_other_neighbours_than_the_certificate(learner, budget):
    """Half the noise is enough for zeroing a unit, and too little for replacing one.

    The trial that stands for all of them in the certificate is that of what was given.
    """
    grid = {"relation": ["replace-one", "zero-out"]}
    for _ in range(3):  # a best run may draw only settings of the right relation
        with pytest.raises(InvalidParameterError, match="replacing one unit"):
            PrivateSearch(learner, grid, budget, runs=2).fit(ROWS, YES)
    # Where the relation is the same in all settings, nothing is refused.
    same = PrivateSearch(learner, {"relation": ["replace-one"]}, budget, runs=2)
    assert same.fit(ROWS, YES).certificate_.relation == ReplaceOne(400)


def test_a_run_that_is_about_other_neighbours_is_refused_whatever_its_parameters_say():
    class Silent(NoisyGradientClassifier):
        """Says nothing about its relation."""

        def get_params(self, deep=True):
            return {
                k: v for k, v in super().get_params(deep).items() if k != "relation"
            }

        def fit(self, X, y, units=None):
            self.relation = "zero-out"
            return super().fit(X, y, units)

    search = PrivateSearch(Silent(classes=[False, True], steps=5), {}, BUDGET)
    with pytest.raises(InvalidParameterError, match="replacing one unit"):
        search.fit(ROWS, YES)


def test_settings_of_two_kinds_are_refused():
    grid = {"classes": [[False, True], None]}
    with pytest.raises((InvalidParameterError, TypeError)):
        PrivateSearch(GRADIENT, grid, BUDGET).fit(ROWS, YES)
