"""PublicCoverClassifier: a cover of public points, exactly private (L4)."""

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.utils import estimator_checks

from reticent.errors import InvalidDataError
from reticent.guarantees import BoundedRange, Scope, recheck
from reticent.hypotheses import Halfspaces, Intervals, Rectangles, Stumps, Thresholds
from reticent.learners import ExponentialMechanismClassifier, PublicCoverClassifier
from reticent.learners.public.cover import cover_of
from tests.learners.enumeration import (
    CUTS,
    arrays,
    assert_private,
    laws,
    widest_range,
)
from tests.stats import assert_follows, rejects

EPSILON = 0.7
PUBLIC = np.array([[0.5], [1.5], [0.5]])


def make(family=None, **settings):
    family = Thresholds("either") if family is None else family
    return PublicCoverClassifier(family, EPSILON, classes=[0, 1], **settings)


def law_of(model):
    def law(data):
        return model.response(*arrays(data), public=PUBLIC).probabilities[0]

    return law


@pytest.mark.parametrize("radius", [0.0, 0.5])
@pytest.mark.parametrize("selection", ["exponential", "permute-and-flip"])
def test_one_replaced_unit_costs_at_most_epsilon(radius, selection):
    table = laws(law_of(make(radius=radius, selection=selection)), 4)
    assert_private(table, EPSILON)
    assert rejects(assert_private, table, 0.4 * EPSILON)
    if selection == "exponential":
        assert widest_range(table) <= EPSILON * (1 + 1e-9)


@pytest.mark.parametrize(
    "family",
    [Thresholds(), Intervals(2), Stumps(), Rectangles(), Halfspaces()],
    ids=lambda family: type(family).__name__,
)
@pytest.mark.parametrize("radius", [0.1, 0.3])
def test_every_labeling_is_near_a_kept_one(family, radius):
    width = 1 if isinstance(family, Thresholds | Intervals) else 2
    points = np.random.default_rng(0).random((12, width))
    projection = family.on(width).project(points)
    kept = cover_of(projection, radius)
    labels = projection.labels.astype(int)
    distance = (labels[:, None] != labels[kept][None]).mean(axis=2).min(axis=1)
    assert distance.max() <= radius
    assert len(kept) < len(projection)
    # No two kept ones are that near: the cover is no larger than a packing.
    among = (labels[kept][:, None] != labels[kept][None]).mean(axis=2)
    assert (among[~np.eye(len(kept), dtype=bool)] > radius).all()


def test_the_cover_ignores_order_and_copies_of_public_points():
    points = np.random.default_rng(1).random((9, 2))
    model = make(Halfspaces())
    first = list(model.candidates(points).projection)
    again = list(model.candidates(np.vstack([points[::-1], points])).projection)
    assert first == again


def test_it_equals_the_exponential_mechanism_on_the_same_points():
    X, y = arrays([(0.0, 0), (1.0, 1), (2.0, 0)])
    other = ExponentialMechanismClassifier(
        Thresholds("either"), EPSILON, points=PUBLIC, classes=[0, 1]
    )
    np.testing.assert_array_equal(
        make().response(X, y, public=PUBLIC).log_probabilities,
        other.response(X, y).log_probabilities,
    )


def test_draws_follow_the_response():
    X, y = arrays([(0.0, 0), (1.0, 1), (2.0, 0)])
    model = make(random_state=np.random.RandomState(0))
    law = model.response(X, y, public=PUBLIC).probabilities[0]
    listed = list(model.candidates(PUBLIC).projection)
    drawn = [
        listed.index(model.fit(X, y, public=PUBLIC).hypothesis_) for _ in range(500)
    ]
    assert_follows(np.bincount(drawn, minlength=len(law)), law)


def test_it_learns_what_no_private_learner_learns_alone():
    # All private rows within 1e-6 of a place unknown in advance; public rows from the
    # same population find it.
    rng = np.random.default_rng(2)
    place = 0.123456789
    X = place + 1e-6 * rng.standard_normal((800, 1))
    public = place + 1e-6 * rng.standard_normal((60, 1))
    y = (X[:, 0] > place).astype(int)
    model = PublicCoverClassifier(Thresholds(), 1.0, classes=[0, 1])
    assert (model.fit(X, y, public=public).predict(X) == y).mean() > 0.85
    assert model.certificate_.guarantee == BoundedRange(1.0)
    assert model.certificate_.scope is Scope.MODEL
    recheck(model.certificate_)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_penalty_prefers_simple_hypotheses():
    X, y = arrays([(0.0, 0), (1.0, 1), (2.0, 0)] * 5)
    heavy = make(Intervals(2), penalty=lambda h: 5.0 * len(h.ends))
    law = heavy.response(X, y, public=PUBLIC).probabilities[0]
    ends = [len(h.ends) for h in heavy.candidates(PUBLIC).projection]
    assert law[np.array(ends) == 0].sum() > 0.999


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"radius": -0.1}, "radius"),
        ({"radius": 1.0}, "radius"),
        ({"radius": float("nan")}, "radius"),
        ({"selection": "best"}, "selection"),
        ({"hypotheses": 3}, "hypotheses"),
        ({"classes": ["a", "b", "c"]}, "labels|classes|binary"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_mistakes_are_named(settings, message, skip):
    X, y = arrays([(0.0, 0), (1.0, 1), (2.0, 1)])
    model = PublicCoverClassifier(**{"hypotheses": Thresholds(), **settings})
    with (
        config_context(skip_parameter_validation=skip),
        pytest.raises(ValueError, match=message),
    ):
        model.fit(X, y, public=PUBLIC)


def test_public_rows_must_be_given_and_public():
    X, y = arrays([(0.0, 0), (1.0, 1)])
    with pytest.raises(InvalidDataError, match="public"):
        make().fit(X, y)
    with pytest.raises(InvalidDataError, match="training rows"):
        make().fit(X, y, public=X)
    with pytest.raises(InvalidDataError, match="NaN"):
        make().fit(X, y, public=[[np.nan]])
    with pytest.raises(InvalidDataError):
        make(Stumps()).fit(X, y, public=[[0.0, 1.0]])


class WithPublicRows(PublicCoverClassifier):
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
