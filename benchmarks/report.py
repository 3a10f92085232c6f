"""From what the benchmarks printed to numbers, and a comparison with the last run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# A ratio may be worse by this factor. Chosen by looking at pairs of runs on a machine
# with other work: of a quick run's ratios, some of short times move by two.
FACTOR = {"quick": 2.5, "full": 1.5}
# An exponent or an accuracy may be worse by this much; an accuracy by four standard
# errors more, because two seeds say little.
EXPONENT_SLACK = {"quick": 0.3, "full": 0.1}
ACCURACY_SLACK = {"quick": 0.02, "full": 0.01}
OURS = "reticent, "


@dataclass(frozen=True)
class Row:
    """A number now and in the last committed run."""

    name: str
    now: float
    before: float | None
    worse: bool

    @property
    def part(self) -> str:
        return self.name.partition(": ")[0]

    def __str__(self) -> str:
        before = "new" if self.before is None else f"was {self.before:.3g}"
        return f"{self.name}: {self.now:.3g}, {before}"


@dataclass
class Run:
    """One run of all parts."""

    mode: str
    machine: str
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    accuracy: dict[str, dict[str, float]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    compared_with: str = ""

    @property
    def file(self) -> str:
        return "bench_quick.json" if self.mode == "quick" else "bench.json"

    def add(self, name: str, ended: Mapping[str, Any]) -> None:
        """Take in how a part ended; the long results have files of their own."""
        printed = ended.get("printed")
        self.parts[name] = {k: v for k, v in ended.items() if k != "printed"}
        self.ratios |= ratios_of(name, printed)
        self.accuracy |= accuracies_of(name, printed)

    def summary(self) -> dict[str, Any]:
        """Return the numbers, and what the comparison said."""
        paired = [row for row in self.rows if row.before is not None]
        return {
            "ratios": self.ratios,
            "accuracy": self.accuracy,
            "comparison": {
                "with": self.compared_with,
                "factor": FACTOR[self.mode],
                "numbers": len(paired),
                "worse": [str(row) for row in paired if row.worse],
            },
        }

    def as_dict(self) -> dict[str, Any]:
        head = {"mode": self.mode, "machine": self.machine, "parts": self.parts}
        return {**head, **self.summary()}


def ratios_of(part: str, printed: Any) -> dict[str, float]:
    """Collect the ratios that a part printed, under the path to each."""
    return {
        f"{part}: {', '.join(path)}": float(f"{value:.4g}")
        for path, value in _numbers(printed, ())
        if is_ratio(path)
    }


def accuracies_of(part: str, printed: Any) -> dict[str, dict[str, float]]:
    """Collect means and standard errors, by data set and method."""
    tables = printed.get("accuracy", {}) if isinstance(printed, Mapping) else {}
    return {
        f"{part}: {data}, {who}": {
            name: round(found[name], 5) for name in ("mean", "standard_error")
        }
        for data, table in tables.items()
        for who, found in table.items()
        if "mean" in found
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


def compared(run: Run, last: Mapping[str, Any]) -> list[Row]:
    """Pair each number with that of the last run, and mark what became worse."""
    before = last.get("ratios", {})
    rows = [
        Row(name, now, before.get(name), _worse(name, now, before.get(name), run.mode))
        for name, now in run.ratios.items()
    ]
    for name, found in run.accuracy.items():
        old = last.get("accuracy", {}).get(name)
        fell = False
        if old is not None and OURS in name:
            doubt = math.hypot(found["standard_error"], old["standard_error"])
            slack = ACCURACY_SLACK[run.mode] + 4 * doubt
            fell = old["mean"] - found["mean"] > slack
        rows.append(Row(name, found["mean"], old and old["mean"], fell))
    return rows


def _worse(name: str, now: float, before: float | None, mode: str) -> bool:
    if before is None or before <= 0 or now <= 0:
        return False
    if "exponent" in name:
        return now - before > EXPONENT_SLACK[mode]
    return loss(name, now, before) > FACTOR[mode]


def loss(name: str, now: float, before: float) -> float:
    """Return the factor by which a ratio became worse; below one if better."""
    return before / now if larger_is_better(name) else now / before


def better_of(run: Run, again: Run) -> None:
    """Replace numbers of a run by those of a second one where these are better."""
    for name, value in again.ratios.items():
        known = run.ratios.get(name)
        if known is None or loss(name, value, known) < 1:
            run.ratios[name] = value
    for name, found in again.accuracy.items():
        known_mean = run.accuracy.get(name, {"mean": -math.inf})["mean"]
        if found["mean"] > known_mean:
            run.accuracy[name] = found
