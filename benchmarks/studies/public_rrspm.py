"""Excess error of releases that lean on public unlabelled points (S4, Alg. 4).

Three problems, each with one label in ten turned: a threshold at an unknown place, to
which all rows are within 1e-10; a stump among five features; a halfspace in the plane,
where logistic regression stands in for the oracle. Public rows are a mixture: with
probability sigma they come from the private population, else from a place where
private rows never are. So private rows are 1/sigma times as likely as public ones.

One of n (private rows), m (public rows), epsilon and sigma moves at a time. The bound
is `rrspm_error_at_most`, which fails with probability 0.05 at most; it is shown without
the part that a sample costs without privacy.

    nice python -m benchmarks.studies.public_rrspm [--quick]
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression

from reticent.hypotheses import Halfspaces, Stumps, Thresholds
from reticent.learners import (
    ExponentialMechanismClassifier,
    ObjectivePerturbationClassifier,
    PublicCoverClassifier,
    RRSPMClassifier,
    rrspm_error_at_most,
)

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "public_rrspm.json"
FIGURES = ROOT / "docs" / "figures"
TURNED, FEATURES, WIDTH, TESTED = 0.1, 5, 1e-10, 20_000
SEEDS = 60
SWEEPS = {
    "n": (300, 1000, 3000, 10_000, 30_000),
    "m": (10, 30, 100, 300, 1000),
    "epsilon": (0.1, 0.3, 1.0, 3.0, 10.0),
    "sigma": (0.1, 0.2, 0.5, 1.0),
}
CLASSES = [False, True]


@dataclass(frozen=True)
class Problem:
    """How rows are drawn, what labels them, and who learns it."""

    base: dict[str, float]
    place: Callable[[np.random.Generator], Any]
    rows: Callable[[np.random.Generator, int, Any, bool], np.ndarray]
    truth: Callable[[np.ndarray, Any], np.ndarray]
    learners: dict[str, Callable[..., Any]]
    bound: tuple[Any, int, str]


def threshold_rows(
    rng: np.random.Generator, count: int, place: float, away: bool
) -> np.ndarray:
    return place + WIDTH * (rng.random((count, 1)) - 0.5 + away)


def stump_rows(rng: np.random.Generator, count: int, _: Any, away: bool) -> np.ndarray:
    return rng.random((count, FEATURES)) + away


def plane_rows(rng: np.random.Generator, count: int, _: Any, away: bool) -> np.ndarray:
    return 0.7 * (2 * rng.random((count, 2)) - 1) + 1.4 * away


def rrspm(hypotheses: Any, scale_by: str) -> Callable[..., Any]:
    def fit(X: Any, y: Any, public: Any, epsilon: float, _: Any) -> Any:
        model = RRSPMClassifier(hypotheses, epsilon, scale_by=scale_by, classes=CLASSES)
        return model.fit(X, y, public=public)

    return fit


def cover(hypotheses: Any) -> Callable[..., Any]:
    def fit(X: Any, y: Any, public: Any, epsilon: float, _: Any) -> Any:
        model = PublicCoverClassifier(hypotheses, epsilon, classes=CLASSES)
        return model.fit(X, y, public=public)

    return fit


def line_without_public(X: Any, y: Any, _: Any, epsilon: float, __: Any) -> Any:
    model = ExponentialMechanismClassifier(
        Thresholds(), epsilon, bounds=(0, 2), classes=CLASSES
    )
    return model.fit(X, y)


def stumps_without_public(
    X: Any, y: Any, _: Any, epsilon: float, rng: np.random.Generator
) -> Any:
    """Cuts at random places of the declared box."""
    box = 2 * rng.random((100, FEATURES))
    model = ExponentialMechanismClassifier(
        Stumps(), epsilon, points=box, classes=CLASSES
    )
    return model.fit(X, y)


def plane_without_public(X: Any, y: Any, _: Any, epsilon: float, __: Any) -> Any:
    model = ObjectivePerturbationClassifier(epsilon, norm_bound=1.0, classes=CLASSES)
    return model.fit(X, y)


PROBLEMS = {
    "threshold at a hidden place": Problem(
        base={"n": 10_000, "m": 100, "epsilon": 1.0, "sigma": 1.0},
        place=lambda rng: 0.2 + 1.6 * rng.random(),
        rows=threshold_rows,
        truth=lambda X, place: X[:, 0] > place,
        learners={
            "RRSPM": rrspm(Thresholds(), "teaching"),
            "RRSPM at S4's scale": rrspm(Thresholds(), "points"),
            "listed labelings": cover(Thresholds()),
            "without public rows": line_without_public,
        },
        bound=(Thresholds(), 1, "teaching"),
    ),
    "stump among five features": Problem(
        base={"n": 10_000, "m": 100, "epsilon": 1.0, "sigma": 1.0},
        place=lambda rng: None,
        rows=stump_rows,
        truth=lambda X, _: X[:, 2] > 0.4,
        learners={
            "RRSPM": rrspm(Stumps(), "teaching"),
            "RRSPM at S4's scale": rrspm(Stumps(), "points"),
            "listed labelings": cover(Stumps()),
            "without public rows": stumps_without_public,
        },
        bound=(Stumps(), FEATURES, "teaching"),
    ),
    "halfspace, logistic regression as oracle": Problem(
        base={"n": 10_000, "m": 30, "epsilon": 1.0, "sigma": 1.0},
        place=lambda rng: None,
        rows=plane_rows,
        truth=lambda X, _: X @ [1.0, 0.5] > 0.1,
        learners={
            "RRSPM at S4's scale": rrspm(LogisticRegression(C=100.0), "points"),
            "without public rows": plane_without_public,
        },
        bound=(Halfspaces(), 2, "points"),
    ),
}


def trial(problem: Problem, seed: int, setting: dict[str, float]) -> dict[str, float]:
    """Return every learner's excess error: four fifths of where it is wrong."""
    rng = np.random.default_rng(seed)
    n, m = int(setting["n"]), int(setting["m"])
    place = problem.place(rng)
    X = problem.rows(rng, n, place, False)
    y = problem.truth(X, place) ^ (rng.random(n) < TURNED)
    near = rng.random(m) < setting["sigma"]
    public = np.where(
        near[:, None],
        problem.rows(rng, m, place, False),
        problem.rows(rng, m, place, True),
    )
    tested = problem.rows(rng, TESTED, place, False)
    right = problem.truth(tested, place)
    found = {}
    for name, fit in problem.learners.items():
        model = fit(X, y, public, setting["epsilon"], rng)
        wrong = float((model.predict(tested) != right).mean())
        found[name] = (1 - 2 * TURNED) * wrong
    return found


def bound(problem: Problem, setting: dict[str, float]) -> dict[str, float]:
    family, width, scale_by = problem.bound
    parts = rrspm_error_at_most(
        family,
        n=int(setting["n"]),
        m=int(setting["m"]),
        epsilon=setting["epsilon"],
        sigma=setting["sigma"],
        n_features=width,
        scale_by=scale_by,
    )
    return {
        "noise": parts.noise,
        "sampling": parts.sampling,
        "disagreement": parts.disagreement,
    }


def sweep(problem: Problem, name: str, seeds: int) -> dict[str, Any]:
    values = list(SWEEPS[name])
    excess: dict[str, dict[str, list[float]]] = {
        learner: {"mean": [], "half_width": []} for learner in problem.learners
    }
    bounds = []
    for value in values:
        setting = {**problem.base, name: value}
        runs = [trial(problem, seed, setting) for seed in range(seeds)]
        for learner, found in excess.items():
            drawn = np.array([run[learner] for run in runs])
            found["mean"].append(float(drawn.mean()))
            spread = 1.96 * drawn.std(ddof=1) / math.sqrt(seeds)
            found["half_width"].append(float(spread))
        bounds.append(bound(problem, setting))
    return {"values": values, "excess": excess, "bound": bounds}


def plot(result: dict[str, Any], folder: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = result["problems"]
    figure, axes = plt.subplots(
        len(rows), len(SWEEPS), figsize=(14, 9.5), sharey="row", squeeze=False
    )
    styles = {
        "RRSPM": ("C0", "o-"),
        "RRSPM at S4's scale": ("C3", "s--"),
        "listed labelings": ("C2", "^-"),
        "without public rows": ("0.35", "x:"),
    }
    labels = {
        "n": "private rows n",
        "m": "public rows m",
        "epsilon": "epsilon",
        "sigma": "sigma (share of public rows like private ones)",
    }
    for line, (problem, swept) in zip(axes, rows.items(), strict=True):
        for axis, (name, found) in zip(line, swept.items(), strict=True):
            for learner, curve in found["excess"].items():
                color, mark = styles[learner]
                axis.errorbar(
                    found["values"],
                    np.maximum(curve["mean"], 1e-5),
                    yerr=curve["half_width"],
                    fmt=mark,
                    color=color,
                    ms=4,
                    lw=1.4,
                    label=learner,
                )
            total = [part["noise"] + part["disagreement"] for part in found["bound"]]
            if min(total) < 1:  # else it says nothing
                axis.plot(found["values"], total, "k-", lw=0.8, label="bound for RRSPM")
            axis.set(xscale="log", yscale="log", xlabel=labels[name])
            axis.set_ylim(*((5e-5, 1.0) if len(found["excess"]) > 2 else (5e-3, 1.0)))
            axis.xaxis.label.set_size(9)
            axis.grid(alpha=0.3)
        line[0].set_ylabel(f"{problem}\n\nexcess error", fontsize=9)
        line[0].legend(fontsize=7, loc="lower left")
    figure.suptitle(
        "Releases with public unlabelled rows: n = 10,000, m = 100 (30 in the plane), "
        "epsilon = 1, sigma = 1 unless on the axis"
    )
    figure.tight_layout()
    figure.savefig(folder / "public_rrspm.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--plot-only", action="store_true")
    arguments = parser.parse_args()
    if arguments.plot_only:
        plot(json.loads(RESULTS.read_text()), FIGURES)
        return
    seeds = 3 if arguments.quick else SEEDS
    result = {
        "seeds": seeds,
        "turned_labels": TURNED,
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "sklearn": sklearn.__version__,
        },
        "base": {name: problem.base for name, problem in PROBLEMS.items()},
        "problems": {
            name: {swept: sweep(problem, swept, seeds) for swept in SWEEPS}
            for name, problem in PROBLEMS.items()
        },
    }
    if arguments.quick:
        print(json.dumps(result, indent=1))
        return
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    plot(result, FIGURES)


if __name__ == "__main__":
    main()
