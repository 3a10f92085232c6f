"""Plots of a plan: expected error against queries, epsilon and rows."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.errors import InvalidParameterError
from reticent.planning.all_methods import METHODS
from reticent.planning.facts import Facts

if TYPE_CHECKING:
    from reticent.planning.planner import Plan

_MOST_LINES = 3  # of each job
_POINTS = 13
_STYLE = {"ask": "-", "release": "--", "public": "-."}


def curves_of(plan: Plan, field: str, values: list[float]) -> dict[str, list[float]]:
    """Return estimated errors of the plan's methods as one fact varies.

    Parameters
    ----------
    plan : Plan
        The plan; its other facts stay the same.
    field : {"queries", "epsilon", "n"}
        The fact that varies.
    values : list of float
        Its values.

    Returns
    -------
    dict
        By method; NaN where a method does not fit the facts.
    """
    keys = [o.method for o in plan.options if o.estimate is not None]
    found: dict[str, list[float]] = {}
    for key in keys:
        varied: list[dict[str, Any]] = [{field: value} for value in values]
        line = [_estimate(key, replace(plan.facts, **change)) for change in varied]
        if any(map(math.isfinite, line)):
            found[key] = line
    return found


def _estimate(key: str, facts: Facts) -> float:
    sketch = METHODS[key].sketch(facts)
    if sketch is None or sketch.estimate is None:
        return math.nan
    return min(sketch.estimate, facts.chance_error)


def _around(value: float, factor: float, *, integer: bool) -> list[float]:
    grid = np.geomspace(value / factor, value * factor, _POINTS)
    return sorted({max(1, round(v)) if integer else float(v) for v in grid})


def draw(plan: Plan, path: str | Path | None = None) -> Any:
    """Draw a plan; return the figure, saved if a path is given.

    Parameters
    ----------
    plan : Plan
        What to draw.
    path : str or Path, default=None
        Where to save it; the ending determines the format.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidParameterError(
            "plots need matplotlib; install reticent[plot]."
        ) from error
    facts = plan.facts
    queries: list[float] = [round(10 ** (k / 2)) for k in range(11)]
    panels: tuple[tuple[str, str, list[float], float | None], ...] = (
        ("queries", "different queries", queries, facts.queries),
        ("epsilon", "epsilon of everything", _around(facts.epsilon, 16, integer=False),
         facts.epsilon),
        ("n", "rows", _around(facts.n, 32, integer=True), facts.n),
    )  # fmt: skip
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    titles = {option.method: (option.title, option.job) for option in plan.options}
    drawn = _leading(plan)
    for axis, (field, label, values, here) in zip(axes, panels, strict=True):
        for key, line in curves_of(plan, field, values).items():
            if key in drawn:
                title, job = titles[key]
                axis.plot(
                    values,
                    [100 * e for e in line],
                    _STYLE[job],
                    color=f"C{drawn.index(key)}",
                    label=title,
                )
        axis.set(xscale="log", xlabel=label)
        if here is not None and math.isfinite(here):
            axis.axvline(here, color="0.7", lw=0.8)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("expected error, %")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
    if path is not None:
        _save(figure, Path(path))
    return figure


def _leading(plan: Plan) -> list[str]:
    """Return the methods that are drawn: the first few of each job."""
    return [
        option.method
        for job in _STYLE
        for option in [
            each
            for each in plan.options
            if each.job == job and each.estimate is not None
        ][:_MOST_LINES]
    ]


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=120)
    except ValueError as error:  # an ending that matplotlib does not know
        raise InvalidParameterError(
            f"{path}: no plot can be written with this ending; use .png, .svg or .pdf."
        ) from error
