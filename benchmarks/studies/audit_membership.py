"""Membership inference on Adult: plain scikit-learn against private predictors.

python -m benchmarks.studies.audit_membership [--quick]

The same attack on every model: shadow models, likelihood ratios, one poisoned copy of
the target with the other label, eight answers chosen adaptively.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks.data import load
from reticent.audit import MembershipInference, membership_inference
from reticent.learners import OutputPerturbationClassifier
from reticent.prediction import PrivateAveragingClassifier, PrivateVotingClassifier

ROOT = Path(__file__).parent.parent.parent
POOL, N, SHARDS, SEED = 1500, 300, 15, 0
FULL = {"targets": 5, "shadows": 8, "games": 200}
QUICK = {"targets": 2, "shadows": 4, "games": 15}
RATES = (0.01, 0.05, 0.1)


def tree() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(random_state=0)


def voting(base: object, epsilon: float) -> PrivateVotingClassifier:
    return PrivateVotingClassifier(base, epsilon, [0, 1], n_shards=SHARDS, rule="soft")


def models(norm: float) -> dict[str, tuple[object, str]]:
    """Models with what they answer: plain ones first."""
    forest = RandomForestClassifier(10, random_state=0)
    return {
        "nearest neighbour": (KNeighborsClassifier(1), "predict"),
        "decision tree": (tree(), "predict"),
        "random forest, with probabilities": (forest, "predict_proba"),
        "logistic regression": (LogisticRegression(), "predict"),
        "vote of trees, ε = 1 an answer": (voting(tree(), 1.0), "predict"),
        "vote of trees, ε = 0.1 an answer": (voting(tree(), 0.1), "predict"),
        "average of trees, ε = 0.1 an answer": (
            PrivateAveragingClassifier(tree(), 0.1, [0, 1], n_shards=SHARDS),
            "predict",
        ),
        "released linear model, ε = 1": (
            OutputPerturbationClassifier(1.0, norm_bound=norm, classes=[0, 1]),
            "predict",
        ),
    }


def attack(sizes: dict[str, int]) -> dict[str, MembershipInference]:
    task = load("adult")
    rows = np.random.default_rng(SEED).choice(task.train, POOL, replace=False)
    X, y = task.encoded[rows], task.y[rows]
    norm = float(np.ceil(np.sqrt(len(task.categorical))))  # public: entries <= 1
    found = {}
    for name, (model, interface) in models(norm).items():
        began = time.perf_counter()
        found[name] = membership_inference(
            model,
            X,
            y,
            n=N,
            answers=8,
            poison=1,
            false_positive_rates=RATES,
            interface=interface,
            random_state=SEED,
            **sizes,
        )
        print(f"{name} ({time.perf_counter() - began:.0f} s)")
        print(found[name], flush=True)
    return found


def plot(found: dict[str, MembershipInference], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), width_ratios=[1, 1.15])
    rates = np.geomspace(1e-3, 1, 200)
    games = next(iter(found.values())).games
    marks = iter(2 * ["-", "--", "-.", ":"])
    for result in found.values():
        ours = result.allowed is not None
        fpr, tpr = np.array(result.curve).T
        left.plot(
            *(np.maximum(fpr, 1e-3), np.maximum(tpr, 1e-3), next(marks)),
            color="tab:blue" if ours else "tab:red",
            lw=1.6,
            alpha=0.85,
            drawstyle="steps-post",
        )
    left.plot([], [], color="tab:red", label="plain scikit-learn")
    left.plot([], [], color="tab:blue", label="private (reticent)")
    left.plot(rates, rates, color="0.6", lw=1, label="blind guessing")
    name = "vote of trees, ε = 0.1 an answer"
    most = found[name].allowed.true_positives_at_most(rates)
    left.plot(rates, most, color="k", lw=2, label=f"allowed: {name}")
    left.set(
        xscale="log",
        yscale="log",
        xlim=(3 / games, 1),  # left of it, a step is one or two games
        ylim=(3 / games, 1.1),
        xlabel="wrongly accused (false positive rate)",
        ylabel="members found (true positive rate)",
        title=f"All thresholds, estimates from {games} games each way",
    )
    left.legend(fontsize=8, loc="lower right")
    left.grid(alpha=0.3, which="both")
    names = list(found)[::-1]
    for place, name in enumerate(names):
        point = found[name].points[1]
        rate, low, high = point.true_positive_rate
        ours = point.allowed is not None
        right.barh(place, rate, color="tab:blue" if ours else "tab:red", alpha=0.75)
        right.plot([low, high], [place, place], color="k", lw=1.5)
        if ours:
            right.plot([point.allowed] * 2, [place - 0.4, place + 0.4], "k:", lw=2.5)
    right.plot([], [], "k:", lw=2.5, label="allowed by the certificate")
    right.plot(
        [], [], "k", lw=1.5, label="exact interval (99.9 %, all thresholds of a model)"
    )
    right.axvline(0.05, color="0.6", lw=1)
    right.set_yticks(range(len(names)), names)
    right.set(
        xlim=(0, 1.02),
        xlabel="members found, at a threshold aimed at 5 % wrongly accused",
        title="One threshold, chosen on other games",
    )
    right.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.4, -0.14), ncols=2)
    figure.suptitle(
        f"Was this person in the data? {N} records of Adult, 8 answers, 1 poisoned copy"
    )
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    found = attack(QUICK if quick else FULL)
    if quick:
        return
    result = {
        "data": "adult",
        "n": N,
        "pool": POOL,
        "seed": SEED,
        "models": {name: one.as_dict() for name, one in found.items()},
    }
    path = ROOT / "benchmarks" / "results" / "audit_membership.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    plot(found, ROOT / "docs" / "figures" / "audit_membership.png")


if __name__ == "__main__":
    main()
