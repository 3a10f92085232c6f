"""The speed of local answers, as a table on the page about individual accounting.

python -m benchmarks.local_speed
"""

from __future__ import annotations

import json
from typing import Any

from benchmarks.parts import RESULTS, ROOT

PAGE = ROOT / "docs" / "explain" / "individual-accounting.md"
RESULT = RESULTS / "speed_neighbors.json"
BEGIN, END = "<!-- speed -->\n", "<!-- /speed -->\n"
NOT_MEASURED = "It was not measured in full since it was last changed.\n"
#: What is measured, what it is compared with, and the most that is aimed at.
RATIOS = {
    "one answer": ("one question", "distances to all rows", "0.2"),
    "batch": ("1,000 questions", "the bare product of both matrices", "2"),
    "constant time": ("one question, `constant_time=True`", "distances", "-"),
    "worn out": ("one question where few units can pay", "distances", "-"),
}


def rendered(found: dict[str, Any] | None = None) -> str:
    """Return the table; `found` is what the benchmark printed, by default the last."""
    if found is None:
        if not RESULT.exists():
            return NOT_MEASURED
        found = json.loads(RESULT.read_text("utf-8"))
    lines = ["| what | against | ratio | aim |", "|---|---|---|---|"]
    for name, (what, against, aim) in RATIOS.items():
        ratio = found[name]["ratio"]
        lines.append(f"| {what} | {against} | {ratio:.2f} | {aim} |")
    size, served = found["size"], found["through a ledger"]["ratio"]
    lines += [
        "",
        f"One question through a ledger on SQLite, to {size['recorded']:,} rows, takes "
        f"{served:.1f} times",
        "the time of distances to these rows, which a cache may hold. A process that",
        f"starts again after {size['asked']:,}",
        f"such questions needs {found['restart']['seconds']:.1f} s of processor time "
        "to its first answer, with all",
        "packages, the model and its log; the aim is 10 s.",
    ]
    return "\n".join(lines) + "\n"


def write() -> None:
    """Put the table on the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + rendered() + END + after, "utf-8")


if __name__ == "__main__":
    write()
