"""The headline numbers of the README, made of the committed results.

python -m benchmarks.headline
"""

from __future__ import annotations

import json
from typing import Any

from benchmarks.parts import RESULTS, ROOT
from benchmarks.studies.release_table import OURS, Results

README = ROOT / "README.md"
BEGIN, END = "<!-- measured -->\n", "<!-- /measured -->\n"
ASKED = ("0.1", "0.25", "0.5", "1.0", "2.0")
SAME = "the same"
LASTING = ("covtype", 1.0, 10_000)


def load(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def asking() -> str:
    """Return accuracies of private answers, and of other libraries' models."""
    found = load("ask_accuracy")
    peers = found["peers_at_epsilon_1"]
    ours = [f"{found['ours'][epsilon]['auto']['mean']:.3f}" for epsilon in ASKED]
    linear = peers["diffprivlib.LogisticRegression"]["mean"]
    others = sorted(
        (one["mean"] for name, one in peers.items() if "Logistic" not in name),
        reverse=True,
    )
    rest = [f"{value:.3f}" for value in others]
    return "\n".join(
        [
            "The table shows the accuracy of private answers on Adult "
            f"({found['queries']:,} test rows),",
            "by boosted trees on shards. Without privacy the accuracy is "
            f"{found['without_privacy']['mean']:.3f}.",
            "`python -m benchmarks.studies.ask_accuracy` computes the table.",
            "",
            "| epsilon of one answer | 0.1 | 0.25 | 0.5 | 1 | 2 |",
            "|---|---|---|---|---|---|",
            f"| reticent, automatic number of shards | {' | '.join(ours)} |",
            "",
            "At epsilon 1 for a whole released model, diffprivlib's classifiers reach "
            f"{linear:.3f} (logistic",
            f"regression, default settings), {', '.join(rest[:-1])} and {rest[-1]} on "
            "the same rows. These are",
            "different promises: private answers spend epsilon on every new question, "
            "a released",
            "model only once. `python -m benchmarks.studies.ask_budget` draws what "
            "many answers cost.",
        ]
    )


def ratios() -> list[str]:
    """Return the rows of the table: what, measured, against, command."""
    asked, public = load("speed_prediction"), load("speed_public")
    total = load("speed_accounting")["total of many answers"]
    served = load("service")["sqlite"]
    rate = served["durable"]["per_second"]
    speed = "`python -m benchmarks --only speed/{}`".format
    rows = [
        (
            "one private answer, 250 models",
            f"{asked['one answer']['ratio']:.2f}x",
            "one `predict` of scikit-learn",
            speed("prediction"),
        ),
        (
            "100,000 private answers",
            f"{asked['batch']['ratio']:.2f}x",
            "the bare matrix product",
            SAME,
        ),
        (
            "training 250 linear shards",
            f"{asked['training']['times_faster']:.1f}x faster",
            "joblib over scikit-learn",
            SAME,
        ),
        (
            "projected walk, 10^7 points",
            f"{asked['walk fit']['ratio']:.1f}x",
            "one `numpy.sort`",
            SAME,
        ),
        (
            "RRSPM, 200,000 rows, 50 features",
            f"{public['laplace']['ratio']:.2f}x",
            "one `numpy.argsort` per feature",
            speed("public"),
        ),
        _lasting(),
        _released(),
        _large(),
        _growth(),
        (
            f"adding up {total['answers']:,} answers",
            f"{total['times_faster']:.0f}x faster",
            "dp_accounting's loss distributions",
            speed("accounting"),
        ),
        (
            "service, durable charges, SQLite",
            f"{rate:,.0f}/s, {served['durable / floor']:.2f}x",
            "a server that reads and sends the same bytes",
            "`python benchmarks/speed/bench_service.py`",
        ),
    ]
    return [f"| {' | '.join(row)} |" for row in rows]


def _lasting() -> tuple[str, str, str, str]:
    scores: dict[str, list[float]] = {}
    for record in json.loads((RESULTS / "lasting.json").read_text("utf-8")):
        if (record["data"], record["total"], record["questions"]) == LASTING:
            scores.setdefault(record["method"], []).append(record["score"])
    means = {who: sum(found) / len(found) for who, found in scores.items()}
    rivals = ("release, partitions", "DP-EBM", "votes of shards", "PATE by hand")
    names = {"release, partitions": "our release"}
    shown = [f"{means[who]:.3f} {names.get(who, who)}" for who in rivals]
    return (
        "10,000 lasting answers, Covertype, (1, 1e-6) in all",
        f"{means['lasting, replace-one']:.3f}",
        f"{', '.join(shown)}; the same total, replacing one unit",
        "`python -m benchmarks.studies.lasting`",
    )


def _released() -> tuple[str, str, str, str]:
    found = Results(load("release"))
    ours = found.best("adult", OURS, 1.0)
    peers = {
        who: one["mean"]
        for who, one in found.rivals("adult", 1.0)
        if not who.startswith(OURS)
    }
    shown = [f"{mean:.3f} {who}" for who, mean in peers.items()]
    return (
        "released model at its defaults, Adult, (1, 1e-6)",
        f"{ours['mean']:.3f}" if ours else "-",
        f"{', '.join(shown)}; all for replacing one unit, peers tuned on the test rows",
        "`python -m benchmarks.studies.release`",
    )


def _large() -> tuple[str, str, str, str]:
    found = load("scale")
    memory, size = found["peak resident bytes"] / 1e9, found["file bytes"] / 1e9
    return (
        "fit of 10^8 rows, 1,000 shards",
        f"{memory:.1f} GB, {found['rows a second'] / 1e3:.0f},000 rows/s",
        f"a file of {size:.1f} GB; the same models as in memory",
        "`python -m benchmarks.scale.out_of_core`",
    )


def _growth() -> tuple[str, str, str, str]:
    found = load("growth")
    largest = max(found["ratios"].values())
    return (
        f"fits and predictions, all {len(found['rows'])} methods",
        f"exponent <= {largest:.2f}",
        "linear growth, sizes over a factor of 100",
        "`python -m benchmarks.growth`",
    )


def rendered() -> str:
    """Return all that stands between the two marks in the README."""
    return "\n".join(
        [
            asking(),
            "",
            "Each ratio below was measured within one run on two cores. `make bench` "
            "runs everything;",
            "`make bench QUICK=1` runs smaller sizes in under five minutes. The",
            "[page of benchmarks](docs/reference/benchmarks.md) has more, with "
            "accuracy at equal",
            "privacy compared with other libraries.",
            "",
            "| what | measured | against | command |",
            "|---|---|---|---|",
            *ratios(),
            "",
        ]
    )


def write() -> None:
    text = README.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    README.write_text(f"{head}{BEGIN}{rendered()}{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    write()
