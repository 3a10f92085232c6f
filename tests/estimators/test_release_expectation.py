"""What to expect of a release: said with a number before any noise is drawn."""

import json
import math
import warnings

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.datasets import load_diabetes, load_wine

from reticent.errors import InvalidDataError, NearChanceWarning, OnlyNoiseWarning
from reticent.estimators import ReleaseExpectation
from reticent.guarantees import gaussian_ratio
from reticent.learners import (
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    ObjectivePerturbationClassifier,
    OutputPerturbationClassifier,
    PrivateTabularClassifier,
    PrivateTabularRegressor,
)
from reticent.mechanisms import draw_rounded_gaussian
from reticent.prediction import PrivateNeighborsClassifier, PrivateNeighborsRegressor


@pytest.mark.parametrize("labels", [2, 5])
@pytest.mark.parametrize("columns", [1, 12])
@pytest.mark.parametrize("clearness", [0.3, 2.0, 40.0])
def test_labels_by_an_integral(labels, columns, clearness):
    found = ReleaseExpectation.of(clearness, labels=labels, units=10, columns=columns)
    # Two independent errors of a score, whose variances add up.
    pairs = labels * (labels - 1) / 2
    error = (pairs / clearness) ** 2 + (labels - 1) ** 2 / (3 * columns)
    kept, _ = quad(lambda u: 2 * norm.cdf(u / error**0.5) - 1, 0, 1)
    most, _ = quad(
        lambda u: 2 * norm.cdf(u * (3 * columns) ** 0.5 / (labels - 1)) - 1, 0, 1
    )
    assert found.kept == pytest.approx(kept / most, abs=1e-3)
    assert found.best == pytest.approx(1 / labels + kept * (1 - 1 / labels), abs=1e-3)


def test_numbers_and_the_ends():
    facts = {"units": 10, "columns": 3}
    assert ReleaseExpectation.of(2.0, labels=1, **facts).best == 0.5
    assert ReleaseExpectation.of(0.0, labels=1, **facts).best == -9
    assert ReleaseExpectation.of(0.0, labels=2, **facts).kept < 1e-5


def half_followed(n, columns, seed=0):
    """Rows of which a hidden number half determines every column, and that number."""
    rng = np.random.default_rng(seed)
    hidden = rng.uniform(-1, 1, n)
    return (hidden[:, None] + rng.uniform(-1, 1, (n, columns))) / 2, hidden


@pytest.mark.parametrize("clear", [10, 40, 150])
def test_trials_are_about_as_good_as_expected(clear):
    """The formula against fits on rows that it speaks of."""
    n = 300
    X, hidden = half_followed(n, 4)
    fresh, truth = half_followed(2000, 4, seed=1)
    epsilon = next(e for e in np.geomspace(0.01, 60, 400) if ratio(e) >= clear / n)
    right = []
    for seed in range(8):
        model = PrivateTabularClassifier(epsilon, classes=[0, 1], random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NearChanceWarning)
            model.fit(X, hidden > 0)
        right.append((model.predict(fresh) == (truth > 0)).mean())
    assert np.mean(right) == pytest.approx(model.expectation_.best, abs=0.1)


def ratio(epsilon):
    return gaussian_ratio(float(epsilon), 1e-6)


WINE, KINDS = load_wine(return_X_y=True)
BODIES, PROGRESS = load_diabetes(return_X_y=True)
RANGES = list(zip(WINE.min(axis=0), WINE.max(axis=0), strict=True))


def told(model, X, y):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [each.message for each in found]


@pytest.mark.parametrize(
    "model",
    [
        PrivateTabularClassifier(1.0, columns=RANGES, classes=[0, 1, 2]),
        PrivateNeighborsClassifier(1.0, columns=RANGES, classes=[0, 1, 2]),
        NoisyGradientClassifier(1.0, norm_bound=1000, classes=[0, 1, 2]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_wine_at_epsilon_one_is_warned_of_with_a_number(model):
    (warning,) = told(model, WINE, KINDS)
    assert isinstance(warning, NearChanceWarning)
    expected = f"about {100 * model.expectation_.best:.0f} answers in 100 are right"
    assert expected in str(warning)
    assert "guessing has 33" in str(warning)


@pytest.mark.parametrize(
    "model",
    [
        PrivateTabularRegressor(0.05, bounds=(0, 400)),
        PrivateNeighborsRegressor(0.05, bounds=(0, 400)),
        NoisyGradientRegressor(0.05, bounds=(0, 400), norm_bound=0.5),
    ],
    ids=lambda model: type(model).__name__,
)
def test_diabetes_at_a_small_epsilon_is_noise_and_said_to_be(model):
    (warning,) = told(model, BODIES, PROGRESS)
    assert isinstance(warning, OnlyNoiseWarning)
    assert "R2 is about -" in str(warning)
    assert "a constant answer has 0" in str(warning)


def test_where_no_model_is_released_nothing_is_said_about_one():
    model = PrivateNeighborsClassifier(1.0, columns=RANGES, classes=[0, 1, 2])
    assert not told(model.set_params(prior=False), WINE, KINDS)
    assert model.expectation_ is None


@pytest.mark.parametrize("kind", ["pure", "gaussian"])
def test_linear_models_of_both_kinds_of_noise_are_warned_of(kind):
    learner = {
        "pure": ObjectivePerturbationClassifier(1.0, classes=[False, True]),
        "gaussian": OutputPerturbationClassifier(
            1.0, delta=1e-6, classes=[False, True]
        ),
    }[kind]
    X, hidden = half_followed(80, 4)
    assert told(learner, X / 2, hidden > 0)
    learner.set_params(epsilon=500.0)
    assert not told(learner, X / 2, hidden > 0)


@pytest.mark.parametrize(
    "model",
    [PrivateTabularClassifier(0.01), PrivateNeighborsClassifier(0.01)],
    ids=["release", "lasting"],
)
def test_a_warning_that_is_an_error_stops_the_fit_before_noise(model, monkeypatch):
    def drawn(*_):
        raise AssertionError("noise was drawn")

    for place in ("estimators.partitions.rounds", "estimators.partitions.shares"):
        name = f"reticent.{place}.draw_rounded_gaussian"
        monkeypatch.setattr(name, drawn, raising=False)
    model.set_params(classes=[0, 1])
    X, hidden = half_followed(50, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OnlyNoiseWarning)
        with pytest.raises(OnlyNoiseWarning, match="50 units"):
            model.fit(X, (hidden > 0).astype(int))
    assert not hasattr(model, "certificate_")
    # Without it the same fit gets as far as drawing noise.
    assert draw_rounded_gaussian is not drawn
    with pytest.raises(AssertionError, match="noise was drawn"):
        model.fit(X, (hidden > 0).astype(int))


def test_many_labels_are_not_warned_of_where_noise_is_small():
    """What columns cannot tell apart is no fault of noise."""
    found = ReleaseExpectation.of(1e4, labels=7, units=400_000, columns=12)
    assert found.best < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.warn(1.0)
    noisy = ReleaseExpectation.of(5.0, labels=7, units=400, columns=12)
    with pytest.warns(NearChanceWarning):
        noisy.warn(1.0)


def test_large_tables_are_not_warned_of():
    X, hidden = half_followed(5000, 3)
    assert not told(PrivateTabularClassifier(1.0, classes=[0, 1]), X, hidden > 0)


def test_what_was_expected_is_kept_and_nothing_else_is_read():
    for labels in (1, 2, 7):
        known = {"labels": labels, "units": 300, "columns": 5}
        found = ReleaseExpectation.of(2.0, **known)
        kept = json.loads(json.dumps(found.as_dict()))
        assert ReleaseExpectation.from_dict(kept) == found
    sound = found.as_dict()
    for changes in (
        {"best": "x"},
        {"best": math.inf},
        {"best": math.nan},
        {"units": 0},
        {"units": 2.5},
        {"tried": 1},
        {"chance": 1.0},
        {"more": 1},
    ):
        with pytest.raises(InvalidDataError):
            ReleaseExpectation.from_dict({**sound, **changes})
    with pytest.raises(InvalidDataError):
        ReleaseExpectation.from_dict([1])
