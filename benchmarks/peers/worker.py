"""Runs inside the peers' environment: fit each job, print accuracies as JSON."""

import json
import sys
import time
import warnings

import numpy as np


def build(job, n_columns, low, high):
    name, epsilon, seed = job["model"], job["epsilon"], job["seed"]
    delta = job.get("delta", 1e-6)
    if name.startswith("diffprivlib"):
        import diffprivlib.models as models

        norm = float(np.sqrt((np.maximum(np.abs(low), np.abs(high)) ** 2).sum()))
        made = {
            "diffprivlib.GaussianNB": lambda: models.GaussianNB(
                epsilon=epsilon, bounds=(low, high), random_state=seed
            ),
            "diffprivlib.LogisticRegression": lambda: models.LogisticRegression(
                epsilon=epsilon,
                data_norm=job.get("data_norm", norm),
                C=job.get("C", 1.0),
                max_iter=1000,
                random_state=seed,
            ),
            "diffprivlib.RandomForestClassifier": lambda: models.RandomForestClassifier(
                n_estimators=job.get("n_estimators", 10),
                max_depth=job.get("max_depth", 5),
                epsilon=epsilon,
                bounds=(low, high),
                classes=job.get("classes", [0, 1]),
                random_state=seed,
            ),
            "diffprivlib.DecisionTreeClassifier": lambda: models.DecisionTreeClassifier(
                max_depth=job.get("max_depth", 5),
                epsilon=epsilon,
                bounds=(low, high),
                classes=job.get("classes", [0, 1]),
                random_state=seed,
            ),
            "diffprivlib.LinearRegression": lambda: models.LinearRegression(
                epsilon=epsilon,
                bounds_X=(low, high),
                bounds_y=tuple(job["bounds_y"]),
                random_state=seed,
            ),
        }
        return made[name]()
    from interpret.privacy import (
        DPExplainableBoostingClassifier,
        DPExplainableBoostingRegressor,
    )

    nominal = job.get("nominal", [])
    settings = {
        "epsilon": epsilon,
        "delta": delta,
        "random_state": seed,
        "learning_rate": job.get("learning_rate", 0.01),
        "n_jobs": 1,
        "privacy_bounds": {
            i: (low[i], high[i]) for i in range(n_columns) if i not in nominal
        },
    }
    if nominal:
        settings["feature_types"] = [
            "nominal" if i in nominal else "continuous" for i in range(n_columns)
        ]
    if "bounds_y" in job:
        return DPExplainableBoostingRegressor(
            **settings,
            privacy_target_min=job["bounds_y"][0],
            privacy_target_max=job["bounds_y"][1],
        )
    return DPExplainableBoostingClassifier(**settings)


def with_names(rows, nominal):
    """Return the rows with the codes of nominal columns as text."""
    if not nominal:
        return rows
    mixed = rows.astype(object)
    for column in nominal:
        mixed[:, column] = rows[:, column].astype(int).astype(str)
    return mixed


def main():
    warnings.simplefilter("ignore")
    with np.load(sys.argv[1]) as data:
        X, y, X_test, y_test = (data[k] for k in ("X", "y", "X_test", "y_test"))
        low, high = data["low"], data["high"]
    results = []
    for job in json.loads(sys.stdin.read()):
        start = time.perf_counter()
        try:
            nominal = job.get("nominal", [])
            model = build(job, X.shape[1], low, high).fit(with_names(X, nominal), y)
            fitted = time.perf_counter()
            answers = np.asarray(model.predict(with_names(X_test, nominal)))
            asked = time.perf_counter()
        except Exception as error:  # noqa: BLE001 (a peer's failure is a result)
            results.append({**job, "error": f"{type(error).__name__}: {error}"})
            continue
        if "bounds_y" in job:
            answers = np.clip(answers, *job["bounds_y"])
            residual = ((answers - y_test) ** 2).mean()
            score = {"r2": float(1 - residual / y_test.var())}
        else:
            score = {"accuracy": float((answers.astype(float) == y_test).mean())}
        results.append(
            {**job, **score, "fit_s": fitted - start, "predict_s": asked - fitted}
        )
    print(json.dumps(results))


if __name__ == "__main__":
    main()
