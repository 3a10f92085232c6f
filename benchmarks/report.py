"""From what the benchmarks printed to ratios, a comparison and a page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Run:
    """One run of all parts."""

    mode: str
    machine: str
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the long results, which have files of their own."""
        short = {
            name: {key: value for key, value in part.items() if key != "printed"}
            for name, part in self.parts.items()
        }
        return {**asdict(self), "parts": short}


@dataclass(frozen=True)
class Row:
    """A ratio now and in the last committed run."""

    name: str
    now: float
    before: float | None
    worse: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.now:.3g}, was {self.before}"


def ratios_of(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Collect the ratios that all parts printed, under the path to each."""
    return {
        f"{part}: {', '.join(path)}": value
        for part, ended in parts.items()
        for path, value in _numbers(ended.get("printed"), ())
        if is_ratio(path)
    }


def _numbers(
    node: Any, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], float]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _numbers(value, (*path, str(key)))
    elif type(node) in (int, float) and math.isfinite(node):
        yield path, float(node)


def is_ratio(path: tuple[str, ...]) -> bool:
    """Whether a number is a ratio, by its name or that of what holds it."""
    if any("goal" in word for word in path):
        return False
    named = any("ratio" in word or "times_faster" in word for word in path)
    return named or " / " in path[-1]


# Ratios of what others take over what we take, and of requests a second.
_LARGER = ("times_faster", " / ", "ensembles: training", "ensembles: trees")


def larger_is_better(name: str) -> bool:
    return any(mark in name for mark in _LARGER)


def compared(
    now: Mapping[str, float], before: Mapping[str, float], factor: float
) -> list[Row]:
    """Pair each ratio with the committed one; worse by more than `factor` is marked."""
    rows = []
    for name, value in now.items():
        old = before.get(name)
        loss = 1.0
        if old and value > 0:
            loss = old / value if larger_is_better(name) else value / old
        rows.append(Row(name, value, old, worse=loss > factor))
    return rows


def table(run: Run, rows: list[Row], factor: float) -> str:
    """Return the page: how to run, the parts, and every ratio."""
    command = "make bench QUICK=1" if run.mode == "quick" else "make bench"
    lines = [
        "# Benchmarks, as measured",
        "",
        f"Written by `{command}` ({run.machine}). Every number is a ratio of two",
        "times or sizes within one run, so that the machine cancels out. Where smaller",
        "is better, our time is divided by that of the bare arithmetic or of a peer;",
        "where larger is better, it is the other way round. A later run fails if a",
        f"ratio is worse by more than a factor of {factor:g}.",
        "",
    ]
    for title, better in (("Larger is better", True), ("Smaller is better", False)):
        own = [row for row in rows if larger_is_better(row.name) == better]
        lines += [f"## {title}", "", "| what | ratio |", "|---|---|"]
        lines += [f"| {_cell(row.name)} | {row.now:.3g} |" for row in own]
        lines.append("")
    lines += ["## Parts", "", "| part | ended | seconds |", "|---|---|---|"]
    lines += [
        f"| {name} | {part['state']} | {part['seconds']:.0f} |"
        for name, part in run.parts.items()
    ]
    return "\n".join(lines) + "\n"


def _cell(name: str) -> str:
    for words, shorter in ((", times_faster", ""), ("ratios, ", ""), ("_ratio", "")):
        name = name.replace(words, shorter)
    return name.replace("|", "\\|").removesuffix(", ratio")
