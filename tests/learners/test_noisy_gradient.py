"""Noisy gradients: what reaches the noise moves as certified, and noise is enough."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from reticent.errors import InvalidParameterError, ReticentError, RuleError
from reticent.guarantees import (
    PUBLIC_LABELS,
    SEEDED_NOISE,
    ZCDP,
    ApproxDP,
    Certificate,
    ReplaceOne,
    Scope,
    ZeroOut,
    recheck,
)
from reticent.learners import NoisyGradientClassifier, NoisyGradientRegressor
from reticent.learners.linear.gradient_descent import descent_rows
from reticent.learners.linear.gradient_rules import clipped_sum, noisy_steps
from reticent.learners.linear.gradient_sums import ClippedSums, sum_grid
from reticent.schemas import Categorical, Numeric, Schema, SchemaEncoder
from tests.stats import ALPHA, assert_follows, law_p_value

CLIP = 0.3


def squared_norm(vector, grid):
    """The exact square of a norm, of a vector that must lie on the grid."""
    steps = np.ravel(vector) / grid
    assert (steps == np.rint(steps)).all()
    return sum(Fraction(int(step)) ** 2 for step in steps) * Fraction(grid) ** 2


def logistic(y):
    ones = np.asarray(y, dtype=float)[:, None]
    return lambda scores: expit(scores) - ones


def raw_rows(rng, n, d):
    """Rows of very different sizes, most of them beyond the norm bound of one."""
    return rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, size=(n, 1))


@pytest.mark.parametrize("size", [0.0, 1.0, 1e4])
def test_one_unit_moves_a_sum_by_at_most_twice_the_clip(size):
    rng = np.random.default_rng(int(size))
    n, d = 12, 5
    grid = sum_grid(n, CLIP, 10.0)
    limit = Fraction(2 * CLIP) ** 2
    for _ in range(1000):
        X, y = raw_rows(rng, n, d), rng.integers(0, 2, n)
        weights = size * rng.normal(size=(d + 1, 1))
        other, flipped = X.copy(), y.copy()
        other[3], flipped[3] = raw_rows(rng, 1, d)[0], rng.integers(0, 2)
        here, there = (
            ClippedSums(descent_rows(rows, 1.0, True), CLIP, grid)(weights, logistic(z))
            for rows, z in ((X, y), (other, flipped))
        )
        assert squared_norm(here - there, grid) <= limit


def test_the_bound_is_attained_and_half_of_it_is_not_enough():
    grid = sum_grid(1, CLIP, 10.0)
    sums = ClippedSums(descent_rows(np.array([[5.0, 0.0]]), 1.0, True), CLIP, grid)
    start = np.zeros((3, 1))
    moved = sums(start, logistic([1])) - sums(start, logistic([0]))
    assert squared_norm(moved, grid) > Fraction(1.999 * CLIP) ** 2


def test_an_unclipped_sum_moves_by_more():
    grid = sum_grid(1, 10.0, 10.0)
    sums = ClippedSums(descent_rows(np.array([[5.0, 0.0]]), 1.0, True), 10.0, grid)
    start = np.zeros((3, 1))
    moved = sums(start, logistic([1])) - sums(start, logistic([0]))
    assert squared_norm(moved, grid) > Fraction(2 * CLIP) ** 2


def test_a_sum_is_exactly_the_sum_of_its_units_in_any_order():
    rng = np.random.default_rng(1)
    n, d = 400, 7
    X, y = descent_rows(raw_rows(rng, n, d), 1.0, True), rng.integers(0, 2, n)
    weights = rng.normal(size=(d + 1, 1)) * 3
    grid = sum_grid(n, CLIP, 10.0)
    whole = ClippedSums(X, CLIP, grid)(weights, logistic(y))
    alone = sum(
        ClippedSums(X[[i]], CLIP, grid)(weights, logistic(y[[i]])) for i in range(n)
    )
    order = rng.permutation(n)
    shuffled = ClippedSums(X[order], CLIP, grid)(weights, logistic(y[order]))
    assert (whole == alone).all()
    assert (whole == shuffled).all()


@pytest.mark.parametrize("rows_of_the_other", [1, 2, 40])
def test_units_of_several_rows_move_a_sum_by_at_most_twice_the_clip(rows_of_the_other):
    rng = np.random.default_rng(rows_of_the_other)
    grid = sum_grid(3, CLIP, 10.0)
    for _ in range(300):
        sizes = [2, 3, 1]
        weights = rng.normal(size=(5, 3)) * 5
        blocks = [descent_rows(raw_rows(rng, k, 4), 1.0, True) for k in sizes]
        labels = [rng.integers(0, 3, k) for k in sizes]
        before = grouped_sum(blocks, labels, weights, grid)
        blocks[1] = descent_rows(raw_rows(rng, rows_of_the_other, 4), 1.0, True)
        labels[1] = rng.integers(0, 3, rows_of_the_other)
        after = grouped_sum(blocks, labels, weights, grid)
        assert squared_norm(before - after, grid) <= Fraction(2 * CLIP) ** 2


def grouped_sum(blocks, labels, weights, grid):
    sizes = [len(block) for block in blocks]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    hot = np.eye(3)[np.concatenate(labels)]

    def residual(scores):
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True) - hot

    sums = ClippedSums(np.concatenate(blocks), CLIP, grid, starts)
    return sums(weights, residual)


def test_noise_of_all_steps_reaches_the_target_and_no_less_does():
    model = NoisyGradientClassifier(0.7, delta=1e-5, classes=[0, 1])
    model.fit(*make_classification(500, random_state=0))
    certificate = model.certificate_
    details = dict(certificate.details)
    assert certificate.guarantee == ApproxDP(0.7, 1e-5)
    assert certificate.relation == ReplaceOne(500)
    assert certificate.scope is Scope.MODEL
    assert certificate.proved
    recheck(certificate)
    recheck(model.zcdp_certificate_)
    assert Certificate.from_json(certificate.to_json()) == certificate
    mu = 2 * model.clip_ * math.sqrt(model.n_iter_) / model.noise_scale_
    curve = stats.norm.cdf(mu / 2 - 0.7 / mu) - math.exp(0.7) * stats.norm.cdf(
        -mu / 2 - 0.7 / mu
    )
    assert curve == pytest.approx(1e-5, rel=1e-3)
    concentrated = model.zcdp_certificate_.guarantee
    assert isinstance(concentrated, ZCDP)
    assert concentrated.rho == pytest.approx(mu**2 / 2)
    for change in (
        {"scale": 0.999 * details["scale"]},
        {"steps": details["steps"] + 1},
    ):
        with pytest.raises(RuleError):
            noisy_steps(certificate.premises[0], **{**details, **change})


def test_half_the_sensitivity_is_caught():
    model = NoisyGradientClassifier(1.0, delta=1e-5).fit(
        *make_classification(60, random_state=0)
    )
    honest = dict(model.certificate_.premises[0].details)
    doubled = clipped_sum(**{**honest, "clip": 2 * honest["clip"]})
    with pytest.raises(RuleError):
        noisy_steps(doubled, **dict(model.certificate_.details))


def noises(n_fits):
    """Noise of one step, in its scales: the model with one step gives it away."""
    X = np.array([[0.5, -0.25], [0.125, 1.0]])
    model = NoisyGradientClassifier(
        1.0,
        delta=0.01,
        norm_bound=4.0,
        steps=1,
        learning_rate=1.0,
        fit_intercept=False,
        classes=[0, 1],
    )
    drawn = [model.fit(X, [0, 1]).coef_[0] for _ in range(n_fits)]
    rows = descent_rows(X, 4.0, False)
    lengths = 0.5 * np.sqrt((rows**2).sum(axis=1))
    slopes = np.array([0.5, -0.5]) * np.minimum(1, model.clip_ / lengths)
    sums = -np.array(drawn) * 4.0 * 2
    return ((sums - slopes @ rows) / model.noise_scale_).ravel()


def test_each_step_adds_gaussian_noise_of_the_certified_scale():
    found = noises(600)
    edges = np.linspace(-2, 2, 9)
    law = np.diff(stats.norm.cdf(edges), prepend=0, append=1)
    law[-1] = 1 - law[:-1].sum()

    def counts(values):
        return np.bincount(np.searchsorted(edges, values), minlength=len(law))

    assert_follows(counts(found), law)
    assert law_p_value(counts(found / 1.5), law) < ALPHA


def test_leaving_a_unit_out_moves_a_sum_by_half_and_needs_half_the_noise():
    rng = np.random.default_rng(5)
    rows = descent_rows(raw_rows(rng, 30, 4), 1.0, True)
    y = rng.integers(0, 2, 30)
    grid = sum_grid(30, CLIP, 1.0)
    weights = rng.normal(0, 3, (5, 1))
    whole = ClippedSums(rows, CLIP, grid)(weights, logistic(y))
    moves = []
    for left_out in range(30):
        kept = np.arange(30) != left_out
        rest = ClippedSums(rows[kept], CLIP, grid)(weights, logistic(y[kept]))
        moves.append(squared_norm(whole - rest, grid))
    one = clipped_sum(n=30, clip=CLIP, dimension=5, relation="zero-out")
    assert one.relation == ZeroOut(30)
    assert max(moves) <= Fraction(one.guarantee.l2) ** 2
    # The bound is nearly reached, so that less would not do.
    assert max(moves) > Fraction(9, 10) * Fraction(one.guarantee.l2) ** 2
    X, labels = make_classification(300, random_state=0)
    known = {"delta": 1e-6, "norm_bound": 5.0, "classes": [0, 1]}
    fitted = {
        relation: NoisyGradientClassifier(1.0, relation=relation, **known).fit(
            X, labels
        )
        for relation in ("replace-one", "zero-out")
    }
    certificate = fitted["zero-out"].certificate_
    recheck(certificate)
    assert certificate.relation == ZeroOut(300)
    assert certificate.guarantee == ApproxDP(1.0, 1e-6)
    scales = {relation: model.noise_scale_ for relation, model in fitted.items()}
    assert scales["zero-out"] == pytest.approx(scales["replace-one"] / 2, rel=1e-6)
    with pytest.raises(ValueError, match="relation"):
        NoisyGradientClassifier(1.0, relation="add-remove", **known).fit(X, labels)


def test_settings_are_functions_of_public_quantities():
    rng = np.random.default_rng(0)
    names = ["n_iter_", "clip_", "learning_rate_", "noise_scale_", "n_units_"]
    settings = []
    for scale in (1e-9, 1.0, 1e9):
        X = scale * rng.normal(size=(50, 3))
        model = NoisyGradientClassifier(classes=[0, 1]).fit(X, rng.integers(0, 2, 50))
        settings.append([getattr(model, name) for name in names])
    assert settings[0] == settings[1] == settings[2]


def test_it_learns_about_as_well_as_without_privacy():
    X, y = make_classification(20_000, 10, n_informative=5, random_state=3)
    model = NoisyGradientClassifier(1.0, delta=1e-6, norm_bound=5.0, classes=[0, 1])
    score = model.fit(X[:15_000], y[:15_000]).score(X[15_000:], y[15_000:])
    plain = LogisticRegression().fit(X[:15_000], y[:15_000])
    assert score > plain.score(X[15_000:], y[15_000:]) - 0.02


def test_several_classes():
    X, y = load_iris(return_X_y=True)
    X, y = np.tile(X - X.mean(axis=0), (30, 1)), np.tile(y, 30)
    model = NoisyGradientClassifier(2.0, delta=1e-5, norm_bound=4.0, classes=[0, 1, 2])
    assert model.fit(X, y).score(X, y) > 0.9
    assert model.coef_.shape == (3, 4)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    recheck(model.certificate_)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_regression(loss):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(8000, 4))
    y = 50 + 10 * X[:, 0] - 5 * X[:, 3] + rng.normal(0, 1, 8000)
    model = NoisyGradientRegressor(
        1.0, delta=1e-6, bounds=(0, 100), loss=loss, norm_bound=2.0
    )
    assert model.fit(X, y).score(X, y) > LinearRegression().fit(X, y).score(X, y) - 0.04
    assert model.predict(1e6 * X).max() == 100.0
    assert model.certificate_.proved
    recheck(model.certificate_)


def test_a_person_with_many_rows_is_one_unit():
    X, y = make_classification(600, random_state=0)
    people = np.repeat(np.arange(100), 6)
    model = NoisyGradientClassifier(classes=[0, 1], norm_bound=5.0)
    model.fit(X, y, units=people)
    assert model.n_units_ == 100
    assert model.certificate_.relation == ReplaceOne(100)


def test_after_a_schema_encoder_with_splines():
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 100, 20_000)
    ward = rng.choice(["a", "b"], 20_000)
    y = (np.abs(age - 50) < 20).astype(int)
    schema = Schema({"age": Numeric(0, 100), "ward": Categorical(["a", "b"])})
    encoder = SchemaEncoder(schema, basis="splines", knots=6)
    bound = encoder.fit().encoder_.row_norm_bound
    private = NoisyGradientClassifier(1.0, delta=1e-6, norm_bound=bound, classes=[0, 1])
    model = make_pipeline(encoder, private)
    assert (
        model.fit({"age": age, "ward": ward}, y).score({"age": age, "ward": ward}, y)
        > 0.9
    )


def test_assumptions_are_stated():
    X, y = make_classification(40, random_state=0)
    given = NoisyGradientClassifier().fit(X, y).certificate_.assumptions
    assert given == {PUBLIC_LABELS}
    seeded = NoisyGradientClassifier(classes=[0, 1], random_state=0)
    assert seeded.fit(X, y).certificate_.assumptions == {SEEDED_NOISE}
    assert (clone(seeded).fit(X, y).coef_ == seeded.coef_).all()


def test_a_pure_guarantee_is_refused_with_advice():
    with pytest.raises(InvalidParameterError, match="OutputPerturbation"):
        NoisyGradientClassifier(delta=0.0).fit(*make_classification(40, random_state=0))


NAN = float("nan")


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": NAN},
        {"epsilon": 0.0},
        {"delta": NAN},
        {"delta": 1.0},
        {"delta": -0.1},
        {"norm_bound": NAN},
        {"norm_bound": 0.0},
        {"clip": NAN},
        {"clip": -1.0},
        {"clip": "all"},
        {"steps": 0},
        {"steps": 2.5},
        {"learning_rate": NAN},
        {"momentum": 1.0},
        {"momentum": NAN},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [NoisyGradientClassifier, NoisyGradientRegressor])
def test_hostile_values_are_refused_also_with_validation_off(kind, bad):
    X, y = make_classification(40, random_state=0)
    with config_context(skip_parameter_validation=True), pytest.raises(ReticentError):
        kind(**bad).fit(X, y)


@pytest.mark.parametrize("bad", [{"loss": "hinge"}, {"width": NAN, "loss": "huber"}])
def test_hostile_losses_are_refused(bad):
    X, y = make_classification(40, random_state=0)
    with config_context(skip_parameter_validation=True), pytest.raises(ReticentError):
        NoisyGradientRegressor(**bad).fit(X, y)


QUIET = {"epsilon": 1e4, "delta": 0.1, "norm_bound": 20.0, "steps": 80}
QUIET |= {"random_state": 0}


@estimator_checks.parametrize_with_checks(
    [
        NoisyGradientClassifier(**QUIET),
        NoisyGradientRegressor(**QUIET, bounds=(-200.0, 200.0)),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
