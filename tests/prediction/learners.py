"""Deterministic base learners for exact verification, well-behaved and not."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Table(ClassifierMixin, BaseEstimator):
    """Predict the majority label of equal rows; ties and new rows get label 1."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        keys = [tuple(row) for row in np.asarray(X).tolist()]
        self.counts_ = dict.fromkeys(keys, 0)
        for key, label in zip(keys, np.asarray(y).tolist(), strict=True):
            self.counts_[key] += 2 * label - 1
        return self

    def predict(self, X):
        rows = [tuple(row) for row in np.asarray(X).tolist()]
        return np.array([int(self.counts_.get(row, 0) >= 0) for row in rows])


class RaisesOnRecord(Table):
    """Refuse to train when a certain record is present."""

    def fit(self, X, y):
        if ((np.asarray(X)[:, 0] == 1) & (np.asarray(y) == 1)).any():
            raise RuntimeError("record seen")
        return super().fit(X, y)


class AlwaysRaises(Table):
    def fit(self, X, y):
        raise RuntimeError("always")


class RaisesAtQuery(Table):
    """Refuse to answer about 1 when trained on some label 0."""

    def predict(self, X):
        if min(self.counts_.values()) < 0 and (np.asarray(X) == 1).any():
            raise RuntimeError("query")
        return super().predict(X)


class UnseenLabel(Table):
    """Answer with a label nobody declared."""

    def predict(self, X):
        return super().predict(X) + 7


class LabelCount(Table):
    """Predict the number of training labels modulo three: for three labels."""

    def fit(self, X, y):
        self.total_ = int(np.asarray(y).sum() + np.asarray(X).sum())
        return self

    def predict(self, X):
        return np.full(len(X), self.total_ % 3)
