"""Runs in either environment: fit and ask one model, print time and memory as JSON."""

import json
import resource
import sys
import time
import warnings

import numpy as np


def build(kind, d):
    low, high = np.zeros(d), np.full(d, 1 / np.sqrt(d))
    if kind == "voting":
        from sklearn.linear_model import LogisticRegression

        from reticent.prediction import PrivateVotingClassifier

        return PrivateVotingClassifier(LogisticRegression(), 1.0, [0, 1], n_shards=100)
    if kind == "objective":
        from reticent.learners import ObjectivePerturbationClassifier

        return ObjectivePerturbationClassifier(1.0, classes=[0, 1])
    if kind == "gradient":
        from reticent.learners import NoisyGradientClassifier

        return NoisyGradientClassifier(1.0, delta=1e-6, classes=[0, 1])
    if kind == "tabular":
        from reticent.learners import PrivateTabularClassifier

        return PrivateTabularClassifier(
            1.0, classes=[0, 1], columns=list(zip(low, high, strict=True))
        )
    if kind == "sklearn":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression()
    if kind == "boosting":
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier()
    if kind == "ebm":
        from interpret.privacy import DPExplainableBoostingClassifier

        bounds = {k: (low[k], high[k]) for k in range(d)}
        return DPExplainableBoostingClassifier(
            epsilon=1.0, delta=1e-6, n_jobs=1, privacy_bounds=bounds
        )
    import diffprivlib.models as models

    if kind == "dpl_logistic":
        return models.LogisticRegression(epsilon=1.0, data_norm=1.0, max_iter=1000)
    if kind == "dpl_bayes":
        return models.GaussianNB(epsilon=1.0, bounds=(low, high))
    return models.RandomForestClassifier(
        epsilon=1.0, bounds=(low, high), classes=[0, 1], n_jobs=1
    )


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    warnings.simplefilter("ignore")
    with np.load(sys.argv[2]) as data:
        X, y, X_new, y_new = (data[name] for name in ("X", "y", "X_new", "y_new"))
    warm = build(sys.argv[1], X.shape[1]).fit(X[:1000], y[:1000])
    warm.predict(X[:10])
    before = peak_bytes()
    start = time.process_time()
    model = build(sys.argv[1], X.shape[1]).fit(X, y)
    fitted = time.process_time()
    model.predict(X)
    asked = time.process_time()
    print(
        json.dumps(
            {
                "fit seconds": fitted - start,
                "predict seconds": asked - fitted,
                "peak bytes above the rows": peak_bytes() - before,
                "accuracy": float((model.predict(X_new) == y_new).mean()),
            }
        )
    )


if __name__ == "__main__":
    main()
