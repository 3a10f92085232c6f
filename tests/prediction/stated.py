"""A predictor that is nothing but its certificate, for kinds that no other has."""

from types import SimpleNamespace

import numpy as np

from reticent.guarantees import ReplaceOne, Scope, claim
from reticent.mechanisms import SystemSource
from reticent.prediction import AnswerLaw


class _Law(AnswerLaw):
    def response(self, X):
        raise NotImplementedError  # nothing but zeros is drawn

    def draw(self, X):
        return np.zeros(len(X), dtype=int)


def stated(guarantee, n):
    """Return a predictor of zeros with this guarantee over n units."""
    certificate = claim(guarantee, ReplaceOne(n), Scope.ANSWER, statement="test")
    classes = np.array([0, 1])
    law = _Law(certificate=certificate, classes=classes, source=SystemSource())
    return SimpleNamespace(law_=law, certificate_=certificate, classes_=classes)
