"""Certificates of classes that label rows by functions of the caller (L1, M2, M4)."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from reticent.guarantees import recheck
from reticent.hypotheses import FiniteClass, Member
from reticent.learners import (
    ExponentialMechanismClassifier,
    PerfectlyGeneralizingClassifier,
    PerturbedERMClassifier,
    PublicCoverClassifier,
    RRSPMClassifier,
    RSPMClassifier,
)

N = 400
X = np.tile([[0.0], [1.0], [2.0], [3.0]], (N // 4, 1))
Y = (X[:, 0] > 1).astype(int)
POINTS = np.array([[0.0], [1.0], [2.0], [3.0]])
TABLE = FiniteClass.from_table(POINTS, [[0, 0, 0, 0], [0, 0, 1, 1]])
SETTINGS = {"classes": [0, 1]}


def above_the_others(X):
    return (X[:, 0] > X[:, 0].mean()).astype(int)


def below_the_others(X):
    return 1 - above_the_others(X)


FUNCTIONS = FiniteClass([above_the_others, below_the_others])


class Flipping(FiniteClass):
    def _labels(self, rows, members=None):
        return super()._labels(rows, members) ^ np.uint8(len(rows) % 2)


FLIPPING = Flipping([lambda X: (X[:, 0] > 1) * 1, lambda X: (X[:, 0] > 2) * 1])


def exponential(family):
    model = ExponentialMechanismClassifier(family, **SETTINGS)
    return model.fit(X, Y).certificate_


def permuted(family):
    model = ExponentialMechanismClassifier(
        family, selection="permute-and-flip", **SETTINGS
    )
    return model.fit(X, Y).certificate_


def covered(family):
    model = PublicCoverClassifier(family, **SETTINGS)
    return model.fit(X, Y, public=POINTS).certificate_


def perfect(family):
    return PerfectlyGeneralizingClassifier(family, **SETTINGS).fit(X, Y).certificate_


def perfectly_private(family):
    model = PerfectlyGeneralizingClassifier(family, **SETTINGS)
    return model.fit(X, Y).privacy_certificate_


def noisy_labels(family):
    model = RRSPMClassifier(family, **SETTINGS).fit(X, Y, public=POINTS)
    return model.certificate_


def gaussian_labels(family):
    model = RRSPMClassifier(family, delta=1e-6, noise="gaussian", **SETTINGS)
    return model.fit(X, Y, public=POINTS).certificate_


def identified(family):
    model = RSPMClassifier(family, points=POINTS, **SETTINGS)
    return model.fit(X, Y).certificate_


def averaged(family):
    model = PerturbedERMClassifier(family, repeats=20, **SETTINGS)
    return model.fit(X, Y, public=POINTS).certificate_


RELEASES = [exponential, permuted, covered, perfect, perfectly_private, noisy_labels]
RELEASES += [gaussian_labels, identified, averaged]


def codes(certificate):
    return {assumption.code for assumption in certificate.assumptions}


@pytest.mark.parametrize("release", RELEASES)
def test_functions_of_the_caller_are_assumed_to_read_one_row(release):
    assert release(TABLE).proved
    certificate = release(FUNCTIONS)
    assert codes(certificate) == {"ROWWISE_QUERIES"}
    recheck(certificate)


@pytest.mark.parametrize("release", [exponential, covered, perfect])
def test_a_subclass_is_not_the_librarys_class(release):
    assert codes(release(FLIPPING)) == {"ROWWISE_QUERIES"}


def test_what_one_unit_moves_is_certified_even_if_functions_compare_rows():
    # In one call with all rows, one far away unit would turn every label around.
    model = ExponentialMechanismClassifier(FUNCTIONS, 0.1, **SETTINGS).fit(X, Y)
    far = X.copy()
    far[0] = 1e9
    laws = [np.log(model.response(rows, Y).probabilities) for rows in (X, far)]
    assert np.abs(laws[0] - laws[1]).max() <= 0.1


def test_rounding_of_a_linear_rule_tells_nothing_about_other_rows(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        weights, one, other = rng.normal(size=(3, 7))
        alone = float((one[None] @ weights)[0])
        cuts = (np.nextafter(alone, -np.inf), alone, np.nextafter(alone, np.inf))
        family = FiniteClass(
            [lambda X, w=weights, cut=cut: (X @ w >= cut) * 1 for cut in cuts]
        )
        for rows in ([one, other], [other, one, other + 1]):
            place = 0 if len(rows) == 2 else 1
            labels = [family.predict(Member(k), rows)[place] for k in range(3)]
            assert labels == [1, 1, 0]


def test_frozen_parts_of_a_heuristic_are_assumed_public():
    assert codes(noisy_labels(LogisticRegression())) == {"EXACT_ORACLE"}
    scaler = FrozenEstimator(StandardScaler().fit(POINTS))
    certificate = noisy_labels(ScaledRegression(scaler))
    assert codes(certificate) == {"EXACT_ORACLE", "PUBLIC_PARTS"}
    recheck(certificate)


class ScaledRegression(LogisticRegression):
    """A classifier with a frozen part that takes weights, as pipelines do not."""

    def __init__(self, scaler=None):
        super().__init__()
        self.scaler = scaler

    def fit(self, X, y, sample_weight=None):
        return super().fit(self.scaler.transform(X), y, sample_weight)

    def predict(self, X):
        return super().predict(self.scaler.transform(X))
