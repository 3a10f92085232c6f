"""Exact verification accepts what is right and rejects what is not."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from reticent.audit import verify
from reticent.errors import CannotJudgeError, InvalidParameterError
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    PureDP,
    RobustGeneralization,
    Scope,
    UniformStability,
    ZeroOut,
    claim,
    repeat,
)
from reticent.mechanisms import SoftmaxResponse, geometric_vote, soft_vote
from reticent.prediction import PrivateVotingClassifier, ProjectedWalkClassifier
from tests.prediction.learners import Table

BINARY = list(product((0, 1), (0, 1)))
# One row with either label: every change of a vote, on an eighth of the datasets.
LABELS = BINARY[:2]
EPSILON = 0.7


def voting(rule="geometric", epsilon=EPSILON, **settings):
    return lambda: PrivateVotingClassifier(
        Table(), epsilon, (0, 1), 3, rule=rule, random_state=3, **settings
    )


def test_a_tight_rule_is_verified_rigorously():
    report = verify(voting(), BINARY, 3)
    assert report.holds
    assert report.rigorous
    assert report.tightness > 0.99
    assert report.datasets == 64
    assert "holds" in str(report)


@pytest.mark.parametrize("rule", ["soft", "permute-and-flip"])
def test_other_rules_hold(rule):
    assert verify(voting(rule), LABELS, 3).holds


def test_zcdp_and_delta_are_verified():
    make = voting("gaussian", delta=1e-3)
    assert verify(make, LABELS, 3).holds
    assert verify(make, LABELS, 3, claim=ApproxDP(EPSILON, 1e-3)).holds
    assert not verify(make, LABELS, 3, claim=ZCDP(1e-4)).holds


def test_a_smaller_claim_is_refuted():
    for claimed in (
        PureDP(0.99 * EPSILON),
        BoundedRange(0.9 * EPSILON),
        ApproxDP(0.5 * EPSILON, 1e-3),
        UniformStability(0.01),
    ):
        report = verify(voting(), LABELS, 3, claim=claimed)
        assert not report.holds
        assert "VIOLATED" in str(report)


def test_the_vote_with_factor_two_is_refuted():
    def doubled(model, queries):
        return soft_vote(model.ensemble_.votes(queries), 2 * EPSILON)

    assert not verify(voting("soft"), LABELS, 3, law=doubled).holds


def test_a_pure_rule_is_not_of_bounded_range():
    assert not verify(voting(), LABELS, 4, claim=BoundedRange(EPSILON)).holds


def test_add_remove_neighbours_are_compared():
    def make():
        return ProjectedWalkClassifier(
            EPSILON, error=0.9, classes=[0, 1], relation="add-remove"
        )

    report = verify(make, BINARY, 3, symmetric=True)
    assert report.holds
    assert report.tightness > 0.99


def test_a_law_that_can_exclude_a_label_is_refuted():
    class Certain(SoftmaxResponse):
        @property
        def log_probabilities(self):
            with np.errstate(divide="ignore"):
                return np.log((self.log_weights > 0).astype(float))

    def law(model, queries):
        votes = model.ensemble_.votes(queries)
        return Certain((votes[:, ::-1] < votes) * 1.0)

    assert not verify(voting(), LABELS, 3, law=law).holds


def test_wrong_uses_are_named():
    with pytest.raises(InvalidParameterError, match="neighbouring"):
        verify(voting(), BINARY, 3, claim=RobustGeneralization(0.1, 0.1))

    def zeroed():
        model = voting()()
        fit = model.fit

        def refit(X, y):
            fit(X, y)
            promised = claim(PureDP(9.0), ZeroOut(3), Scope.ANSWER, statement="a test")
            return SimpleNamespace(certificate_=promised, response=model.response)

        return SimpleNamespace(fit=refit)

    with pytest.raises(CannotJudgeError, match="zero out one unit of 3"):
        verify(zeroed, BINARY, 3)
    with pytest.raises(InvalidParameterError, match="smaller domain"):
        verify(voting(), [(x, y) for x in range(100) for y in (0, 1)], 4)


def test_a_geometric_vote_composes_as_certified():
    # Two answers to one query, exactly: the joint law loses at most twice epsilon.
    certificate = voting()().fit([[0], [1], [0]], [0, 1, 1]).certificate_
    twice = repeat(certificate, 2).guarantee.epsilon
    laws = geometric_vote([[3, 0], [2, 1], [1, 2], [0, 3]], EPSILON).log_probabilities
    joint = (laws[:, :, None] + laws[:, None, :]).reshape(4, -1)
    assert np.abs(np.diff(joint, axis=0)).max() <= twice * (1 + 1e-12)
