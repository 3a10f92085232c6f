"""Whether a release gains by individual accounting, and at which epsilon (L14).

By default the noise of a release is such that nobody's budget runs out. A unit that the
model fits well pays less than its budget, though. So the noise could be smaller: units
pay more per step, and those whose gradients stay large drop out before the end. The
filter keeps everybody within the same budget either way, so all lines have the same
certificate. All have the parts and the number of steps of the default, too. The study
makes the noise 1, 1.25, 1.5 and 2 times smaller and scores the models on rows that they
were not trained on. All rows come from the training parts of the tables; their test
parts are not looked at.

    python -m benchmarks.studies.individual_gradients [--quick]

Results are written case by case; started again, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.studies.tuned import both_ends
from reticent.estimators import (
    REST_SHARE,
    SPREAD_SHARE,
    CodedColumns,
    RoundBudget,
    Rounds,
    UnitRows,
    fit_release,
    noisy_shares,
    release_signal,
)
from reticent.mechanisms import UnitFilter, noise_source

RESULTS = Path(__file__).parent.parent / "results" / "individual-gradients.json"
TABLES = ("adult", "bank", "both ends")
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0)
DELTA = 1e-6
#: How many times smaller than the default the noise is; 1 is the default.
LESS_NOISE = (1.0, 1.25, 1.5, 2.0)
SEEDS = 5
#: So that a fit takes about a second.
MOST_ROWS = 18_000


@dataclass(frozen=True)
class LessNoise(RoundBudget):
    """The same budget with less noise per round; the filter prices what is drawn."""

    less: float = 1.0

    def scale(self, norm: float, **facts: Any) -> float:
        """Return a scale that is `less` times smaller than the default."""
        return super().scale(norm / self.less, **facts)


@dataclass(eq=False)
class WatchedRounds(Rounds):
    """Rounds that remember how many contributions were refused."""

    budget: RoundBudget
    account: UnitFilter
    source: Any
    asked: int = field(default=0, init=False)
    refused: int = field(default=0, init=False)

    def admit(self, *given: Any, **facts: Any) -> Any:
        """Charge units; count those that cannot pay."""
        admitted = super().admit(*given, **facts)
        self.asked += len(admitted)
        self.refused += int((~admitted).sum())
        return admitted


def rows_of(name: str, seed: int) -> tuple[Any, ...]:
    """Return training rows and a held-out third, by seed, and the declared columns."""
    if name == "both ends":
        X, y = both_ends(1)
        columns: list[Any] = [(-1.0, 1.0)] * X.shape[1]
    else:
        table = data.load_columns(name)
        X, y = table.X[table.train], table.y[table.train]
        columns = list(table.schema.columns.values())
    order = np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]
    border = 2 * len(order) // 3
    train, held_out = order[:border], order[border:]
    return X[train], y[train], X[held_out], y[held_out], columns


def fitted(rows: tuple[Any, ...], epsilon: float, less: float, seed: int) -> Any:
    """Return the accuracy on held-out rows, and the share of refused contributions."""
    X, y, X_test, truth, declared = rows
    whole = RoundBudget.of("study", epsilon, DELTA, "replace-one")
    budget = LessNoise(whole.mu, whole.relation, less)
    source = noise_source(seed)
    columns = CodedColumns.of(declared, X.shape[1])
    targets = (y == 1).astype(np.float64)[None]
    units = UnitRows.of(columns.encode(X), targets, np.arange(len(X)), len(X), source)
    rounds = WatchedRounds(budget, UnitFilter(len(X), budget.cap), source)
    model = fit_release(
        units,
        columns,
        noisy_shares(units, columns, rounds, share=SPREAD_SHARE),
        rounds,
        logistic=True,
        share=REST_SHARE,
        # The same parts for all: how fine a model is can be chosen without this.
        signal=release_signal(len(X), whole),
    )
    said = model.scores(columns.encode(X_test))[0] > 0
    return {
        "accuracy": float((said == (truth == 1)).mean()),
        "refused": rounds.refused / rounds.asked,
    }


def table_of(found: dict[str, Any]) -> list[str]:
    """Return the means over seeds as Markdown, and gains over the default."""
    heads = [f"{less:g} times less noise" for less in LESS_NOISE[1:]]
    lines = [
        f"| table | epsilon | seeds | default | {' | '.join(heads)} |",
        f"|---|---|---|---|{'---|' * len(heads)}",
    ]
    for name in TABLES:
        for epsilon in EPSILONS:
            cases = [found.get(f"{name} {epsilon} {less}", []) for less in LESS_NOISE]
            seeds = min(map(len, cases))
            if not seeds:
                continue
            scores = np.array([[s["accuracy"] for s in c[:seeds]] for c in cases])
            cells = [str(seeds), f"{scores[0].mean():.4f}"]
            for row, case in zip(scores[1:], cases[1:], strict=True):
                gain = row - scores[0]
                error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else 0
                refused = 100 * np.mean([s["refused"] for s in case])
                cells.append(f"{gain.mean():+.4f} ± {error:.4f} ({refused:.0f} %)")
            lines.append(f"| {name} | {epsilon:g} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    found: dict[str, Any] = {}
    if not quick and RESULTS.exists():
        found = json.loads(RESULTS.read_text())["cases"]
    for seed in range(1 if quick else SEEDS):
        for name in TABLES[-1:] if quick else TABLES:
            rows = rows_of(name, seed)
            for epsilon in EPSILONS[:2] if quick else EPSILONS:
                for less in LESS_NOISE[::3] if quick else LESS_NOISE:
                    done = found.setdefault(f"{name} {epsilon} {less}", [])
                    if len(done) > seed:
                        continue
                    done.append(fitted(rows, epsilon, less, seed))
                    print(name, seed, epsilon, less, done[-1], flush=True)
            if not quick:
                facts = {"delta": DELTA, "most_rows": MOST_ROWS, "cases": found}
                RESULTS.write_text(json.dumps(facts, indent=1) + "\n")
    print("\n".join(table_of(found)))
    means = {
        name: float(np.mean([seed["accuracy"] for seed in done]))
        for name, done in found.items()
    }
    print(json.dumps({"held_out_accuracy": means}))


if __name__ == "__main__":
    main()
