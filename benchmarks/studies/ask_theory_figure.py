"""The figure of ask_theory: excess error against the number of units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

PANELS = {
    "threshold": "Threshold, 10 % of labels flipped",
    "intervals": "Union of four intervals",
    "halfspace": "Halfspace in the plane",
    "lower bound's own": "Eight points, as hard as S2 Thm 4 allows",
}
# Colours that stay apart for colour-blind eyes (Okabe and Ito), one marker each.
STYLES = {
    "P1 vote of 21": ("#0072B2", "o"),
    "P3 stable linear": ("#CC79A7", "s"),
    "P4 walk": ("#009E73", "^"),
    "P5 stable selection": ("#999999", "v"),
    "P6 selection and flip": ("#E69F00", "D"),
    "P7 relabeling": ("#D55E00", "P"),
}
NAMES = {"P5 stable selection": "P5 stable selection (stable, not private)"}


def draw(result: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.6), sharex=True, sharey=True)
    for axis, (key, title) in zip(axes.flat, PANELS.items(), strict=True):
        table = result["curves"][key]
        for name, (colour, marker) in STYLES.items():
            points = table.get(name, [])
            if points:
                axis.plot(
                    [point["n"] for point in points],
                    [point["excess"] for point in points],
                    color=colour,
                    marker=marker,
                    markersize=5,
                    label=NAMES.get(name, name),
                )
        least = table.get("lower bound", [])
        if least:
            axis.plot(
                [point["n"] for point in least],
                [point["excess"] for point in least],
                color="black",
                linestyle="--",
                label="lower bound for anyone (S2 Thm 4)",
            )
        axis.set_title(title, fontsize=11)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.grid(visible=True, which="major", alpha=0.3)
    for axis in axes[1]:
        axis.set_xlabel("units of data, n")
    for axis in axes[:, 0]:
        axis.set_ylabel("error above the best in the class")
    axes[0, 0].set_ylim(2e-6, 1)
    shown = {
        label: line
        for axis in axes.flat
        for line, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    order = [NAMES.get(name, name) for name in STYLES]
    labels = [name for name in order if name in shown]
    labels += [name for name in shown if name not in labels]
    figure.suptitle(
        f"Private answers, epsilon = {result['epsilon']:g} each: error against data"
    )
    figure.legend(
        [shown[label] for label in labels],
        labels,
        loc="lower center",
        ncol=3,
        frameon=False,
        fontsize=9,
    )
    figure.tight_layout(rect=(0, 0.09, 1, 0.98))
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
