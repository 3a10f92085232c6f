"""Base learners that misbehave in one way each."""

from __future__ import annotations

import sys
import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

POISON = 666.0


class Majority(ClassifierMixin, BaseEstimator):
    """Predicts the label that is most frequent in its rows."""

    def fit(self, X, y):
        values, counts = np.unique(y, return_counts=True)
        self.classes_ = values
        self.answer_ = values[np.argmax(counts)]
        return self

    def predict(self, X):
        return np.full(len(X), self.answer_)


class Raises(Majority):
    """Never learns anything."""

    def fit(self, X, y):
        raise RuntimeError("no")


class RaisesOnPoison(Majority):
    """Fails if one certain record is among its rows."""

    def fit(self, X, y):
        if (np.asarray(X) == POISON).any():
            raise ValueError("a certain record is here")
        return super().fit(X, y)


class PredictsStranger(Majority):
    """Answers with a label that nobody declared."""

    def predict(self, X):
        return np.full(len(X), 99)


class RaisesOnRow(Majority):
    """Cannot answer for batches with one certain row in them."""

    def predict(self, X):
        if (np.asarray(X) == POISON).any():
            raise ValueError("a certain row is here")
        return super().predict(X)


class Panic(BaseException):
    """As the errors of libraries in Rust: not an Exception."""


class PanicsOnPoison(Majority):
    """Fails in the way of another language, while fitted or asked."""

    def fit(self, X, y):
        if (np.asarray(X) == POISON).any():
            raise Panic("a certain record is here")
        return super().fit(X, y)

    def predict(self, X):
        if (np.asarray(X) == POISON).any():
            raise Panic("a certain row is here")
        return super().predict(X)


class WrongShape(Majority):
    """Answers with too few labels."""

    def predict(self, X):
        return super().predict(X)[:-1]


class Noisy(Majority):
    """Warns and prints about what it sees."""

    def fit(self, X, y):
        warnings.warn("did not converge", ConvergenceWarning, stacklevel=1)
        sys.stdout.write("so many rows\n")
        sys.stderr.write("such rows\n")
        return super().fit(X, y)

    def predict(self, X):
        warnings.warn("strange rows", UserWarning, stacklevel=1)
        return super().predict(X)


class PlainObject:
    """No scikit-learn estimator, but it can fit and predict."""

    def fit(self, X, y):
        self.answer = y[0]
        return self

    def predict(self, X):
        return [self.answer] * len(X)
