"""RRSPMClassifier: labels of public points, and nothing else, are released (M4)."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import estimator_checks

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.guarantees import (
    EXACT_ORACLE,
    PUBLIC_LABELS,
    ROWWISE_QUERIES,
    SEEDED_NOISE,
    ApproxDP,
    PureDP,
    ReplaceOne,
    Scope,
    recheck,
)
from reticent.hypotheses import (
    Conjunctions,
    FiniteClass,
    Halfspaces,
    Intervals,
    Rectangles,
    Stumps,
    Thresholds,
)
from reticent.learners import RRSPMClassifier, rrspm_error_at_most
from reticent.learners.public import separator_noise as separator_noise_module
from reticent.learners.public.separator_bounds import _largest_sum
from reticent.learners.public.separator_noise import SeparatorNoise
from reticent.mechanisms import noise_source
from tests.learners.enumeration import CUTS
from tests.learners.separator_laws import Noise, parity, shattered
from tests.stats import assert_follows, assert_rate_at_most, rejects

RNG = np.random.default_rng(0)
X2, PUBLIC2 = RNG.normal(size=(300, 2)), RNG.normal(size=(8, 2))
Y2 = (X2[:, 0] > 0.1).astype(int)

EXACT = [
    Stumps(),
    Rectangles(),
    Halfspaces(method="enumerate"),
    CUTS,
]
KNOWN = np.concatenate([X2[:40], PUBLIC2])
TABLE = FiniteClass.from_table(KNOWN, [KNOWN[:, 0] > 0.1, KNOWN[:, 1] > 0.1])


def make(family=None, epsilon=1.0, **settings):
    family = Stumps() if family is None else family
    return RRSPMClassifier(family, epsilon, **{"classes": [0, 1], **settings})


@pytest.mark.parametrize(
    "family", [*EXACT[:-1], TABLE], ids=lambda family: type(family).__name__
)
def test_exact_oracles_give_proved_certificates(family):
    model = make(family).fit(X2[:40], Y2[:40], public=PUBLIC2)
    certificate = model.certificate_
    assert certificate.proved
    assert isinstance(certificate.guarantee, PureDP)
    assert certificate.guarantee.epsilon <= 1.0
    assert certificate.relation == ReplaceOne(40)
    assert certificate.scope is Scope.MODEL
    recheck(certificate)


@pytest.mark.parametrize(
    "family",
    [Halfspaces(), Halfspaces(method="milp"), LogisticRegression()],
    ids=["auto", "integer program", "classifier"],
)
def test_other_oracles_give_conditional_certificates(family):
    model = make(family).fit(X2[:15], Y2[:15], public=PUBLIC2[:4])
    assert model.certificate_.assumptions == {EXACT_ORACLE}
    assert type(family).__name__ in str(model.certificate_)


def test_slack_is_what_is_assumed_of_a_heuristic():
    model = make(LogisticRegression(), slack=2.0).fit(X2, Y2, public=PUBLIC2)
    assert {a.code for a in model.certificate_.assumptions} == {"ORACLE_WITHIN_SLACK"}
    assert model.noise_scale_ == pytest.approx(3 * 2 * len(PUBLIC2), rel=1e-4)


def test_labels_and_seeds_are_assumed_aloud():
    model = make(classes=None, random_state=0).fit(X2, Y2, public=PUBLIC2)
    assert model.certificate_.assumptions == {PUBLIC_LABELS, SEEDED_NOISE}


@pytest.mark.parametrize(
    "family",
    [*EXACT, Thresholds("either"), Intervals(2)],
    ids=lambda family: type(family).__name__,
)
def test_trusted_oracles_add_exactly_up_to_their_room(family):
    width = 1 if isinstance(family, Thresholds | Intervals) else 2
    own = family.on(width)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.integers(0, 4, (12, width)) * 1.0, rng.integers(0, 2, 12)
        # Nearly as large as allowed, and differing in the last digit.
        weights = rng.choice([-1, 1], 12) * (2**48 + rng.integers(-2, 3, 12))
        weights[0] = 2**52 - np.abs(weights[1:]).sum()
        found = own.minimise(X, y, weights)
        assert found.exact
        listed = own.project(X).predict(X)
        totals = [
            sum(int(w) for w, wrong in zip(weights, labels != y, strict=True) if wrong)
            for labels in listed
        ]
        assert found.value == min(totals)
        kept = own.predict(found.hypothesis, X) != y
        assert sum(int(w) for w in weights[kept]) == min(totals)


# The release is a function of the labels of public points.


@pytest.mark.parametrize(
    "family",
    [*EXACT, LogisticRegression(), DecisionTreeClassifier(random_state=0)],
    ids=lambda family: type(family).__name__,
)
def test_the_release_follows_from_labels_of_public_points_alone(family):
    # Other private rows, other labels, other noise, another order of public points:
    # where the labels of the public points came out the same, so did everything else.
    seen = {}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(30, 2)) * rng.choice([0.1, 1.0, 10.0])
        y = rng.integers(0, 2, 30) if seed % 2 else (X[:, 0] > 0).astype(int)
        public = rng.permutation(PUBLIC2[:3])
        model = make(family, 5.0, random_state=seed).fit(X, y, public=public)
        state = {k: v for k, v in vars(model).items() if k.endswith("_")}
        state.pop("certificate_")  # says which n and oracle, checked elsewhere
        key = model.labels_.tobytes()
        released = pickle.dumps([state[name] for name in sorted(state)])
        probe = model.predict(X2).tobytes()
        assert seen.setdefault(key, (released, probe)) == (released, probe)
    assert len(seen) > 2


def test_the_hypothesis_has_the_released_labels():
    model = make().fit(X2, Y2, public=PUBLIC2)
    np.testing.assert_array_equal(model.predict(model.points_), model.labels_)
    assert Stumps().consistent(model.points_, model.labels_) == model.hypothesis_


def test_copies_of_public_points_count_once():
    model = make(random_state=0).fit(X2, Y2, public=PUBLIC2)
    again = make(random_state=0).fit(X2, Y2, public=np.vstack([PUBLIC2[::-1]] * 2))
    assert again.hypothesis_ == model.hypothesis_
    assert again.noise_scale_ == model.noise_scale_


# What the code draws is what was proved private.


def test_draws_follow_the_exact_law(monkeypatch):
    # Three shattered public points, a private one at their parity, coarse noise.
    tiny = shattered(3, parity)
    points = np.arange(4.0)[:, None]
    family = FiniteClass.from_table(points, tiny.table)
    q, n, steps = Fraction(3, 4), 2, 1
    coarse(monkeypatch, steps, 1 / math.log(4 / 3))
    X, y = np.array([[3.0], [3.0]]), np.array([1, 1])
    model = make(family, random_state=np.random.RandomState(0))
    counts = np.zeros(8, dtype=int)
    for _ in range(700):
        model.fit(X, y, public=points[:3])
        counts[int(model.labels_ @ [4, 2, 1])] += 1
    law = first_wins(Noise(3, q, n + 1, lumped=True), tiny, ((0, 1), (0, 1)), steps)
    assert_follows(counts, law)
    other = first_wins(Noise(3, q, n + 1, lumped=True), tiny, ((0, 0), (0, 1)), steps)
    assert rejects(assert_follows, counts, other)


def coarse(monkeypatch, steps, scale):
    """Let the classifier draw noise of few steps, so that its law can be listed."""
    given = separator_noise_module._noise

    def noise(law, facts, _steps, _scale, certificate):
        fine = given(law, facts, _steps, _scale, certificate)
        return SeparatorNoise(**{**vars(fine), "steps": steps, "scale": scale})

    monkeypatch.setattr(separator_noise_module, "_noise", noise)


def first_wins(noise, tiny, data, steps):
    values = steps * tiny.costs(data)[:, None] + tiny.labelings @ noise.vectors
    won = np.argmin(values, axis=0)
    mass = np.bincount(won, noise.weights.astype(float), minlength=len(values))
    return mass / mass.sum()


def test_noise_that_does_not_fit_is_drawn_anew():
    model = make(random_state=0)
    assert model.fit(X2, Y2, public=PUBLIC2)
    noise = SeparatorNoise(
        law=separator_noise_module.GridLaw.LAPLACE,
        steps=1,
        scale=5.0,
        points=3,
        limit=6,
        certificate=model.certificate_,
    )
    source = noise_source(1)
    drawn = np.array([noise.draw(source) for _ in range(60)])
    assert np.abs(drawn).sum(axis=1).max() <= 6


# Scales.


def test_noise_is_scaled_to_what_teaches_a_labeling():
    public = RNG.normal(size=(100, 3))
    X, y = RNG.normal(size=(200, 3)), RNG.integers(0, 2, 200)
    taught = make().fit(X, y, public=public).noise_scale_
    printed = make(scale_by="points").fit(X, y, public=public).noise_scale_
    assert taught == pytest.approx(2 * 6, rel=1e-4)
    assert printed == pytest.approx(2 * 100, rel=1e-4)


def test_delta_buys_gaussian_noise_where_it_is_smaller():
    public = np.linspace(0, 1, 200)[:, None]
    X, y = RNG.random((500, 1)), RNG.integers(0, 2, 500)
    shape = {"family": Intervals(2), "delta": 1e-6}
    model = make(**shape).fit(X, y, public=public)
    assert isinstance(model.certificate_.guarantee, ApproxDP)
    assert model.certificate_.guarantee.delta <= 1e-6
    recheck(model.certificate_)
    pure = make(**shape, noise="laplace").fit(X, y, public=public)
    assert model.noise_scale_ < pure.noise_scale_
    # Two points teach a threshold: Laplace noise is smaller, and pure.
    line = make(Thresholds(), delta=1e-6).fit(X, y, public=public)
    assert isinstance(line.certificate_.guarantee, PureDP)


def test_too_many_labelings_leave_laplace_noise():
    public, X = RNG.normal(size=(1000, 1)), RNG.normal(size=(50, 1))
    settings = {"family": LogisticRegression(), "delta": 1e-6}
    model = make(**settings).fit(X, X[:, 0] > 0, public=public)
    assert isinstance(model.certificate_.guarantee, PureDP)
    with pytest.raises(InvalidParameterError, match="laplace"):
        make(**settings, noise="gaussian").fit(X, X[:, 0] > 0, public=public)


def test_a_subclass_is_not_trusted_to_be_exact():
    class Hasty(Stumps):
        pass

    model = make(Hasty()).fit(X2, Y2, public=PUBLIC2)
    assert model.certificate_.assumptions == {EXACT_ORACLE, ROWWISE_QUERIES}


def test_gaussian_noise_counts_labelings_exactly_or_from_above():
    public = RNG.random((30, 2))
    X, y = RNG.random((50, 2)), RNG.integers(0, 2, 50)
    settings = {"delta": 1e-6, "noise": "gaussian"}
    model = make(Stumps(), **settings).fit(X, y, public=public)
    count = model.certificate_.parameter("labelings")
    assert count == len(Stumps().project(public))
    blind = make(LogisticRegression(), **settings).fit(X, y, public=public)
    assert blind.certificate_.parameter("labelings") == 2**30


# Units, accuracy.


def test_a_unit_of_many_rows_weighs_one():
    X = np.concatenate([np.zeros((1000, 1)), np.ones((30, 1))])
    y = np.concatenate([np.ones(1000), np.zeros(30)]).astype(int)
    units = np.concatenate([np.zeros(1000), np.arange(1, 31)]).astype(int)
    public = np.array([[0.0], [1.0]])
    constant = FiniteClass.from_table(public, [[0, 0], [1, 1]])
    model = make(constant, 10.0).fit(X, y, units, public=public)
    assert model.n_units_ == 31
    assert (model.predict(public) == 0).all()  # 30 units against one
    alone = make(constant, 10.0).fit(X, y, public=public)
    assert (alone.predict(public) == 1).all()  # 30 rows against a thousand


@pytest.mark.parametrize(
    "family",
    [Stumps(), LogisticRegression()],
    ids=lambda family: type(family).__name__,
)
def test_it_learns(family):
    rng = np.random.default_rng(3)
    X, public = rng.random((4000, 2)), rng.random((25, 2))
    y = X[:, 0] > 0.5
    model = RRSPMClassifier(family, 10.0, classes=[False, True])
    model.fit(X, y, public=public)
    assert (model.predict(X) == y).mean() > 0.85


def test_shifted_public_rows_cost_accuracy_not_privacy():
    rng = np.random.default_rng(4)
    X = rng.random((3000, 1))
    y = X[:, 0] > 0.5
    near, far = rng.random((40, 1)), 1 + rng.random((40, 1))
    model = RRSPMClassifier(Thresholds(), 1.0, classes=[False, True])
    scores = []
    certificates = []
    for public in (near, far):
        model.fit(X, y, public=public)
        scores.append((model.predict(X) == y).mean())
        certificates.append(model.certificate_)
    assert scores[0] > 0.9 > 0.7 > scores[1]
    assert certificates[0] == certificates[1]


def test_the_bound_covers_what_happens():
    rng = np.random.default_rng(5)
    n, m, epsilon, failure = 10_000, 300, 1.0, 0.2
    bound = rrspm_error_at_most(
        Thresholds(), n=n, m=m, epsilon=epsilon, failure=failure
    )
    assert bound.total < 0.5
    misses, trials = 0, 100
    for _ in range(trials):
        X, public = rng.random((n, 1)), rng.random((m, 1))
        y = (X[:, 0] > 0.4) ^ (rng.random(n) < 0.1)
        model = RRSPMClassifier(Thresholds(), epsilon, classes=[False, True])
        found = model.fit(X, y, public=public).hypothesis_
        cut = float(np.clip(found.cut, 0, 1)) if found.above else 1.0
        misses += 0.8 * abs(cut - 0.4) > bound.total
    assert_rate_at_most(misses, trials, failure)


def test_the_bound_moves_as_it_should():
    base = {"n": 10_000, "m": 300, "epsilon": 1.0}

    def bound(**changes):
        return rrspm_error_at_most(Thresholds(), **{**base, **changes})

    assert bound(epsilon=2.0).noise == pytest.approx(bound().noise / 2)
    assert bound(sigma=0.5).disagreement == pytest.approx(2 * bound().disagreement)
    assert bound(sigma=0.5).noise == bound().noise
    assert bound(scale_by="points").noise > 100 * bound().noise
    assert bound(n=10**7).total < bound().total <= 1
    assert bound(m=3000).disagreement < bound().disagreement
    with pytest.raises(InvalidParameterError, match="sigma"):
        bound(sigma=1.5)
    with pytest.raises(InvalidParameterError, match="scale_by"):
        bound(scale_by="luck")


def test_sums_of_noise_stay_within_the_chernoff_bound():
    rng = np.random.default_rng(6)
    for count, exponent in ((1, 3.0), (20, 3.0), (20, 6.0)):
        sums = rng.laplace(scale=2.0, size=(20_000, count)).sum(axis=1)
        above = int((sums > _largest_sum(count, 2.0, exponent)).sum())
        assert_rate_at_most(above, 20_000, math.exp(-exponent))


# Mistakes.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": float("nan")}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"noise": "gaussian"}, "delta"),
        ({"noise": "uniform"}, "noise"),
        ({"scale_by": "luck"}, "scale_by"),
        ({"slack": -1.0}, "slack"),
        ({"slack": float("nan")}, "slack"),
        ({"hypotheses": 3}, "hypotheses"),
        ({"hypotheses": KNeighborsClassifier()}, "sample_weight"),
        ({"classes": ["a", "b", "c"]}, "labels|classes|binary"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_mistakes_are_named(settings, message, skip):
    model = RRSPMClassifier(**{"hypotheses": Stumps(), **settings})
    with (
        config_context(skip_parameter_validation=skip),
        pytest.raises(ValueError, match=message),
    ):
        model.fit(X2, Y2, public=PUBLIC2)


def test_public_rows_must_be_given_and_public():
    with pytest.raises(InvalidDataError, match="public"):
        make().fit(X2, Y2)
    with pytest.raises(InvalidDataError, match="training rows"):
        make().fit(X2, Y2, public=X2)
    with pytest.raises(InvalidDataError, match="NaN"):
        make().fit(X2, Y2, public=[[np.nan, 1.0]])
    with pytest.raises(InvalidDataError, match="features"):
        make().fit(X2, Y2, public=[[1.0]])
    with pytest.raises(InvalidDataError, match="0 and 1"):
        make(Conjunctions()).fit(X2, Y2, public=[[0.0, 1.0]])


class WithPublicRows(RRSPMClassifier):
    """scikit-learn's checks know no public rows: three of the right width."""

    def fit(self, X, y, units=None):
        shape = np.asarray(X).shape
        width = shape[1] if len(shape) == 2 else 1
        public = np.outer([-1.0, 0.0, 1.0], np.ones(max(width, 1)))
        return super().fit(X, y, units, public=public)


@estimator_checks.parametrize_with_checks(
    [WithPublicRows(CUTS, 20.0, random_state=0)],
    expected_failed_checks=lambda _: {},
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
