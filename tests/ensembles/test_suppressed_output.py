"""Models say nothing when asked: how many could be trained is nobody's business."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from reticent.ensembles import train_ensemble
from reticent.ensembles.suppressed_output import silence
from reticent.estimators import Labels, partition_rows
from reticent.mechanisms import noise_source

X, Y = make_classification(n_samples=120, n_features=4, random_state=0)
FOREST = RandomForestClassifier(2, verbose=1, random_state=0)


class Talks(ClassifierMixin, BaseEstimator):
    """Reports what it does, if asked for."""

    def __init__(self, verbosity=0):
        self.verbosity = verbosity

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        if self.verbosity:
            sys.stdout.write(f"{len(X)} rows\n")
        return np.zeros(len(X), dtype=int)


@pytest.mark.parametrize(
    "estimator",
    [
        FOREST,
        make_pipeline(FunctionTransformer(np.abs), FOREST),
        BaggingClassifier(FOREST, n_estimators=2),
        FrozenEstimator(RandomForestClassifier(2, verbose=1).fit(X, Y)),
        make_pipeline(FrozenEstimator(StandardScaler().fit(X)), Talks("auto")),
        Talks(2),
    ],
    ids=["forest", "pipeline", "bagging", "frozen", "word", "other name"],
)
def test_verbose_models_are_not_heard(estimator, capfd):
    source = noise_source(0)
    partition = partition_rows(len(Y), 3, source)
    ensemble = train_ensemble(estimator, X, Y, partition, source, Labels([0, 1]))
    assert not ensemble.failures
    capfd.readouterr()
    # More rows than arrays answer for: the models are asked.
    ensemble.votes(np.tile(X, (20, 1)))
    ensemble.votes(X, fused=False)
    assert capfd.readouterr() == ("", "")


def test_the_callers_estimator_keeps_its_parameters():
    frozen = make_pipeline(FrozenEstimator(FOREST.fit(X, Y)), Talks(1))
    source = noise_source(0)
    partition = partition_rows(len(Y), 3, source)
    train_ensemble(frozen, X, Y, partition, source, Labels([0, 1]))
    assert (FOREST.verbose, frozen[-1].verbosity) == (1, 1)


def test_only_what_is_loud_is_changed():
    quiet = make_pipeline(LGBMClassifier(verbose=-1), LogisticRegression())
    before = quiet.get_params()
    silence(quiet)
    assert quiet.get_params() == before
    loud = make_pipeline(LGBMClassifier(verbose=3), LogisticRegression(verbose=2))
    loud.set_params(verbose=True)
    silence(loud)
    assert loud.verbose is False
    assert (loud[0].get_params()["verbose"], loud[1].verbose) == (0, 0)
