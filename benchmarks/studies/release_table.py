"""The page that compares releases, made of the study's results.

python -m benchmarks.studies.release_table
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.parts import RESULTS as FOLDER
from benchmarks.parts import ROOT

RESULTS = FOLDER / "release.json"
LARGE = FOLDER / "speed_peers_large.json"
PAGE = ROOT / "docs" / "explain" / "releases-compared.md"
FIGURE = ROOT / "docs" / "figures" / "release.png"
BEGIN, END = "<!-- measured -->\n", "<!-- /measured -->\n"
OURS, ZEROED, PURE = "reticent", "reticent, zeroing one unit", "reticent, pure"
PLAIN = "boosted trees without privacy"
NAMES = {
    "adult": "Adult",
    "bank": "Bank",
    "california": "California (R²)",
    "covtype 100k": "Covertype, 100,000 rows",
    "covtype": "Covertype, all rows",
    "covtype 7": "Covertype, 7 labels",
    "skin": "Skin",
}
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
#: Who is no rival of ours with a delta and replace-one: other promises, or none.
OTHER_TERMS = (OURS, ZEROED, PURE, PLAIN)
#: Without these a column is open: the strongest peers.
REQUIRED = ("DP-EBM", "random boosting by hand")
Record = dict[str, Any]


def summary(values: list[float]) -> dict[str, float]:
    """Return the mean and its standard error; zero for a single value."""
    spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "standard_error": float(spread)}


class Results:
    """Scores by table, method, epsilon and setting."""

    def __init__(self, records: list[Record]) -> None:
        self.found: dict[tuple[str, str, float], dict[str, list[float]]] = {}
        self.sizes: dict[str, tuple[int, int]] = {}
        for record in records:
            place = (record["data"], record["method"], record["epsilon"])
            settings = self.found.setdefault(place, {})
            for name, score in record["scores"].items():
                settings.setdefault(name, []).append(score)
            self.sizes[record["data"]] = (record["train"], record["test"])

    def methods(self, name: str) -> list[str]:
        """Return who was measured on a table: ours, then the peers, by name."""
        found = dict.fromkeys(who for place, who, _ in self.found if place == name)
        first = [who for who in (OURS, ZEROED, PURE) if who in found]
        last = [PLAIN] if PLAIN in found else []
        return [*first, *sorted(set(found) - set(first) - set(last)), *last]

    def best(self, name: str, who: str, epsilon: float) -> dict[str, Any] | None:
        """Return the setting with the best mean: its scores, and how many seeds."""
        settings = self.found.get((name, who, epsilon))
        if not settings:
            return None
        setting = max(settings, key=lambda each: np.mean(settings[each]))
        values = settings[setting]
        return {**summary(values), "setting": setting, "seeds": len(values)}

    def rivals(self, name: str, epsilon: float) -> Iterator[tuple[str, dict[str, Any]]]:
        for who in self.methods(name):
            found = self.best(name, who, epsilon)
            if who not in OTHER_TERMS and found:
                yield who, found

    def verdict(self, name: str, epsilon: float) -> list[str] | None:
        """Return who is not behind ours by more than a standard error.

        None if that is open: with one seed, an error is not known, and a strong peer
        may be missing. DP-EBM knows two labels at most.
        """
        ours, rivals = self.best(name, OURS, epsilon), dict(self.rivals(name, epsilon))
        needed = [who for who in REQUIRED if (who, name) != ("DP-EBM", "covtype 7")]
        if ours is None or ours["seeds"] < 2 or not set(needed) <= set(rivals):
            return None
        return [who for who, found in rivals.items() if not ahead(ours, found)]


def ahead(ours: dict[str, Any], other: dict[str, Any]) -> bool:
    """Say whether ours leads by more than the standard error of the difference.

    Another's error with one seed is taken to be as large as ours.
    """
    theirs = other["standard_error"] if other["seeds"] > 1 else ours["standard_error"]
    lead = ours["mean"] - other["mean"]
    return bool(lead > math.hypot(ours["standard_error"], theirs))


def cell(found: dict[str, Any] | None, *, bold: bool = False) -> str:
    if found is None:
        return "-"
    text = f"{found['mean']:.3f}" if found["mean"] > -1 else f"{found['mean']:.1f}"
    text = f"**{text}**" if bold else text
    error = f" ± {found['standard_error']:.3f}" if found["seeds"] > 1 else ""
    return text + error


def table(records: list[Record]) -> str:
    """Return the Markdown table; ours is bold where it is ahead of every peer."""
    results = Results(records)
    lines = [
        "| data | who | seeds | " + " | ".join(f"{e:g}" for e in EPSILONS) + " |",
        "|---" * (3 + len(EPSILONS)) + "|",
    ]
    for name, shown in NAMES.items():
        for who in results.methods(name):
            found = [results.best(name, who, epsilon) for epsilon in EPSILONS]
            seeds = sorted({each["seeds"] for each in found if each})
            counted = "-".join(str(n) for n in dict.fromkeys([seeds[0], seeds[-1]]))
            cells = [
                cell(each, bold=who == OURS and results.verdict(name, epsilon) == [])
                for epsilon, each in zip(EPSILONS, found, strict=True)
            ]
            lines.append(f"| {shown} | {who} | {counted} | {' | '.join(cells)} |")
            shown = ""
    return "\n".join(lines)


def not_ahead(records: list[Record]) -> list[str]:
    """Return one line for each cell in which ours does not lead."""
    results, lines = Results(records), []
    for name, shown in NAMES.items():
        for epsilon in EPSILONS:
            for who in results.verdict(name, epsilon) or []:
                ours = results.best(name, OURS, epsilon)
                theirs = results.best(name, who, epsilon)
                lines.append(
                    f"- {shown} at {epsilon:g}: {who} {cell(theirs)} "
                    f"({theirs['setting'] if theirs else ''}), ours {cell(ours)}"
                )
    return lines


def missing(records: list[Record]) -> str:
    """Return a sentence on what of the whole study is not there."""
    from benchmarks.studies.release import cells
    from benchmarks.studies.release_methods import own_methods
    from benchmarks.studies.release_peers import peer_methods

    known = {(r["data"], r["method"], r["epsilon"], r["seed"]) for r in records}
    wanted = list(cells({**own_methods(), **peer_methods()}, seeds=10))
    there = sum((c.data, c.method, c.epsilon, c.seed) in known for c in wanted)
    return f"{there:,} of {len(wanted):,} measurements of the whole study are there"


def compared(records: list[Record]) -> str:
    """Return how often ours leads, of all that could be compared."""
    results = Results(records)
    found = [results.verdict(name, epsilon) for name in NAMES for epsilon in EPSILONS]
    closed = [each for each in found if each is not None]
    led = sum(each == [] for each in closed)
    others = sum(all(who.startswith("reticent") for who in each) for each in closed)
    return (
        f"Of {len(closed)} cells that can be compared (two seeds of ours, and the "
        f"strongest peers), the default is ahead of all methods of others in {others}, "
        f"and of our own splines and Fourier features as well in {led}"
    )


def cost() -> str:
    """Return a paragraph on time and memory of a fit on many rows."""
    found = json.loads(LARGE.read_text("utf-8"))
    own = found["models"]["PrivateTabularClassifier"]
    peer = found["models"]["InterpretML DP-EBM"]
    ratio = own["fit seconds"] / peer["fit seconds"]
    share = found["memory of ours over the table, ratio"]
    return "\n".join(
        [
            f"On {found['rows']:,} generated rows of ten numbers a fit of ours takes",
            f"{ratio:.2f} times the processor time of DP-EBM's and, beside the table,",
            f"{share:.2f} times its memory (aims: 1 and 3; one run;",
            "`python benchmarks/speed/bench_peers.py --large`).",
        ]
    )


def rendered(records: list[Record]) -> str:
    """Return all that stands between the two marks on the page."""
    behind = not_ahead(records)
    return "\n".join(
        [
            f"{compared(records)}; {missing(records)}.",
            "",
            table(records),
            "",
            "Where a peer is not behind by more than the standard error of the",
            "difference:",
            "",
            *(behind or ["- nowhere in what was measured"]),
            "",
            cost(),
            "",
        ]
    )


def draw(records: list[Record]) -> None:
    """Draw scores against epsilon, one panel per table."""
    import matplotlib.pyplot as plt

    results = Results(records)
    names = [name for name in NAMES if name in results.sizes]
    figure, axes = plt.subplots(2, 4, figsize=(13, 6), layout="constrained")
    marks = {}
    # One look in all panels, whoever is missing in one of them.
    everybody = sorted({who for name in names for who in results.methods(name)})
    looks = {who: place for place, who in enumerate(everybody)}
    for axis, name in zip(axes.flat, names, strict=False):
        low = []
        for who in results.methods(name):
            found = {e: results.best(name, who, e) for e in EPSILONS}
            shown = {e: each for e, each in found.items() if each}
            if who == PLAIN:
                axis.axhline(next(iter(shown.values()))["mean"], color="0.5", lw=0.8)
                continue
            marks[who] = axis.errorbar(
                list(shown),
                [each["mean"] for each in shown.values()],
                yerr=[2 * each["standard_error"] for each in shown.values()],
                marker="o*Dsv^xPh>"[looks[who] % 10],
                color="black" if who == OURS else f"C{looks[who] % 10}",
                capsize=2,
            )
            low += [each["mean"] for each in shown.values()]
        axis.set_xscale("log")
        axis.set_ylim(bottom=max(min(low), max(low) - 0.25))
        axis.set_title(NAMES[name])
        axis.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    for axis in list(axes.flat)[len(names) :]:
        axis.axis("off")
    figure.legend(marks.values(), marks.keys(), loc="outside lower right", ncols=3)
    figure.savefig(FIGURE, dpi=100)


def write() -> None:
    records = json.loads(RESULTS.read_text("utf-8"))
    text = PAGE.read_text("utf-8")
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    PAGE.write_text(f"{head}{BEGIN}{rendered(records)}{END}{tail}", "utf-8")
    draw(records)


if __name__ == "__main__":
    write()
