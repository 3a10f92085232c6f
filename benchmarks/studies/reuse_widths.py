"""Widths of intervals for many adaptive questions: our tools and the alternatives.

A question is a mean of values in [0, 1]; each may depend on all earlier answers. All
methods get `n` rows in all and must cover all truths at once with probability .95. The
width is half the length of the interval of an answer with the given truth. Power is the
chance that the interval of a truth of .55 excludes .5.

- *fresh rows*: a new part of the rows for every question, and Hoeffding's inequality;
- *Gaussian noise*: the mechanism with the best published bound (Jung et al. 2020), its
  noise and the split of its failure probability optimised;
- *Guess and Check* (Rogers et al. 2020): guesses from one half, checked on the other;
- `ReusableHoldout`: the same halves; its bound, and its interval for one answer;
- `Ladder`: all rows as a test set; only the best score so far is shown;
- `AdaptiveSession`: rounded answers paid in bits, or noisy means paid in epsilon.

    python -m benchmarks.studies.reuse_widths [--quick] [--out docs/figures]

writes ``reuse_widths.json`` and ``reuse_widths.png``.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from reticent.generalization import answers_to_truth, ladder_transcripts
from reticent.generalization.holdout.answers import HoldoutAnswer
from reticent.generalization.holdout.design import design_holdout
from reticent.generalization.session.rules import session_error

BETA = 0.05
OVERFITS = 10
EFFECT = 0.05


def fresh_rows(n: int, m: int, truth: float = 0.5) -> float:
    """Return Hoeffding's width on n/m rows, for all questions at once."""
    rows = n // m
    if not rows:
        return 1.0
    return min(1.0, math.sqrt(math.log(2 * m / BETA) / (2 * rows)))


def epsilon_of(ratio: float, delta: float) -> float:
    """Return the epsilon of Gaussian noise by its exact curve, in plain floats."""

    def excess(epsilon: float) -> float:
        near, far = ratio / 2 - epsilon / ratio, -ratio / 2 - epsilon / ratio
        return float(ndtr(near) - np.exp(epsilon + log_ndtr(far))) - delta

    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, ratio * (ratio + 40.0), xtol=1e-10))


@cache
def gaussian_noise(n: int, m: int, truth: float = 0.5) -> float:
    """Return the bound of Jung et al. (2020, Thm 4) for the Gaussian mechanism.

    A mechanism that is (e, d)-DP and within `a` of the averages but for `b` is within
    ``a + e^e - 1 + c + 2 s`` of the truths but for ``b/c + d/s``.
    """

    def width(logs: Any) -> float:
        scale, c, s, part = (math.exp(min(0.0, value)) for value in logs)
        part = min(part, 0.999)
        far = scale * float(norm.isf(part * BETA * c / (2 * m)))
        delta = (1 - part) * BETA * s
        ratio = math.sqrt(m) / (n * scale)
        if not (1e-300 < delta < 1 and ratio < 30):
            return 1e3
        epsilon = epsilon_of(ratio, delta)
        return far + math.expm1(min(epsilon, 50.0)) + c + 2 * s

    starts = [
        [math.log(noise), math.log(small), math.log(small), math.log(0.5)]
        for noise, small in ((0.003, 1e-3), (0.02, 1e-2), (0.1, 1e-2))
    ]
    found = [
        minimize(width, start, method="Nelder-Mead", options={"maxiter": 250}).fun
        for start in starts
    ]
    return min(1.0, *found)


def guess_and_check(n: int, m: int, truth: float = 0.5) -> float:
    """Return the width at the last question, after no wrong guess.

    Guesses from one half are within Hoeffding's distance of the other half's averages;
    the check spends ``beta c_m c_0`` with ``c_j = 6/(pi (j + 1))^2``.
    """
    half = n // 2
    if half < 1:
        return 1.0
    spent = BETA * 6 / (math.pi * m) ** 2 * 6 / math.pi**2
    checked = math.sqrt(math.log(2 / spent) / (2 * half))
    honest = math.sqrt(math.log(2 * m / BETA) * (2 / half) / 2)
    return min(1.0, honest + checked)


def _design(n: int, m: int) -> Any:
    return design_holdout(
        n=max(1, n // 2),
        queries=m,
        overfits=OVERFITS,
        threshold=None,
        guess_units=max(1, n // 2),
        method="rounding",
        scale=None,
        beta=BETA,
        seeded=False,
    )


def holdout(n: int, m: int, truth: float = 0.5) -> float:
    """Return what a reusable holdout states for all answers."""
    return float(_design(n, m).accuracy(BETA).guarantee.error)


def holdout_interval(n: int, m: int, truth: float = 0.5) -> float:
    """Return half the interval of one answer whose guess was right."""
    answer = HoldoutAnswer(truth, False, 0)
    low, high = _design(n, m).interval(answer, BETA)
    return float((high - low) / 2)


def ladder(n: int, m: int, truth: float = 0.5) -> float:
    """Return what a leaderboard states about its best score, at the best step."""

    def error(steps: int) -> float:
        premise = ladder_transcripts(
            n=n, submissions=m, values=steps, improvements=steps
        )
        found = answers_to_truth(premise, beta=BETA, threshold=1 / steps)
        return float(found.guarantee.error)

    return min(error(steps) for steps in (5, 10, 20, 40, 80, 160, 320))


def session(n: int, m: int, truth: float = 0.5) -> float:
    """Return the better of rounded answers and of Laplace noise, at the best size."""

    def rounded(levels: int) -> float:
        bits = m * math.log2(levels)
        facts = {"n": n, "delta": 0.0, "kept": 0, "failure": BETA}
        return 0.5 / levels + session_error(epsilon=0.0, bits=bits, **facts)

    def noisy(log_epsilon: float) -> float:
        epsilon = math.exp(log_epsilon)
        noise = m / (epsilon * n) * math.log(2 * m / BETA)
        return noise + session_error(
            n=n, epsilon=epsilon, delta=0.0, kept=0, bits=0.0, failure=BETA / 2
        )

    best = minimize_scalar(noisy, bounds=(math.log(1e-4), 2.0), method="bounded").fun
    return min(
        1.0, float(best), *(rounded(levels) for levels in (4, 8, 16, 32, 64, 128))
    )


METHODS: dict[str, Callable[..., float]] = {
    "fresh rows": fresh_rows,
    "Gaussian noise": gaussian_noise,
    "Guess and Check": guess_and_check,
    "ReusableHoldout": holdout,
    "its interval": holdout_interval,
    "AdaptiveSession": session,
}


def power(name: str, n: int, m: int) -> float:
    """Return the chance that the interval of a truth of .55 excludes .5."""
    rows = n // m if name == "fresh rows" else n // 2
    if name in ("Gaussian noise", "AdaptiveSession"):
        rows = n
    method = METHODS[name]
    width = method(n, m, 0.5 + EFFECT) if name == "its interval" else method(n, m)
    if rows < 1:
        return 0.0
    spread = math.sqrt(0.25 / rows)
    return float(norm.cdf((EFFECT - width) / spread))


def study(quick: bool) -> dict[str, Any]:
    """Return widths, power and winners for every size and number of questions."""
    sizes = (1000, 10_000) if quick else (1000, 10_000, 100_000, 1_000_000)
    asked = (1, 10, 100) if quick else (1, 3, 10, 30, 100, 300, 1000, 10_000, 100_000)
    cells = []
    for n in sizes:
        for m in asked:
            widths = {name: round(method(n, m), 4) for name, method in METHODS.items()}
            cells.append(
                {
                    "n": n,
                    "questions": m,
                    "width": widths,
                    "width at .95": round(holdout_interval(n, m, 0.95), 4),
                    "ladder, best score": round(ladder(n, m), 4),
                    "power": {name: round(power(name, n, m), 3) for name in METHODS},
                    "narrowest": min(widths, key=lambda name: widths[name]),
                }
            )
    return {"failure": BETA, "overfits": OVERFITS, "cells": cells}


def plot(found: dict[str, Any], target: Path) -> None:
    """Draw widths against questions, one panel per number of rows."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    sizes = sorted({cell["n"] for cell in found["cells"]})[-3:]
    figure, panels = plt.subplots(1, len(sizes), figsize=(12, 4.2), sharey=True)
    for panel, n in zip(panels, sizes, strict=True):
        cells = [cell for cell in found["cells"] if cell["n"] == n]
        asked = [cell["questions"] for cell in cells]
        for name in METHODS:
            style = "--" if name in ("fresh rows", "Gaussian noise") else "-"
            panel.plot(asked, [c["width"][name] for c in cells], style, label=name)
        panel.plot(
            asked, [c["ladder, best score"] for c in cells], ":", label="Ladder (best)"
        )
        panel.set(xscale="log", yscale="log", xlabel="adaptive questions")
        panel.set_title(f"{n:,} rows")
    panels[0].set_ylabel("half the interval, all at once at .95")
    panels[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(target, dpi=130)


def main() -> None:
    """Write the numbers and the figure, and print the winners."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    arguments = parser.parse_args()
    found = study(arguments.quick)
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1)
    (arguments.out / "reuse_widths.json").write_text(text + "\n", encoding="utf-8")
    plot(found, arguments.out / "reuse_widths.png")
    print(text)


if __name__ == "__main__":
    main()
