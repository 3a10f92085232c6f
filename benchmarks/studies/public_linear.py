"""Regularised minimisation with public rows: excess error, and what was promised.

Private rows are Gaussian in five dimensions with noisy linear labels; public rows have
no labels, and all but a share sigma of them come from elsewhere, so that private rows
have a density of 1/sigma relative to them. Measured is the excess error of released
linear classifiers over the best one, against the number of private rows n, of public
rows m, epsilon and sigma; next to output perturbation and noisy gradients, which use no
public rows, and to M3 with S4's rate of the sensitivity alone. The bound is on the
excess of the loss and not of the error; the loss's own excess is drawn with it.

    python -m benchmarks.studies.public_linear [--quick]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from reticent.estimators import LinearFacts
from reticent.learners import (
    NoisyGradientClassifier,
    OutputPerturbationClassifier,
    RegularizedERMClassifier,
    regularized_excess_at_most,
)
from reticent.learners.public.linear_plan import RegularizedPlan, UnitLoss
from reticent.mechanisms import noise_source

RESULTS = Path(__file__).parent.parent / "results" / "public_linear.json"
FIGURE = Path(__file__).parents[2] / "docs" / "figures" / "public_linear.png"
DIMENSION, NORM, RADIUS, DELTA = 5, 3.0, 5.0, 1e-6
TRUTH = np.array([1.0, -0.8, 0.6, -0.4, 0.2])
CENTRE = {"n": 20_000, "m": 1000, "epsilon": 1.0, "sigma": 0.5}
AXES = {
    "n": [1000, 3000, 10_000, 30_000, 100_000],
    "m": [30, 100, 300, 1000, 3000],
    "epsilon": [0.1, 0.3, 1.0, 3.0, 10.0],
    "sigma": [0.02, 0.05, 0.1, 0.25, 0.5, 1.0],
}


def private_rows(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, DIMENSION))
    return X, (X @ TRUTH + 0.5 * rng.normal(size=n) > 0).astype(int)


def public_rows(m: int, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """A mixture: with chance sigma a private row's law, else one far aside.

    Its density is at least sigma times the private one, so that sigma is exact.
    """
    rows = rng.normal(size=(m, DIMENSION))
    aside = rng.random(m) >= sigma
    rows[aside] = 0.3 * rows[aside] + np.array([2.0, 2.0, 0.0, 0.0, 0.0])
    return rows


def released(
    point: dict[str, float], seed: int, test: tuple[np.ndarray, np.ndarray]
) -> dict[str, float]:
    """Excess errors of all methods at one point, with one seed."""
    rng = np.random.default_rng([seed, int(point["n"]), int(point["m"])])
    X, y = private_rows(int(point["n"]), rng)
    Z = public_rows(int(point["m"]), point["sigma"], rng)
    known = {"norm_bound": NORM, "classes": [0, 1], "random_state": seed}
    epsilon = point["epsilon"]
    public = {"radius": RADIUS, "fit_intercept": False, **known}
    gaussian = RegularizedERMClassifier(epsilon, delta=DELTA, **public)
    laplace = RegularizedERMClassifier(epsilon, delta=0.0, **public)
    found = {
        "public rows, Gaussian": gaussian.fit(X, y, public=Z),
        "public rows, Laplace (pure)": laplace.fit(X, y, public=Z),
        "output perturbation": OutputPerturbationClassifier(
            epsilon, delta=DELTA, fit_intercept=False, **known
        ).fit(X, y),
        "noisy gradient": NoisyGradientClassifier(
            epsilon, delta=DELTA, fit_intercept=False, **known
        ).fit(X, y),
    }
    rows, labels = test
    best = np.mean((rows @ TRUTH > 0) == labels)
    scores = {name: best - model.score(rows, labels) for name, model in found.items()}
    plain = plain_rate(gaussian, X, y, Z)
    scores["public rows, S4's rate"] = best - np.mean((rows @ plain > 0) == labels)
    return {**scores, **losses(gaussian, test, point)}


def plain_rate(
    model: RegularizedERMClassifier, X: np.ndarray, y: np.ndarray, Z: np.ndarray
) -> np.ndarray:
    """Coefficients of M3 with the move 1/sqrt(eta n) alone, as S4's but for its 2."""
    rows, public = inside(X), inside(Z)
    facts = LinearFacts(
        n_units=len(rows),
        dimension=DIMENSION,
        l1_bound=DIMENSION**0.5,
        feature_bound=1.0,
        labels_from_data=False,
        seeded=True,
    )
    plan = RegularizedPlan.of(model, facts, n_public=len(public), leverage=None)
    weights = np.full(len(rows), 1 / len(rows))
    exact = plan.values(rows, y.astype(float), weights, public)
    noisy = plan.noisy(exact, noise_source(model.random_state))
    return plan.project(public, noisy)


def inside(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(NORM, np.linalg.norm(rows, axis=1))[:, None]


def losses(
    model: RegularizedERMClassifier,
    test: tuple[np.ndarray, np.ndarray],
    point: dict[str, float],
) -> dict[str, float]:
    """The excess of the scaled loss, and its bound."""
    loss = UnitLoss.of("logistic", 1.0, RADIUS)
    rows, labels = test
    bounded, targets = inside(rows), labels.astype(float)
    here = loss.value(bounded @ (NORM * model.coef_[0]), targets).mean()
    sizes = np.linspace(0.1, RADIUS, 50)
    unit = TRUTH / np.linalg.norm(TRUTH)
    best = min(loss.value(bounded @ (size * unit), targets).mean() for size in sizes)
    bound = regularized_excess_at_most(
        n=int(point["n"]),
        m=int(point["m"]),
        dimension=DIMENSION,
        eta=model.regularization_,
        noise_scale=model.noise_scale_,
        reach=RADIUS,
        slope=loss.slope,
        smoothness=point["sigma"],
    )
    return {"excess loss": float(here - best), "bound on the loss": bound}


def study(seeds: int, *, quick: bool) -> dict[str, object]:
    test = private_rows(50_000, np.random.default_rng(12345))
    found: dict[str, object] = {"centre": CENTRE, "seeds": seeds, "delta": DELTA}
    for axis, every in AXES.items():
        rows, values = [], every[1:4:2] if quick else every
        for value in values:
            point = {**CENTRE, axis: value}
            runs = [released(point, seed, test) for seed in range(seeds)]
            row = {
                name: {
                    "mean": float(np.mean([run[name] for run in runs])),
                    "standard_error": float(
                        np.std([run[name] for run in runs], ddof=1) / np.sqrt(seeds)
                    ),
                }
                for name in runs[0]
            }
            rows.append({axis: value, **row})
            print(
                axis,
                value,
                {k: round(v["mean"], 4) for k, v in row.items()},
                flush=True,
            )
        found[axis] = rows
    return found


def draw(found: dict) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
    for axis, name in zip(axes.flat, AXES, strict=True):
        rows = found[name]
        for place, method in enumerate(k for k in rows[0] if k != name):
            of_loss = "loss" in method
            axis.errorbar(
                [row[name] for row in rows],
                [max(row[method]["mean"], 1e-5) for row in rows],
                yerr=[2 * row[method]["standard_error"] for row in rows],
                marker="osDv^x*"[place],
                linestyle=":" if of_loss else "-",
                color="0.4" if of_loss else None,
                capsize=2,
                label=method,
            )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_ylim(2e-4, 1.5)
        axis.set_xlabel({"n": "private rows n", "m": "public rows m"}.get(name, name))
    for axis in axes[:, 0]:
        axis.set_ylabel("excess error (dotted: loss)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center")
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--draw", action="store_true", help="draw the last results")
    arguments = parser.parse_args()
    path = RESULTS.with_suffix(".quick.json") if arguments.quick else RESULTS
    if not arguments.draw:
        found = study(2 if arguments.quick else 5, quick=arguments.quick)
        path.write_text(json.dumps(found, indent=1) + "\n")
    if not arguments.quick:
        draw(json.loads(path.read_text()))


if __name__ == "__main__":
    main()
