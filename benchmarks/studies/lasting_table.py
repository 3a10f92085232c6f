"""Lasting answers as a table on the page about individual accounting.

python -m benchmarks.studies.lasting_table
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.local_speed import PAGE
from benchmarks.studies import lasting

BEGIN, END = "<!-- lasting -->\n", "<!-- /lasting -->\n"
NAMES = {
    "covtype": "Covertype",
    "covtype7": "Covertype, 7 labels",
    "skin": "Skin",
    "california": "California, R²",
    "adult": "Adult",
    "bank": "Bank",
}
METHODS = (
    "lasting, replace-one",
    "lasting, zero-out",
    "release, partitions",
    "release, splines",
    "votes of shards",
    "PATE by hand",
    "individual neighbours by hand",
    "DP-EBM",
    "diffprivlib",
)
#: Total and number of questions of each column.
COLUMNS = ((1.0, 100), (1.0, 1_000), (1.0, 10_000), (0.5, 10_000), (2.0, 10_000))


def table(records: list[dict[str, Any]]) -> str:
    """Return means over seeds, with standard errors, as a Markdown table."""
    scores: dict[tuple[str, str], dict[tuple[float, int], list[float]]] = {}
    for record in records:
        found = scores.setdefault((record["data"], record["method"]), {})
        column = record["total"], record["questions"]
        found.setdefault(column, []).append(record["score"])
    heads = [f"{count:,} for {total:g}" for total, count in COLUMNS]
    lines = [f"| data | method | seeds | {' | '.join(heads)} |"]
    lines.append("|---" * (3 + len(heads)) + "|")
    for data, name in NAMES.items():
        for method in METHODS:
            found = scores.get((data, method), {})
            values = [found.get(column, []) for column in COLUMNS]
            counts = sorted({len(each) for each in values if each})
            if counts:
                seeds = " to ".join(map(str, sorted({counts[0], counts[-1]})))
                cells = [name, method, seeds, *map(shown, values)]
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def shown(values: list[float]) -> str:
    if not values:
        return "-"
    if len(values) == 1:
        return f"{values[0]:.4f}"
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.4f} ({error:.4f})"


def write() -> None:
    """Put the table on the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    made = table(lasting.read(lasting.RESULTS))
    PAGE.write_text(before + BEGIN + made + END + rest.partition(END)[2], "utf-8")


if __name__ == "__main__":
    write()
