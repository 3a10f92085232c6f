"""A predictor that is nothing but its certificate, for kinds that no other has."""

from types import SimpleNamespace

import numpy as np

from reticent.guarantees import ReplaceOne, Scope, claim
from reticent.mechanisms import SystemSource

try:
    from reticent.prediction.law import AnswerLaw
except ImportError:  # predictors without a law of their own
    AnswerLaw = object


class _Law(AnswerLaw):
    def response(self, X):
        raise NotImplementedError

    def draw(self, X):
        return np.zeros(len(X), dtype=int)


class _Predictor(SimpleNamespace):
    __hash__ = object.__hash__

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


def stated(guarantee, n):
    """Return a predictor of zeros with this guarantee over n units."""
    certificate = claim(guarantee, ReplaceOne(n), Scope.ANSWER, statement="test")
    classes = np.array([0, 1])
    made = _Predictor(certificate_=certificate, classes_=classes)
    if AnswerLaw is not object:
        made.law_ = _Law(
            certificate=certificate, classes=classes, source=SystemSource()
        )
    return made
