"""M1, M3: moves, gaps, noise and projection of minimisers on public points."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy import stats
from sklearn import config_context
from sklearn.datasets import make_circles, make_classification
from sklearn.utils import estimator_checks

from reticent.errors import InvalidDataError, ReticentError, RuleError, SolverError
from reticent.guarantees import (
    PUBLIC_LABELS,
    SEEDED_NOISE,
    ApproxDP,
    PureDP,
    ReplaceOne,
    Scope,
    recheck,
)
from reticent.learners import (
    FourierFeatures,
    OutputPerturbationClassifier,
    RegularizedERMClassifier,
    RegularizedERMRegressor,
    regularized_excess_at_most,
)
from reticent.learners.public.linear_plan import (
    RegularizedPlan,
    UnitLoss,
    leverage_at_most,
    nearest_linear,
)
from reticent.learners.public.rules import projected_model, regularized_sensitivity
from tests.stats import ALPHA, assert_follows, law_p_value, rejects

LOSSES = ["logistic", "squared", "huber", "absolute"]
FACTS = {"labels_from_data": False, "seeded": False}


def planned(loss, n, public, *, eta, radius=1.0, lipschitz=True, tolerance=0.02):
    """A plan for rows of norm one at most, without a constant."""
    model = RegularizedERMClassifier(
        1.0, 1e-5, loss=loss, eta=eta, radius=radius, tolerance=tolerance, width=0.3
    )
    leverage = leverage_at_most(public, 1.0) if lipschitz else None
    return RegularizedPlan.of(
        model,
        n_units=n,
        n_public=len(public),
        dimension=public.shape[1],
        feature_bound=1.0,
        leverage=leverage,
        **FACTS,
    )


def limit(plan):
    """The certified move, as a root mean square over the public points."""
    moved = plan.certificate.premises[0].premises[0].premises[0]
    assert moved.rule == "M3"
    m = dict(moved.details)["m"]
    assert moved.guarantee.l1 == pytest.approx(m * moved.guarantee.l2 / np.sqrt(m))
    return moved.guarantee.l2 / np.sqrt(m)


def move(plan, public, first, second):
    found = []
    for X, y in (first, second):
        weights = np.full(len(X), 1 / len(X))
        targets = (y + 1) / 2 if plan.loss.name == "logistic" else y
        found.append(plan.values(X, targets, weights, public))
    return float(np.sqrt(np.mean((found[0] - found[1]) ** 2)))


def random_rows(rng, n, d):
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 2, size=(n, 1))
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))


def search(plan, public, n, rng, tries):
    """Climb towards neighbours whose minimisers are far apart."""
    d, logistic = public.shape[1], plan.loss.name == "logistic"

    def draw(y):
        return rng.choice([-1.0, 1.0], y) if logistic else rng.uniform(-1, 1, y)

    best, kept = 0.0, None
    for _ in range(tries):
        X, y = random_rows(rng, n + 1, d), np.sign(draw(n + 1))
        if kept is not None and rng.random() < 0.7:
            X, y = kept[0].copy(), kept[1].copy()
            row = rng.integers(n + 1)
            X[row], y[row] = random_rows(rng, 1, d)[0], draw(1)[0]
        others = np.arange(2, n + 1)
        first, second = np.append(0, others), np.append(1, others)
        moved = move(plan, public, (X[first], y[first]), (X[second], y[second]))
        if moved > best:
            best, kept = moved, (X, y)
    return best


@pytest.mark.parametrize("lipschitz", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_search_exceeds_the_certified_move(loss, lipschitz):
    rng = np.random.default_rng(3)
    for n, d, m, eta, radius in [(1, 2, 3, 0.2, 1.0), (4, 2, 5, 0.05, 3.0)]:
        public = random_rows(rng, m, d)
        plan = planned(loss, n, public, eta=eta, radius=radius, lipschitz=lipschitz)
        found = search(plan, public, n, rng, 40)
        assert 0 < found <= limit(plan)


def extreme(n, place, *, eta, lipschitz, radius=1.0):
    """One unit at 1 that turns from -1 to 1, the others at 0; one public point."""
    public = np.array([[place]])
    plan = planned("absolute", n, public, eta=eta, radius=radius, lipschitz=lipschitz)
    X, y = np.zeros((n, 1)), np.ones(n)
    X[0] = 1.0
    return move(plan, public, (X, y), (X, np.where(np.arange(n) == 0, -1.0, 1.0))), plan


@pytest.mark.parametrize("n", [1, 3])
def test_the_move_is_attained_so_that_half_of_it_fails(n):
    # The penalty just lets the minimiser reach the end of the class: 4 n eta z^2 = 1.
    moved, plan = extreme(n, 0.25, eta=4 / n, lipschitz=False)
    assert 0.9 * limit(plan) < moved <= limit(plan)
    assert moved == pytest.approx(1 / np.sqrt(plan.eta * n), rel=0.02)
    steep, lipschitz = extreme(n, 1.0, eta=4 / n, lipschitz=True)
    assert 0.9 * limit(lipschitz) < steep <= limit(lipschitz)
    assert limit(lipschitz) < 0.6 / np.sqrt(lipschitz.eta * n)


def test_the_papers_bound_is_twice_as_large():
    plain = {"n": 50, "m": 9, "eta": 0.1, "gap": 0.0, "reach": 100.0}
    certified = regularized_sensitivity(**plain).guarantee
    assert certified.l2 == pytest.approx(3 / np.sqrt(0.1 * 50), rel=1e-12)
    assert certified.l1 == pytest.approx(9 / np.sqrt(0.1 * 50), rel=1e-12)


def test_the_rule_agrees_with_high_precision_and_rounds_up():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n, m = int(rng.integers(1, 10**6)), int(rng.integers(1, 5000))
        eta, gap, reach, slope, leverage, rounding = np.exp(
            rng.uniform([-9, -30, -2, -3, 0, -40], [2, -5, 3, 1, 5, -20])
        ).tolist()
        with mpmath.workdps(60):
            plain = 1 / mpmath.sqrt(mpmath.mpf(eta) * n)
            steep = mpmath.mpf(slope) * leverage / (mpmath.mpf(eta) * n)
            moved = min(plain, steep) + 2 * mpmath.sqrt(mpmath.mpf(gap) / eta)
            moved = min(moved, 2 * mpmath.mpf(reach)) + 2 * mpmath.mpf(rounding)
            l1, l2 = m * moved, mpmath.sqrt(m) * moved
            got = regularized_sensitivity(
                n=n,
                m=m,
                eta=eta,
                gap=gap,
                reach=reach,
                lipschitz=slope,
                leverage=leverage,
                rounding=rounding,
            ).guarantee
            assert l1 <= got.l1 <= l1 * (1 + mpmath.mpf(2) ** -44)
            assert l2 <= got.l2 <= l2 * (1 + mpmath.mpf(2) ** -44)


def test_the_leverage_bounds_values_and_is_attained():
    rng = np.random.default_rng(0)
    public = random_rows(rng, 12, 3)
    leverage = leverage_at_most(public, 1.0)
    ways = rng.normal(size=(20_000, 3))
    means = np.sqrt(np.mean((ways @ public.T) ** 2, axis=1))
    largest = np.linalg.norm(ways, axis=1)  # at the row of norm one along the way
    assert 0.98 * leverage < (largest / means).max() <= leverage
    assert leverage_at_most(np.ones((5, 2)), 1.0) is None
    assert leverage_at_most(public[:2], 1.0) is None


@pytest.mark.parametrize("reach", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_range_over_one_at_any_one_example(name, reach):
    loss = UnitLoss.of(name, 0.3, reach)
    predictions = np.linspace(-reach, reach, 401)
    targets = np.array([0.0, 1.0]) if name == "logistic" else np.linspace(-1, 1, 41)
    table = loss.value(
        predictions[:, None], np.broadcast_to(targets, (401, len(targets)))
    )
    ranges = table.max(axis=0) - table.min(axis=0)
    assert 1 - 1e-9 < ranges.max() <= 1
    slopes = np.abs(np.diff(table, axis=0)).max() / (predictions[1] - predictions[0])
    assert 0.5 * loss.slope < slopes <= loss.slope * (1 + 1e-9)


def objective(plan, w, X, targets, public):
    """The objective of one feature, for many coefficients at once."""
    predictions = np.multiply.outer(w, X[:, 0])
    wanted = np.broadcast_to(targets, predictions.shape)
    penalty = np.mean(np.multiply.outer(w, public[:, 0]) ** 2, axis=1)
    return plan.loss.value(predictions, wanted).mean(axis=1) + plan.eta * penalty


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gap_is_kept(loss):
    rng = np.random.default_rng(5)
    for _ in range(5):
        public, X = random_rows(rng, 4, 1), random_rows(rng, 9, 1)
        y = rng.choice([-1.0, 1.0], 9)
        targets = (y + 1) / 2 if loss == "logistic" else y
        plan = planned(loss, 9, public, eta=0.05, radius=2.0)
        values = plan.values(X, targets, np.full(9, 1 / 9), public)

        at = np.array([values @ public[:, 0] / (public[:, 0] @ public[:, 0])])
        grid = np.linspace(-2, 2, 40_001)
        least = objective(plan, grid, X, targets, public).min()
        assert objective(plan, at, X, targets, public)[0] <= least + plan.gap
        assert plan.gap < 1e-3


@pytest.mark.parametrize("loss", LOSSES)
def test_a_solver_that_misses_its_gap_raises(loss):
    rng = np.random.default_rng(0)
    public, X = random_rows(rng, 5, 3), random_rows(rng, 5000, 3)
    y = rng.choice([0.0, 1.0], 5000)
    plan = planned(loss, 5000, public, eta=0.01)
    weights = np.full(5000, 1 / 5000)
    plan.values(X, y, weights, public)
    with pytest.raises(SolverError):
        replace(plan, gap=5e-14).values(X, y, weights, public)
    with pytest.raises(ReticentError, match="floating point"):
        replace(plan, gap=1e-17).values(X, y, weights, public)


def test_nothing_is_kept_of_a_fit_whose_solver_failed(monkeypatch):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(5000, 3)), rng.integers(0, 2, 5000)
    planned_as_usual = RegularizedPlan.of

    def too_fine(*args, **facts):
        return replace(planned_as_usual(*args, **facts), gap=1e-13)

    monkeypatch.setattr(RegularizedPlan, "of", too_fine)
    model = RegularizedERMClassifier(1.0, 1e-6, classes=[0, 1])
    with pytest.raises(SolverError, match="gap"):
        model.fit(X, y, public=rng.normal(size=(20, 3)))
    assert {name for name in vars(model) if name.endswith("_")} <= {"n_features_in_"}


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("kind", [RegularizedERMClassifier, RegularizedERMRegressor])
def test_the_model_is_a_function_of_the_noisy_values_alone(kind, delta):
    rng = np.random.default_rng(2)
    public = rng.normal(size=(30, 2))
    model = kind(1.0, delta, fit_intercept=False, norm_bound=3.0, radius=2.0)
    model.fit(rng.normal(size=(200, 2)), rng.integers(0, 2, 200), public=public)
    rows = public / 3.0 / np.maximum(1.0, np.linalg.norm(public / 3.0, axis=1))[:, None]
    spread = model.noise_scale_ * (1.0 if delta else np.sqrt(2))
    again = nearest_linear(rows, model.public_values_, 2.0, noise=spread) / 3.0
    if kind is RegularizedERMRegressor:
        again /= 2  # from [-1, 1] to the bounds 0 and 1
    np.testing.assert_allclose(np.ravel(model.coef_), again, rtol=1e-9)
    released = {"coef_", "intercept_", "public_values_"}
    declared = {"certificate_", "n_units_", "noise_scale_", "eta_", "features_"}
    declared |= {"classes_", "bounds_", "n_features_in_"}
    learned = {name for name in vars(model) if name.endswith("_")}
    assert learned <= released | declared


def test_projection_is_the_nearest_in_the_ball():
    rng = np.random.default_rng(4)
    public, values = rng.normal(size=(12, 2)), 5 * rng.normal(size=12)
    for radius in (0.2, 100.0):
        found = nearest_linear(public, values, radius)
        assert np.linalg.norm(found) <= radius * (1 + 1e-12)
        angles = np.linspace(0, 2 * np.pi, 721)
        circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        best = np.linalg.lstsq(public, values, rcond=None)[0]
        tried = np.vstack([radius * circle, 0.5 * radius * circle, [best]])
        tried = tried[np.linalg.norm(tried, axis=1) <= radius * (1 + 1e-12)]
        far = ((tried @ public.T - values) ** 2).sum(axis=1)
        assert ((public @ found - values) ** 2).sum() <= far.min() * (1 + 1e-9)
    shrunk = nearest_linear(public, values, 100.0, noise=1e3)
    assert np.linalg.norm(shrunk) < np.linalg.norm(best) / 2


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_noise_follows_its_law(delta):
    rng = np.random.default_rng(6)
    X, y, public = rng.normal(size=(40, 2)), rng.integers(0, 2, 40), np.ones((300, 2))
    model = RegularizedERMClassifier(1.0, delta, classes=[0, 1])
    drawn = np.concatenate(
        [model.fit(X, y, public=public).public_values_ for _ in range(3)]
    )
    # Public rows are equal, so the exact values are; their size is far below the noise.
    noise = drawn / model.noise_scale_
    law = stats.norm if delta else stats.laplace
    edges = law.ppf(np.linspace(0, 1, 9)[1:-1])

    def counts(values):
        return np.bincount(np.searchsorted(edges, values), minlength=8)

    assert_follows(counts(noise), np.full(8, 1 / 8))
    assert law_p_value(counts(noise / 2), np.full(8, 1 / 8)) < ALPHA


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_certificates(delta):
    X, y = make_classification(300, random_state=0)
    public = np.random.default_rng(0).normal(size=(40, 20))
    model = RegularizedERMClassifier(0.8, delta, classes=[0, 1])
    certificate = model.fit(X, y, public=public).certificate_
    assert isinstance(certificate.guarantee, ApproxDP if delta else PureDP)
    assert 0.8 * (1 - 1e-9) <= certificate.guarantee.epsilon <= 0.8
    assert certificate.relation == ReplaceOne(300)
    assert certificate.scope is Scope.MODEL
    assert certificate.proved
    recheck(certificate)
    rules = [step.rule for step in certificate.walk()]
    noise = "G5-gaussian-analytic" if delta else "G5-laplace"
    assert rules == ["M1", noise, "G5-grid", "M3"]
    read = RegularizedERMClassifier(0.8, delta, random_state=0)
    assumed = read.fit(X, y, public=public).certificate_.assumptions
    assert assumed == {PUBLIC_LABELS, SEEDED_NOISE}
    grouped = model.fit(X, y, np.arange(300) // 3, public=public)
    assert grouped.certificate_.relation == ReplaceOne(100)


def test_only_noisy_values_are_projected():
    bare = regularized_sensitivity(n=9, m=2, eta=1.0, gap=0.0, reach=1.0)
    with pytest.raises(RuleError):
        projected_model(bare, points=2)
    released = OutputPerturbationClassifier(classes=[0, 1])
    X, y = make_classification(100, random_state=0)
    projected_model(released.fit(X, y).certificate_, points=2)
    approx = RegularizedERMClassifier(1.0, 1e-6, classes=[0, 1])
    with pytest.raises(RuleError):
        projected_model(approx.fit(X, y, public=X[:9] + 0).certificate_, points=2)


def shifted(rng, n, d=4):
    w = np.array([1.0, -1.0, 0.5, 0.0])[:d]
    X = rng.normal(size=(n, d))
    return X, X @ w + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("loss", LOSSES)
def test_it_learns_from_shifted_public_rows(loss):
    rng = np.random.default_rng(7)
    X, score = shifted(rng, 20_000)
    public = rng.normal(0.3, 1.3, size=(500, 4))
    model = RegularizedERMClassifier(
        1.0, 1e-6, loss=loss, norm_bound=3.0, classes=[False, True]
    )
    assert model.fit(X, score > 0, public=public).score(X, score > 0) > 0.8
    assert model.predict_proba(X[:3]).shape == (3, 2)


@pytest.mark.parametrize("loss", ["squared", "huber", "absolute"])
def test_regression(loss):
    rng = np.random.default_rng(8)
    X, y = shifted(rng, 20_000)
    model = RegularizedERMRegressor(
        4.0, 1e-6, (-4, 4), loss=loss, norm_bound=3.0, radius=2.0
    )
    assert model.fit(X, y, public=rng.normal(size=(500, 4))).score(X, y) > 0.6
    assert model.certificate_.proved
    recheck(model.certificate_)


def test_waves_learn_what_lines_cannot():
    X, y = make_circles(60_000, noise=0.1, factor=0.4, random_state=0)
    public = np.random.default_rng(0).uniform(-1.2, 1.2, size=(1500, 2))
    waves = FourierFeatures(15, bandwidth=0.4, random_state=0)
    model = RegularizedERMClassifier(4.0, 1e-6, features=waves, classes=[0, 1])
    assert model.fit(X, y, public=public).score(X, y) > 0.9
    assert model.certificate_.proved


def test_the_excess_is_below_its_bound_and_sigma_enters_nothing_else():
    rng = np.random.default_rng(9)
    X, score = shifted(rng, 4_000)
    y, public = np.clip(score / 4, -1, 1), rng.normal(0.0, 1.2, size=(400, 4))
    model = RegularizedERMRegressor(
        2.0, 1e-6, (-1, 1), loss="absolute", norm_bound=3.0, fit_intercept=False
    )
    model.fit(X, y, public=public)
    loss = UnitLoss.of("absolute", 0.5, 2.0)
    facts = {
        "n": 4_000,
        "m": 400,
        "dimension": 4,
        "eta": model.eta_,
        "noise_scale": model.noise_scale_,
        "reach": 2.0,
        "slope": loss.slope,
    }
    quiet = RegularizedERMRegressor(
        1e4, 1e-2, (-1, 1), norm_bound=3.0, fit_intercept=False
    ).fit(X, y, public=public)
    risks = [loss.value(fit.predict(X), y).mean() for fit in (model, quiet)]
    bound = regularized_excess_at_most(**facts, smoothness=1 / 1.2**4)
    assert risks[0] - risks[1] <= bound
    assert bound <= regularized_excess_at_most(**facts, smoothness=0.01)
    assert "smoothness" not in model.get_params()
    with pytest.raises(ReticentError, match="smoothness"):
        regularized_excess_at_most(**facts, smoothness=1.5)


def test_public_rows_must_be_given_and_public():
    X, y = make_classification(50, random_state=0)
    model = RegularizedERMClassifier(classes=[0, 1])
    with pytest.raises(InvalidDataError, match="public"):
        model.fit(X, y)
    with pytest.raises(InvalidDataError, match="training rows"):
        model.fit(X, y, public=X)
    with pytest.raises(InvalidDataError, match="features"):
        model.fit(X, y, public=X[:, :3] + 0)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, y, public=np.full((3, 20), np.nan))


NAN = float("nan")


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": NAN},
        {"epsilon": -1.0},
        {"delta": NAN},
        {"delta": 1.0},
        {"norm_bound": 0.0},
        {"norm_bound": NAN},
        {"radius": NAN},
        {"eta": NAN},
        {"eta": 0.0},
        {"eta": "small"},
        {"tolerance": NAN},
        {"tolerance": 0.0},
        {"loss": "nil"},
        {"width": NAN, "loss": "huber"},
        {"features": "waves"},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [RegularizedERMClassifier, RegularizedERMRegressor])
def test_hostile_values_are_refused_also_with_validation_off(kind, bad):
    X, y = make_classification(40, random_state=0)
    with config_context(skip_parameter_validation=True), pytest.raises(ReticentError):
        kind(**bad).fit(X, y, public=X[:9] + 0)


def test_the_checks_of_this_file_reject_half_of_the_move():
    moved, plan = extreme(1, 0.25, eta=4.0, lipschitz=False)

    def within(bound):
        assert moved <= bound

    assert rejects(within, 0.5 * limit(plan))
    assert not rejects(within, limit(plan))


def some_public_rows(X):
    """scikit-learn's checks know no public rows: some of the right width."""
    shape = np.asarray(X).shape
    width = shape[1] if len(shape) == 2 else 1
    return np.random.default_rng(0).normal(size=(60, max(width, 1)))


class ClassifierWithPublicRows(RegularizedERMClassifier):
    def fit(self, X, y, units=None):
        return super().fit(X, y, units, public=some_public_rows(X))


class RegressorWithPublicRows(RegularizedERMRegressor):
    def fit(self, X, y, units=None):
        return super().fit(X, y, units, public=some_public_rows(X))


QUIET = {"epsilon": 1e5, "norm_bound": 20.0, "eta": 1e-3, "random_state": 0}


@estimator_checks.parametrize_with_checks(
    [
        ClassifierWithPublicRows(**QUIET, radius=50.0),
        RegressorWithPublicRows(
            **QUIET, bounds=(-10.0, 10.0), radius=20.0, loss="huber"
        ),
    ],
    expected_failed_checks=lambda _: {},
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
