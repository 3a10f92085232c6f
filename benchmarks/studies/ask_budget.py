"""What many answers cost together, by voting rule and by consensus.

python -m benchmarks.studies.ask_budget [--quick]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from reticent.guarantees import repeat
from reticent.mechanisms import (
    consensus_margin,
    gaussian_vote_certificate,
    gaussian_vote_scale,
    geometric_vote_certificate,
    permute_and_flip_vote_certificate,
    soft_vote_certificate,
    sparse_scale,
)

ROOT = Path(__file__).parent.parent.parent
N, DELTA = 30_000, 1e-6
QUERIES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
SHARDS = 1001


def rules(epsilon: float) -> dict[str, object]:
    """Certificates of one answer at the same nominal epsilon."""
    scale = gaussian_vote_scale(epsilon, DELTA)
    return {
        "soft": soft_vote_certificate(n=N, epsilon=epsilon),
        "geometric": geometric_vote_certificate(n=N, epsilon=epsilon),
        "permute-and-flip": permute_and_flip_vote_certificate(n=N, epsilon=epsilon),
        "gaussian": gaussian_vote_certificate(n=N, scale=scale),
    }


def consensus_epsilon(queries: int, unstable: int) -> float:
    """Smallest epsilon at which `SHARDS` voters that agree pass the margin."""

    def needed(epsilon: float) -> float:
        margin = consensus_margin(
            epsilon=epsilon, delta=DELTA, unstable=unstable, queries=queries
        )
        return 2 * (margin + 18 * sparse_scale(epsilon, unstable)) + 3

    low, high = 1e-3, 1e4
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if needed(middle) <= SHARDS else (middle, high)
    return high


def curves(queries: tuple[int, ...]) -> dict[str, object]:
    table: dict[str, object] = {}
    for epsilon in (0.1, 0.5, 1.0):
        table[str(epsilon)] = {
            name: [
                repeat(certificate, k, delta=DELTA).guarantee.epsilon for k in queries
            ]
            for name, certificate in rules(epsilon).items()
        }
    table["consensus"] = {
        f"{unstable} in doubt": [consensus_epsilon(k, unstable) for k in queries]
        for unstable in (1, 5)
    }
    return table


def plot(queries: tuple[int, ...], table: dict, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    marks = {
        "soft": "o-",
        "geometric": "s--",
        "permute-and-flip": "^:",
        "gaussian": "d-.",
    }
    for axis, epsilon in zip(axes, ("0.1", "1.0"), strict=True):
        for name, values in table[epsilon].items():
            axis.loglog(queries, values, marks[name], ms=4, label=name)
        for name, values in table["consensus"].items():
            axis.loglog(queries, values, lw=2.5, alpha=0.6, label=f"consensus, {name}")
        axis.set(
            title=f"one answer at epsilon = {float(epsilon):g}",
            xlabel="different queries answered",
        )
        axis.grid(alpha=0.3, which="both")
    axes[0].set_ylabel(f"total epsilon at delta = {DELTA:g}")
    axes[1].legend(fontsize=8, loc="upper left")
    figure.suptitle(f"What many answers cost ({SHARDS} agreeing shards for consensus)")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    queries = QUERIES[:6] if quick else QUERIES
    table = curves(queries)
    result = {"queries": queries, "delta": DELTA, "n": N, "total_epsilon": table}
    print(json.dumps(result))
    if not quick:
        (ROOT / "benchmarks" / "results").mkdir(exist_ok=True)
        path = ROOT / "benchmarks" / "results" / "ask_budget.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        plot(queries, table, ROOT / "docs" / "figures" / "ask_budget.png")


if __name__ == "__main__":
    main()
