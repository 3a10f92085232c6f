"""How far releases and private predictions are from the best there is.

python -m benchmarks.studies.release_optimal [--quick]

Part one: thresholds over four points, worst-case excess empirical risk by number of
units, against the linear programs over all private algorithms. Part two: the packing of
S0 Prop. 12, by size of the domain. Both are computed exactly; nothing is sampled.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import scipy

from reticent.hypotheses import Threshold, Thresholds
from reticent.learners import (
    ExponentialMechanismClassifier,
    best_epsilon,
    optimal_learner,
    optimal_predictor,
    worst_excess,
)
from reticent.learners.selection.grid import Grid
from reticent.mechanisms import (
    geometric_vote,
    sigmoid_response,
    soft_vote,
    two_step_response,
)
from reticent.prediction import ProjectedWalkClassifier
from reticent.prediction.walk import clipped_walk

ROOT = Path(__file__).parent.parent.parent
POINTS, EPSILON = 4, 1.0
PACKING_UNITS = 24


def labels_of(n_points: int) -> np.ndarray:
    return Thresholds().project(np.arange(n_points)).labels.T.astype(int)


def losses_of(labels: np.ndarray) -> np.ndarray:
    """Loss of each hypothesis at element 2x + y."""
    return np.stack([labels, 1 - labels], axis=1).reshape(2 * len(labels), -1)


def release_laws(datasets: np.ndarray, epsilon: float, selection: str) -> np.ndarray:
    points = np.arange(datasets.shape[1] // 2)[:, None]
    model = ExponentialMechanismClassifier(
        Thresholds(), epsilon, points=points, selection=selection, classes=[0, 1]
    )
    laws = []
    for counts in datasets:
        elements = np.repeat(np.arange(len(counts)), counts)
        X, y = (elements // 2)[:, None].astype(float), elements % 2
        laws.append(model.response(X, y).probabilities[0])
    return np.array(laws)


def learners(n: int) -> dict[str, float]:
    losses = losses_of(labels_of(POINTS))
    best = optimal_learner(losses, n, EPSILON)
    ways = {
        "permute-and-flip": (EPSILON, "permute-and-flip"),
        "exponential": (EPSILON, "exponential"),
        # S0 Alg. 1 prints twice the sensitivity: half the exponent.
        "exponential, as printed": (EPSILON / 2, "exponential"),
    }
    found = {"best there is": best.value}
    for name, (epsilon, selection) in ways.items():
        law = release_laws(best.datasets, epsilon, selection)
        found[name] = worst_excess(law, losses, best.datasets)
    return found


def predicted_excess(
    datasets: np.ndarray, labels: np.ndarray, chances: object
) -> float:
    losses, n = losses_of(labels), datasets[0].sum()
    worst = -math.inf
    for counts in datasets:
        ones = chances(counts)
        wrong = counts[1::2] @ (1 - ones) + counts[0::2] @ ones
        worst = max(worst, (wrong - (counts @ losses).min()) / n)
    return float(worst)


def walk(law: object, reach: int) -> object:
    def chances(counts: np.ndarray) -> np.ndarray:
        positions = clipped_walk(counts[1::2] - counts[0::2], reach)
        return law(positions, EPSILON, bound=reach).probabilities[:, 1]

    return chances


def predictors(n: int) -> dict[str, float]:
    labels = labels_of(POINTS)
    best = optimal_predictor(labels, n, EPSILON)
    found = {"best there is": best.value}
    for name, law in (
        ("two-step walk", two_step_response),
        ("sigmoid walk", sigmoid_response),
    ):
        found[name] = min(
            predicted_excess(best.datasets, labels, walk(law, reach))
            for reach in range(1, 5)
        )
    return found


def votes(n: int) -> dict[str, float]:
    """One point, two constants: the vote of n models."""
    labels = np.array([[0, 1]])
    best = optimal_predictor(labels, n, EPSILON)
    found = {"best there is": best.value}
    for name, vote in (("geometric vote", geometric_vote), ("soft vote", soft_vote)):
        found[name] = predicted_excess(
            best.datasets,
            labels,
            lambda counts, vote=vote: vote([counts], EPSILON).probabilities[0, 1:],
        )
    return found


def packing(bits: int) -> dict[str, float]:
    """Mean training error over 2^(bits - 1) datasets that share no good threshold."""
    n, grid = PACKING_UNITS, Grid(0.0, 1.0, 2**bits)
    low, high = grid.value(np.array([2, 3])).tolist()
    X = np.repeat([low, high], n // 2)[:, None]
    y = np.repeat([0, 1], n // 2)
    model = ExponentialMechanismClassifier(
        Thresholds(), EPSILON, bounds=(0, 1), resolution=2**bits, classes=[0, 1]
    )
    law = model.response(X, y)
    success = math.exp(law.log_probability(Threshold(high, 0, 1)))
    # Every other threshold is wrong on half of the rows.
    allowed = min(1.0, math.exp(EPSILON * n) / 2 ** (bits - 1))
    predictor = ProjectedWalkClassifier(EPSILON, error=0.1, classes=[0, 1]).fit(X, y)
    answers = predictor.response(X).probabilities[np.arange(n), y]
    return {
        "no private release does better": (1 - allowed) / 2,
        "exponential mechanism": (1 - success) / 2,
        "projected walk, one answer": float(1 - answers.mean()),
    }


def equation_six(price: float) -> dict[str, float]:
    """S0 eq. 6, with a price on epsilon: 1 in the paper, too dear for few units."""
    losses = losses_of(labels_of(2))
    epsilon, value = best_epsilon(losses, 4, price=price, most=8.0)
    return {"price": price, "epsilon": epsilon, "value": value}


def curves(table: dict[int, dict[str, float]]) -> dict[str, list[float]]:
    return {name: [row[name] for row in table.values()] for name in table[min(table)]}


def plot(result: dict, folder: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2))
    titles = {
        "learners": f"release a threshold ({POINTS} points)",
        "predictors": f"answer a query ({POINTS} points)",
        "votes": "vote of n models (1 point)",
    }
    marks = ("k-", "o-", "s--", "^:")
    for axis, (name, title) in zip(axes, titles.items(), strict=True):
        units = result[name]["n"]
        for mark, (label, values) in zip(
            marks, result[name]["excess"].items(), strict=False
        ):
            width = 3.5 if mark == "k-" else 1.5
            axis.plot(units, values, mark, lw=width, ms=6, label=label)
        axis.set(
            title=title,
            xlabel="units n",
            xticks=units,
            ylim=(0, 0.85 if axis is axes[0] else 0.6),
        )
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, loc="upper right")
    axes[0].set_ylabel("worst-case excess empirical risk")
    figure.suptitle(f"Distance from the best private algorithm, epsilon = {EPSILON:g}")
    figure.tight_layout()
    figure.savefig(folder / "release_optimal.png", dpi=120)

    figure, axis = plt.subplots(figsize=(6.5, 4.2))
    bits = result["packing"]["bits"]
    styles = ("k-", "o-", "s--")
    for style, (label, values) in zip(
        styles, result["packing"]["error"].items(), strict=True
    ):
        axis.plot(bits, values, style, lw=3 if style == "k-" else 1.5, label=label)
    edge = EPSILON * PACKING_UNITS / math.log(2)
    axis.axvline(edge, color="0.6", ls=":")
    axis.annotate("$e^{\\epsilon n}$", (edge - 0.5, 0.2), ha="right", color="0.4")
    axis.set(
        title=f"{PACKING_UNITS} rows on two neighbouring values, epsilon = {EPSILON:g}",
        xlabel="domain, bits",
        ylabel="mean training error over the packing",
        ylim=(-0.01, 0.55),
    )
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8, loc="center", bbox_to_anchor=(0.4, 0.62))
    figure.tight_layout()
    figure.savefig(folder / "release_optimal_packing.png", dpi=120)


def run(most: int) -> dict:
    units = list(range(1, most + 1))
    bits = [4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 34, 36, 38, 40, 44, 48, 52]
    tables = {"learners": learners, "predictors": predictors, "votes": votes}
    result: dict = {
        "points": POINTS,
        "epsilon": EPSILON,
        "scipy": scipy.__version__,
        "seed": None,
    }
    for name, table in tables.items():
        excess = curves({n: table(n) for n in units})
        result[name] = {"n": units, "excess": excess}
    result["packing"] = {
        "units": PACKING_UNITS,
        "bits": bits,
        "error": curves({b: packing(b) for b in bits}),
    }
    result["equation 6"] = [equation_six(price) for price in (1.0, 0.1, 0.02)]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    result = run(3 if quick else 6)
    print(json.dumps(result))
    if not quick:
        path = ROOT / "benchmarks" / "results" / "release_optimal.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        folder = ROOT / "docs" / "figures"
        folder.mkdir(parents=True, exist_ok=True)
        plot(result, folder)


if __name__ == "__main__":
    main()
