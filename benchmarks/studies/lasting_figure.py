"""Draw how individual budgets wear out, and how far one question reaches.

Left: questions in the plane, and the units that spoke to one of them. Middle: what
units have spent after 100, 1,000 and 10,000 questions. Both show secrets of made-up
rows: a service never shows them. Right: what clients see, the evidence of answers.

    python -m benchmarks.studies.lasting_figure
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reticent.prediction import PrivateNeighborsClassifier

FIGURE = Path(__file__).parents[2] / "docs" / "figures" / "individual_accounting.png"
UNITS, QUESTIONS, STEPS = 4_000, 10_000, (100, 1_000, 10_000)
FULL = 2.0**31  # the budget of a unit, in the steps of its account


def rows(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(0, 0.35, (count, 2))
    X[: count // 3] = rng.normal((0.55, 0.5), 0.12, (count // 3, 2))
    X = np.clip(rng.permutation(X), -1, 1)
    y = (np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1]) > 0).astype(int)
    return X, y


def spent_share(law: Any, state: Any) -> np.ndarray:
    """Return what each unit has spent on questions, as a share of what was left."""
    before = law.start().spent.astype(float)
    return (state.spent.astype(float) - before) / (FULL - before)


def draw(path: Path = FIGURE) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rng = np.random.default_rng(0)
    X, y = rows(UNITS, rng)
    model = PrivateNeighborsClassifier(
        1.0,
        classes=[0, 1],
        questions=1_000,
        relation="zero-out",
        local="always",
        random_state=0,
    )
    law = model.fit(X, y).law_
    place = np.argsort(law.unit)  # rows by unit
    asked, _ = rows(QUESTIONS, rng)
    state = law.start()
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    evidence, done = [], 0
    shares = {}
    one: Any = None
    for step in STEPS:
        while done < step:
            if done == 500:
                before = state.copy()
                found = law.ask(law.encode(np.array([[0.2, -0.1]])), state)
                one = (state.spent != before.spent, found)
            some = asked[done : done + 100]
            evidence.extend(law.ask(law.encode(some), state).evidence)
            done += len(some)
        shares[step] = spent_share(law, state)
    codes = law.codes[place].astype(float) / 1024 * 2 - 1
    spoke = one[0]
    axes[0].scatter(*codes[~spoke].T, s=2, color="0.75", label="pays nothing")
    axes[0].scatter(*codes[spoke].T, s=4, color="C0", label="counted, perhaps speaks")
    axes[0].plot(0.2, -0.1, "k*", ms=12, label="the question")
    axes[0].set(title="One question: who pays", xticks=[], yticks=[])
    axes[0].legend(fontsize=8, loc="lower left")
    for step in STEPS:
        axes[1].plot(
            np.arange(UNITS) / UNITS * 100,
            100 * np.sort(shares[step])[::-1],
            label=f"after {step:,} questions",
        )
    axes[1].axhline(100, color="k", lw=0.8, ls="--")
    axes[1].set(
        title="What units have spent (secret)",
        xlabel="units, most spent first, %",
        ylabel="of what the fit left them, %",
    )
    axes[1].legend(fontsize=8, loc="lower left")
    means = np.array(evidence).reshape(-1, 200).mean(axis=1)
    axes[2].plot(200 * (np.arange(len(means)) + 0.5), means, "C2")
    axes[2].axhline(law.plan.wanted, color="k", lw=0.8, ls="--")
    axes[2].set(
        title="What clients see: evidence",
        xlabel="questions asked before",
        ylabel="noisy number of units, mean of 200 answers",
        ylim=(0, None),
    )
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    draw()
