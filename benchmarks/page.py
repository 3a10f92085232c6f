"""The page of the documentation, made of the committed results.

python -m benchmarks.page
"""

from __future__ import annotations

import json
from typing import Any

from benchmarks import local_speed
from benchmarks.parts import RESULTS, ROOT
from benchmarks.report import (
    ACCURACY_SLACK,
    EXPONENT_SLACK,
    FACTOR,
    larger_is_better,
)

PAGE = ROOT / "docs" / "reference" / "benchmarks.md"
TEXT = """\
# Benchmarks

This page has the measured numbers: accuracy, growth with the size of the data, speed.
`make bench` runs everything; `make bench QUICK=1` runs smaller sizes in under five
minutes. Both write their results to `benchmarks/results`, and
`python -m benchmarks.page` writes this page from them. Speed is a ratio of two times
within one run, so it depends little on the machine. A later run fails if a number is
worse than the committed one in two measurements: a ratio by a factor of {quick} (full
run: {full}), an exponent by {exponent}, an accuracy of ours by {points} points and four
standard errors.

`python -m benchmarks.data` fetches the data sets from their public homes (UCI, and a
textbook's copy of California) into `benchmarks/cache`, or into the folder
`RETICENT_DATA`. It compares the SHA-256 checksum of what each table *contains* with
that of the tables measured here, and refuses others; archives and their own checksums
may change. Without these data the benchmarks use the Adult records of the package and
tables of scikit-learn; studies that need other data say so. Other libraries run in
their own environment, `.venv-peers`, which `python -m benchmarks.peers` creates.
Without it a quick run leaves them out and says so.
"""

LONG = """\
A full run takes at most three hours. What each part printed is kept at once, so that a
run that was interrupted or ran out of time continues where it stopped;
`python -m benchmarks --estimate` says how long the rest took last time. The full run
below was not made in one go: parts were run one by one with
`python -m benchmarks --only PART`. Growth takes about 25 minutes. The fit of 10^8 rows
takes four minutes and needs a file of 2.3 GB. The longest part is `release`, which
keeps every single measurement (`python -m benchmarks.studies.release --estimate`).
"""


def load(name: str) -> dict[str, Any]:
    path = RESULTS / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def rendered() -> str:
    """Return the page."""
    quick, full = load("bench_quick.json"), load("bench.json")
    head = TEXT.format(
        quick=FACTOR["quick"],
        full=FACTOR["full"],
        exponent=EXPONENT_SLACK["quick"],
        points=round(100 * ACCURACY_SLACK["quick"]),
    )
    lines = [head]
    lines += accuracy(load("equal_terms.json"), quick)
    lines += growth(load("growth.json"))
    lines += ratios(quick, full)
    lines += times(quick, full)
    return "\n".join(lines).rstrip() + "\n"


def accuracy(study: dict[str, Any], quick: dict[str, Any]) -> list[str]:
    """Return the table of the full study, and what the quick run measured."""
    lines = ["## Accuracy at equal privacy and equal number of answers", ""]
    if study:
        tables = study["accuracy"]
        methods = list(dict.fromkeys(who for one in tables.values() for who in one))
        lines += [
            f"(1, 1e-6) in total, {study['seeds']} seeds, mean and standard error;",
            "computed by `python -m benchmarks.studies.equal_terms`, which explains",
            "the rows. Peers have the setting that was best on the test rows.",
            "",
            "| who | " + " | ".join(tables) + " |",
            "|---" * (1 + len(tables)) + "|",
        ]
        for who in methods:
            cells = [_cell_of(one.get(who)) for one in tables.values()]
            lines.append(f"| {who} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += ["A quick run measured, with two seeds and fewer rows:", ""]
    lines += ["| what | accuracy |", "|---|---|"]
    for name, found in quick.get("accuracy", {}).items():
        lines.append(f"| {name.removeprefix('studies/')} | {_cell_of(found)} |")
    return [*lines, ""]


def _cell_of(found: dict[str, float] | None) -> str:
    if found is None:
        return ""
    error = f" ± {found['standard_error']:.3f}" if found["standard_error"] else ""
    return f"{found['mean']:.3f}{error}"


def growth(found: dict[str, Any]) -> list[str]:
    """Return the exponents of every method in rows and in queries."""
    lines = [
        "## Growth",
        "",
        "The exponent is the slope of processor time on log-log axes over a factor of",
        "100: of `fit` against rows and of `predict` against queries. The goal is 1.1.",
        "A case above the goal is measured up to three times, and the smallest time at",
        "each size counts; the exponents of all sweeps are in brackets.",
        "`python -m benchmarks.growth` computes the table.",
        "",
        "| method | fit, rows | up to | predict, queries | up to |",
        "|---|---|---|---|---|",
    ]
    for name, fit in found.get("rows", {}).items():
        asked = found["queries"].get(name)
        cells = [_slope(fit), f"{fit['sizes'][-1]:,}"]
        cells += [_slope(asked), f"{asked['sizes'][-1]:,}"] if asked else ["", ""]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    reasons = found.get("not measured", {})
    if reasons:
        lines += ["", "Not measured:", ""]
        lines += [f"- {name}: {reason}" for name, reason in reasons.items()]
    return [*lines, ""]


def _slope(found: dict[str, Any]) -> str:
    sweeps = [f"{slope:.2f}" for slope in found.get("sweeps", [])]
    return f"{found['exponent']:.2f}" + (f" ({', '.join(sweeps)})" if sweeps else "")


def ratios(quick: dict[str, Any], full: dict[str, Any]) -> list[str]:
    """Return all ratios, of both kinds of runs."""
    both = {"quick": quick.get("ratios", {}), "full": full.get("ratios", {})}
    names = list(dict.fromkeys(name for found in both.values() for name in found))
    lines = []
    for title, better in (("Larger is better", True), ("Smaller is better", False)):
        lines += [f"## {title}", "", "| what | quick run | full run |", "|---|---|---|"]
        for name in names:
            if larger_is_better(name) == better:
                cells = [
                    f"{found[name]:.3g}" if name in found else ""
                    for found in both.values()
                ]
                lines.append(f"| {_short(name)} | " + " | ".join(cells) + " |")
        lines.append("")
    return lines


def times(quick: dict[str, Any], full: dict[str, Any]) -> list[str]:
    """Return how long each part took, and what the comparison said."""
    lines = [
        "## Parts",
        "",
        f"Measured on {quick.get('machine', 'no machine yet')}, while other programs",
        "were running. A cell is empty if a full run has not measured it; the results",
        "of studies are on other pages.",
        "",
        LONG,
        "| part | quick run | seconds | full run | seconds |",
        "|---|---|---|---|---|",
    ]
    one, other = quick.get("parts", {}), full.get("parts", {})
    for name in dict.fromkeys([*one, *other]):
        cells = []
        for part in (one.get(name), other.get(name)):
            cells += [part["state"], f"{part['seconds']:.0f}"] if part else ["", ""]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    found = quick.get("comparison")
    if found:
        worse = "; ".join(found["worse"]) or "none"
        lines += [
            "",
            f"The quick run was compared with that of commit `{found['with']}`.",
            f"{found['numbers']} numbers are in both; worse: {worse}.",
        ]
    return lines


def _short(name: str) -> str:
    for words, shorter in ((", times_faster", ""), ("ratios, ", ""), ("_ratio", "")):
        name = name.replace(words, shorter)
    return name.replace("|", "\\|").removesuffix(", ratio")


def write() -> None:
    PAGE.write_text(rendered(), encoding="utf-8")
    local_speed.write()


if __name__ == "__main__":
    write()
