"""How much can this overfit? One question for every certificate."""

import numpy as np
import pytest

from reticent.errors import InvalidParameterError, NoDerivationError
from reticent.generalization import (
    AdaptiveSession,
    CompressionClassifier,
    Ladder,
    ReusableHoldout,
    kept_examples,
    overfitting,
)
from reticent.guarantees import (
    ZCDP,
    AddRemove,
    ApproxDP,
    BoundedRange,
    PerfectGeneralization,
    PureDP,
    ReplaceOne,
    Sample,
    Scope,
    UniformStability,
    approx_to_robust,
    claim,
    compression,
    compression_to_robust,
    dp_to_group_perfect,
    finite_range,
    pure_to_perfect,
    pure_to_robust,
    recheck,
    repeat,
)

N = 10_000


def certified(guarantee, scope=Scope.MODEL, relation=None):
    return claim(guarantee, relation or ReplaceOne(N), scope, statement="test")


@pytest.mark.parametrize("kind", [PureDP, BoundedRange])
def test_pure_privacy_by_the_better_of_g10_and_g11(kind):
    release = certified(kind(0.05))
    found = overfitting(release, confidence=0.99)
    routes = [pure_to_robust(release, beta=0.01), approx_to_robust(release, beta=0.01)]
    assert found.bound == min(route.guarantee.epsilon for route in routes)
    assert found.robust.guarantee.delta == 0.01
    assert found.perfect == dp_to_group_perfect(release)
    recheck(found.robust)


def test_a_finite_range_makes_perfect_generalization_useful():
    release = certified(PureDP(0.01))
    found = overfitting(release, outputs=2)
    assert found.perfect == pure_to_perfect(release, outputs=2, beta=0.05)
    assert (
        found.perfect.guarantee.epsilon < overfitting(release).perfect.guarantee.epsilon
    )


def test_approximate_privacy_by_g11():
    release = certified(ApproxDP(0.05, 1e-9))
    assert overfitting(release).robust == approx_to_robust(release, beta=0.05)
    with pytest.raises(NoDerivationError, match="smaller epsilon"):
        overfitting(certified(ApproxDP(900.0, 1e-9)))


def test_concentrated_privacy_through_its_best_delta():
    found = overfitting(certified(ZCDP(1e-5)))
    assert 0 < found.bound < 0.2
    assert found.perfect is None
    # More noise, less overfitting.
    assert overfitting(certified(ZCDP(1e-6))).bound < found.bound


def test_answers_are_composed_first():
    answer = certified(PureDP(0.001), Scope.ANSWER)
    with pytest.raises(InvalidParameterError, match="answers="):
        overfitting(answer)
    found = overfitting(answer, answers=50)
    assert found.bound == overfitting(repeat(answer, 50)).bound
    assert found.bound > overfitting(answer, answers=5).bound


def test_add_remove_needs_the_number_of_units():
    release = certified(PureDP(0.01), relation=AddRemove())
    with pytest.raises(InvalidParameterError, match="n="):
        overfitting(release)
    doubled = overfitting(certified(PureDP(0.02))).bound
    assert overfitting(release, n=N).bound == doubled


def test_causes_of_robust_generalization():
    kept = kept_examples(scheme="test", kept=3, n=N, rows=N)
    assert overfitting(kept).robust.rule == "R1"
    listed = compression(kept=3, n=N)
    assert overfitting(listed).robust == compression_to_robust(listed, delta=0.05)
    few = finite_range(size=8, n=N, scope="model")
    assert overfitting(few).robust.rule == "G12"
    perfect = certified(PerfectGeneralization(0.001, 0.1, 0.0), relation=Sample(N))
    found = overfitting(perfect)
    assert found.robust.rule == "G17"
    assert found.perfect == perfect


def test_fitted_objects_answer_for_themselves():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 2)), rng.integers(0, 2, 500)
    model = CompressionClassifier("threshold").fit(X, y)
    assert overfitting(model).bound == model.certificate_.guarantee.epsilon
    session = AdaptiveSession(X, y, bits=10)
    assert overfitting(session).bound == session.bound
    assert overfitting(Ladder(y, step=0.1)).robust.rule == "G12"
    assert overfitting(ReusableHoldout(X, y, method="laplace")).robust.rule == "G10"
    assert "differs by at most" in str(overfitting(model))


def test_no_route_is_an_error_and_no_number():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 2)), rng.integers(0, 2, 500)
    with pytest.raises(NoDerivationError, match="G19 to G21"):
        overfitting(certified(UniformStability(0.1)))
    with pytest.raises(NoDerivationError, match="already says"):
        overfitting(ReusableHoldout(X, y).accuracy)
    model = CompressionClassifier("threshold", confidence=0.9).fit(X, y)
    with pytest.raises(NoDerivationError, match="again"):
        overfitting(model, confidence=0.95)
    with pytest.raises(InvalidParameterError, match="no certificate"):
        overfitting(CompressionClassifier())
