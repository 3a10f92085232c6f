"""Compression learners: decoded bit for bit, consistent with scikit-learn (R1)."""

import json
import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.generalization import (
    BoostingScheme,
    CompressionClassifier,
    IntervalScheme,
    KeptExamples,
    PerceptronScheme,
    RectangleScheme,
    Scheme,
    SubsampleScheme,
    SVMScheme,
    ThresholdScheme,
)
from reticent.generalization.compression.scheme import constant, kept_rows
from reticent.guarantees import PUBLIC_LABELS, Sample, recheck
from reticent.hypotheses import Intervals, Thresholds

SCHEMES = [
    "threshold",
    "interval",
    "rectangle",
    "perceptron",
    "svm",
    "boosting",
    "subsample",
]
MANY_CLASSES = ["svm", "boosting", "subsample"]


def noisy_data(rng, n=120, d=3):
    X = rng.normal(size=(n, d))
    y = (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)
    return X, y


def tied_data(rng, n=120, d=3):
    """Few different values, repeated rows and labels that contradict each other."""
    X = rng.integers(0, 3, size=(n, d)).astype(float)
    return X, rng.integers(0, 2, n)


# Every check of scikit-learn passes, so there is no list of expected failures. One is
# skipped by scikit-learn itself (its array API is not switched on).
@parametrize_with_checks(
    [CompressionClassifier(scheme, random_state=0) for scheme in SCHEMES]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("make", [noisy_data, tied_data])
def test_decoding_the_kept_examples_gives_the_same_predictions(scheme, make, seed):
    rng = np.random.default_rng(seed)
    X, y = make(rng)
    model = CompressionClassifier(scheme, random_state=seed).fit(X, y)
    fresh = rng.normal(size=(500, X.shape[1]))
    kept = model.kept_
    # Through text, in another order, by an estimator that saw nothing but parameters.
    text = json.dumps([kept.X.tolist(), kept.y.tolist(), kept.side])
    rows, labels, side = json.loads(text)
    order = rng.permutation(len(kept))
    shuffled = KeptExamples(np.array(rows)[order], np.array(labels)[order], side)
    stranger = CompressionClassifier(scheme, random_state=99, classes=[0, 1])
    decoded = stranger.decode(shuffled)
    for points in (X, fresh):
        assert np.array_equal(decoded.predict(points), model.predict(points))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_pickle_holds_the_kept_examples_and_decodes_them(scheme):
    X, y = noisy_data(np.random.default_rng(1), n=300)
    model = CompressionClassifier(scheme, random_state=1).fit(X, y)
    text = pickle.dumps(model)
    assert np.array_equal(pickle.loads(text).predict(X), model.predict(X))
    assert "_labelling" not in model.__getstate__()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_counted_is_what_is_kept(scheme):
    X, y = noisy_data(np.random.default_rng(2))
    model = CompressionClassifier(scheme, random_state=2, classes=[0, 1]).fit(X, y)
    kept, (premise,) = model.kept_, model.certificate_.premises
    assert np.array_equal(kept.X, X[kept.indices])
    assert np.array_equal(kept.y, y[kept.indices])
    assert len(np.unique(kept.indices)) == len(kept) == premise.guarantee.kept
    # 121 possible training errors take 7 bits.
    assert premise.guarantee.side_bits == kept.side_bits + 7
    assert model.certificate_.relation == Sample(120)
    assert model.certificate_.proved
    recheck(model.certificate_)
    assert model.training_error_ == np.mean(model.predict(X) != y)
    bound = model.certificate_.guarantee.epsilon
    assert model.error_at_most_ == min(1.0, model.training_error_ + bound)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_limits_are_kept_and_announced(scheme):
    X, y = noisy_data(np.random.default_rng(3))
    natural = {"threshold": 1, "interval": 2, "rectangle": 6}
    asked = natural.get(scheme, 7)
    model = CompressionClassifier(scheme, max_kept=asked, random_state=3).fit(X, y)
    most = model.most_kept(*X.shape)
    assert len(model.kept_) <= most <= asked
    assert model.kept_.side_bits + 7 <= model.most_bits(*X.shape, 120)


@pytest.mark.parametrize("scheme", ["interval", "rectangle"])
def test_a_limit_below_the_shape_is_refused(scheme):
    X, y = noisy_data(np.random.default_rng(3))
    with pytest.raises(InvalidParameterError, match="max_kept=1"):
        CompressionClassifier(scheme, max_kept=1).fit(X, y)


@pytest.mark.parametrize("make", [noisy_data, tied_data])
@pytest.mark.parametrize("repetition", range(20))
def test_threshold_and_interval_make_the_fewest_mistakes(make, repetition):
    X, y = make(np.random.default_rng(repetition), n=25, d=1)
    column = X[:, 0]
    for scheme, best in [
        ("threshold", min(Thresholds().minimise(column, z).value for z in (y, 1 - y))),
        ("interval", Intervals(2, start="either").minimise(column, y).value),
    ]:
        model = CompressionClassifier(scheme).fit(X, y)
        assert np.sum(model.predict(X) != y) == best


def test_threshold_keeps_the_largest_positive_example():
    # S3 Thm 24: label 1 up to a point; the largest such example is the hypothesis.
    X = np.array([[0.1], [0.7], [0.4], [0.9]])
    y = np.array([1, 0, 1, 0])
    model = CompressionClassifier("threshold").fit(X, y)
    assert model.kept_.X.tolist() == [[0.4]]
    assert model.predict([[0.4], [0.41]]).tolist() == [1, 0]


@pytest.mark.parametrize("inside", [0, 1])
def test_rectangle_has_no_mistakes_if_a_box_fits(inside):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 3))
    y = np.where(((X > 0.2) & (X < 0.8)).all(axis=1), inside, 1 - inside)
    model = CompressionClassifier("rectangle").fit(X, y)
    assert model.training_error_ == 0
    assert len(model.kept_) <= 6


def test_rectangle_leaves_outliers_out():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 2))
    y = ((X > 0.3) & (X < 0.7)).all(axis=1).astype(int)
    y[0], X[0] = 1, [0.99, 0.01]
    model = CompressionClassifier("rectangle").fit(X, y)
    assert model.training_error_ <= 2 / 400  # a greedy search, not the best box
    assert model.predict([[0.99, 0.01]]) == [0]


def test_perceptron_separates_what_can_be_separated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    margin = X @ [1.0, -2.0, 0.5, 1.0] + 0.3
    X, y = X[abs(margin) > 0.5], (margin > 0)[abs(margin) > 0.5]
    model = CompressionClassifier("perceptron", random_state=0).fit(X, y)
    assert model.training_error_ == 0
    assert len(model.kept_) < 60


def test_perceptron_stands_huge_values():
    X = np.array([[1e200], [-1e200], [1e190], [-1e190]])
    model = CompressionClassifier("perceptron", random_state=0)
    assert model.fit(X, [1, 0, 1, 0]).training_error_ == 0


def test_svm_is_the_machine_of_its_support_vectors():
    X, y = make_classification(400, 4, class_sep=2.0, random_state=0)
    whole = SVC(kernel="linear").fit(X, y)
    scheme = SVMScheme(SVC(kernel="linear"))
    model = CompressionClassifier(scheme).fit(X, y)
    assert sorted(model.kept_.indices) == sorted(whole.support_)
    # The same solution up to the solver's tolerance.
    assert np.mean(model.predict(X) == whole.predict(X)) > 0.99


def test_svm_with_too_many_support_vectors_tries_subsets():
    X, y = noisy_data(np.random.default_rng(0), n=400)
    model = CompressionClassifier("svm", max_kept=20, random_state=0).fit(X, y)
    assert len(model.kept_) == 20
    assert model.training_error_ < 0.25


@pytest.mark.parametrize(
    "weak",
    [
        None,
        LogisticRegression(),
        GaussianNB(),
        KNeighborsClassifier(1),
        DecisionTreeClassifier(max_depth=1, splitter="random"),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=lambda weak: type(weak).__name__,
)
def test_boosting_works_with_any_weak_learner(weak):
    X, y = load_iris(return_X_y=True)
    scheme = BoostingScheme(weak, rounds=8, examples=6)
    model = CompressionClassifier(scheme, random_state=0).fit(X, y)
    assert model.training_error_ < 0.2
    again = clone(model).set_params(classes=[0, 1, 2]).decode(model.kept_)
    assert np.array_equal(again.predict(X), model.predict(X))


def test_boosting_beats_its_weak_learner():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    weak = DecisionTreeClassifier(max_depth=2)
    one, many = (
        CompressionClassifier(
            BoostingScheme(weak, rounds=rounds, examples=8), random_state=0
        )
        for rounds in (1, 30)
    )
    assert many.fit(X, y).training_error_ < one.fit(X, y).training_error_ - 0.02


def test_a_weak_learner_that_fails_votes_for_the_usual_label():
    class Fails(DecisionTreeClassifier):
        def fit(self, X, y):
            raise ValueError

    X, y = noisy_data(np.random.default_rng(0))
    model = CompressionClassifier(BoostingScheme(Fails()), random_state=0).fit(X, y)
    assert len(np.unique(model.predict(X))) == 1


def test_smallest_bound_keeps_less_than_smallest_error():
    X, y = noisy_data(np.random.default_rng(0), n=500)
    for scheme in ("perceptron", "boosting"):
        error, bound = (
            CompressionClassifier(scheme, minimise=what, random_state=0).fit(X, y)
            for what in ("error", "bound")
        )
        assert error.training_error_ <= bound.training_error_
        assert bound.error_at_most_ <= error.error_at_most_


def test_an_unreported_error_is_not_there_and_costs_nothing():
    X, y = noisy_data(np.random.default_rng(0))
    loud = CompressionClassifier("threshold").fit(X, y)
    quiet = CompressionClassifier("threshold", report_error=False).fit(X, y)
    assert not hasattr(quiet, "training_error_")
    assert not hasattr(quiet, "error_at_most_")
    smaller = quiet.certificate_.guarantee.epsilon
    assert smaller < loud.certificate_.guarantee.epsilon


def test_rows_of_one_unit_count_once():
    X, y = noisy_data(np.random.default_rng(0), n=200)
    rows = np.repeat(np.arange(200), 3)
    single = CompressionClassifier("threshold").fit(X, y)
    model = CompressionClassifier("threshold").fit(X[rows], y[rows], units=rows)
    assert model.n_units_ == 200
    assert model.certificate_.relation == Sample(200)
    assert model.training_error_ == single.training_error_
    # Which of three rows is kept takes two bits more.
    bits = [m.certificate_.premises[0].guarantee.side_bits for m in (single, model)]
    assert bits[1] == bits[0] + 2


def test_labels_read_from_the_data_make_the_certificate_conditional():
    X, y = noisy_data(np.random.default_rng(0))
    model = CompressionClassifier("threshold").fit(X, y)
    assert model.certificate_.assumptions == {PUBLIC_LABELS}


@pytest.mark.parametrize("scheme", MANY_CLASSES)
def test_string_labels_and_classes_without_examples(scheme):
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    model = CompressionClassifier(scheme, classes=["d", "c", "b", "a"], random_state=0)
    model.fit(X, names)
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    assert model.score(X, names) > 0.8


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_label_in_the_data_is_learned(scheme):
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = CompressionClassifier(scheme, classes=[0, 1], random_state=0)
    assert model.fit(X, np.ones(40, dtype=int)).training_error_ == 0


def test_grid_search_reaches_into_a_scheme():
    X, y = noisy_data(np.random.default_rng(0), n=200)
    search = GridSearchCV(
        CompressionClassifier(SubsampleScheme(), random_state=0),
        {"scheme__examples": [4, 16]},
        cv=3,
    ).fit(X, y)
    assert search.best_params_["scheme__examples"] in (4, 16)


class MajorityScheme(Scheme):
    """A scheme of one's own: keep one example, predict its label."""

    def most(self, n_rows, n_features):
        return 1

    def sizes(self, most):
        return 1

    def most_bits(self, most):
        return 0

    def compress(self, data, most, source):
        usual = np.bincount(data.y).argmax()
        row = np.flatnonzero(data.y == usual)[:1]
        yield kept_rows(row, data.mistakes(np.full(len(data), usual)))

    def decode(self, kept, side):
        return constant(int(kept.y[0]))


def test_a_scheme_of_ones_own_gets_its_certificate():
    X, y = noisy_data(np.random.default_rng(0))
    model = CompressionClassifier(MajorityScheme()).fit(X, y)
    assert len(np.unique(model.predict(X))) == 1
    premise = model.certificate_.premises[0]
    assert premise.parameter("scheme") == "MajorityScheme"


class OwnThreshold(ThresholdScheme):
    pass


OWN = [
    SubsampleScheme(DecisionTreeClassifier(max_depth=3)),
    SVMScheme(SVC()),
    BoostingScheme(DecisionTreeClassifier(max_depth=1)),
    MajorityScheme(),
    OwnThreshold(),
]


@pytest.mark.parametrize("scheme", OWN, ids=repr)
def test_a_decoder_of_ones_own_is_assumed_to_be_fixed_in_advance(scheme):
    X, y = noisy_data(np.random.default_rng(0))
    settings = {"classes": np.unique(y), "random_state": 0}
    certificate = CompressionClassifier(scheme, **settings).fit(X, y).certificate_
    assert [each.code for each in certificate.assumptions] == ["FIXED_DECODER"]
    recheck(certificate)


@pytest.mark.parametrize("scheme", ["subsample", "svm", "boosting", "threshold"])
def test_the_librarys_decoders_are_proved(scheme):
    X, y = noisy_data(np.random.default_rng(0))
    settings = {"classes": np.unique(y), "random_state": 0}
    for given in (scheme, CompressionClassifier(scheme)._scheme()):
        certificate = CompressionClassifier(given, **settings).fit(X, y).certificate_
        assert certificate.proved
        recheck(certificate)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"scheme": "nearest"}, "scheme='nearest'"),
        ({"scheme": "threshold", "confidence": float("nan")}, "confidence"),
        ({"scheme": "threshold", "minimise": "time"}, "minimise='time'"),
        ({"scheme": "boosting", "max_kept": 0}, "max_kept=0"),
        ({"scheme": BoostingScheme(rounds=0)}, "rounds=0"),
        ({"scheme": BoostingScheme(weight_bits=1.5)}, "weight_bits=1.5"),
        ({"scheme": SubsampleScheme(draws=0)}, "draws=0"),
        ({"scheme": SubsampleScheme(examples=0)}, "examples=0"),
        ({"scheme": SVMScheme(draws=0)}, "draws=0"),
        ({"scheme": PerceptronScheme(passes=0)}, "passes=0"),
        ({"scheme": ThresholdScheme(feature=5)}, "feature=5"),
        ({"scheme": IntervalScheme(feature=-1)}, "feature=-1"),
        ({"scheme": SVMScheme(DecisionTreeClassifier())}, "support_"),
    ],
)
def test_bad_parameters_are_refused_even_with_checks_off(parameters, match):
    X, y = noisy_data(np.random.default_rng(0))
    with (
        config_context(skip_parameter_validation=True),
        pytest.raises(InvalidParameterError, match=match),
    ):
        CompressionClassifier(**parameters).fit(X, y)


def test_bad_data_is_refused():
    X, y = noisy_data(np.random.default_rng(0))
    with pytest.raises(InvalidDataError, match="two classes"):
        CompressionClassifier("threshold").fit(X, np.zeros(len(X)))
    with pytest.raises(InvalidDataError, match="binary"):
        CompressionClassifier("threshold").fit(X, np.arange(len(X)) % 3)
    with pytest.raises(InvalidDataError, match="not in `classes`"):
        CompressionClassifier("threshold", classes=[1, 2]).fit(X, y)


def test_decoder_refuses_what_its_encoder_did_not_write():
    X, y = noisy_data(np.random.default_rng(0))
    model = CompressionClassifier("boosting", classes=[0, 1], random_state=0).fit(X, y)
    kept = model.kept_
    with pytest.raises(InvalidDataError, match="not read"):
        model.decode(KeptExamples(kept.X, kept.y, kept.side + "0"))
    with pytest.raises(InvalidDataError, match="ends before"):
        model.decode(KeptExamples(kept.X, kept.y, kept.side[:-1]))
    with pytest.raises(InvalidDataError, match="outside `classes`"):
        model.decode(KeptExamples(kept.X, kept.y + 5, kept.side))
    with pytest.raises(InvalidDataError, match="2 features"):
        model.decode(kept).predict([[0.0, 0.0]])
    with pytest.raises(InvalidDataError, match="shape"):
        KeptExamples(np.zeros(3), np.zeros(3))
    for scheme in (ThresholdScheme(), RectangleScheme(), PerceptronScheme()):
        with pytest.raises(InvalidDataError, match="decode"):
            CompressionClassifier(scheme, classes=[0, 1]).decode(
                KeptExamples(np.zeros((0, 2)), np.zeros(0, dtype=int))
            )
