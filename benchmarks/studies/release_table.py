"""The table of releases in the documentation, made of the study's results.

python -m benchmarks.studies.release_table
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results" / "release_accuracy.json"
NAMES = {
    "adult": "Adult",
    "bank": "Bank",
    "covtype": "Covertype",
    "skin": "Skin",
    "california": "California ($R^2$)",
}
KINDS = {"pure": "pure", "approx": r"$(\varepsilon, 10^{-6})$"}


def best(entries: dict[str, Any], kind: str) -> tuple[float, float]:
    """Return mean and standard error of the best model of a kind."""
    able = [e for n, e in entries.items() if n.startswith(kind) and "mean" in e]
    top = max(able, key=lambda entry: entry["mean"])
    return top["mean"], top["standard_error"]


def ahead(mine: tuple[float, float], peer: tuple[float, float]) -> bool:
    return mine[0] - peer[0] > math.hypot(mine[1], peer[1])


def rows(results: dict[str, Any]) -> list[str]:
    """Return the lines of the table; ours is bold where it is ahead."""
    lines = [
        "| data | without privacy | who | 0.1 | 0.5 | 1 | 2 | 4 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for key, name in NAMES.items():
        found = results[key]
        plain = f"{max(found['without_privacy'].values()):.3f}"
        for kind, label in KINDS.items():
            mine = [best(found["ours"][e], kind) for e in found["ours"]]
            peer = [best(found["theirs"][e], kind) for e in found["ours"]]
            first = f"| {name} | {plain} |" if kind == "pure" else "| | |"
            ours = [
                f"**{m[0]:.3f}**" if ahead(m, p) else f"{m[0]:.3f}"
                for m, p in zip(mine, peer, strict=True)
            ]
            theirs = [f"{p[0]:.3f}" if p[0] > -1 else f"{p[0]:.1f}" for p in peer]
            lines.append(f"{first} reticent, {label} | {' | '.join(ours)} |")
            lines.append(f"| | | best peer, {label} | {' | '.join(theirs)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(rows(json.loads(RESULTS.read_text()))))
