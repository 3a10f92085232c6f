"""Double, halve and negate every certified number, and run the tests that use it."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from reticent.guarantees import rules
from tests.mutants.explained import EXPLAINED, reason
from tests.mutants.mutating import Mutant, in_conclusions, in_source, module_numbers
from tests.mutants.running import IDLE, Runner, Verdict, session
from tests.mutants.targets import Package, Target, certified, import_all, rule_functions

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "mutants.json"
PAGE = ROOT / "docs" / "explain" / "audit.md"
# The page's line about the last run, or what stands there before the first one.
SENTENCE = r"There are about [\d,]+ mutants\.|Of [\d,]+ mutants, .* are explained\."


def all_mutants(package: Package, targets: list[Target]) -> list[Mutant]:
    """Return every mutant: in functions, in modules' numbers, in conclusions."""
    found = [mutant for target in targets for mutant in in_source(package, target)]
    found += module_numbers(package, targets)
    gives = {name: known.gives for name, known in rules.items()}
    found += in_conclusions(package, rule_functions(), gives)
    return found


def rooms_of(targets: list[Target]) -> list[str]:
    """Return the test folders of the rooms that the targets live in."""
    rooms = {target.module.split(".")[1] for target in targets}
    return sorted(f"tests/{room}" for room in rooms if (ROOT / "tests" / room).is_dir())


def summary(verdicts: list[Verdict], seconds: float) -> dict[str, Any]:
    """Count what became of the mutants, in all and by kind."""
    verdicts = [verdict for verdict in verdicts if verdict.killed_by != IDLE]
    alive = {verdict.mutant for verdict in verdicts if verdict.killed_by is None}
    explained = {name for name in alive if reason(name) is not None}
    kinds = Counter(verdict.mutant.rpartition(" | ")[2] for verdict in verdicts)
    return {
        "mutants": len(verdicts),
        "killed": len(verdicts) - len(alive),
        "explained": len(explained),
        "survived": sorted(alive - explained),
        "rules": len(rules),
        "changes": dict(sorted(kinds.items())),
        "tests_that_noticed": len({v.killed_by for v in verdicts} - {None}),
        "minutes": round(seconds / 60, 1),
    }


def sentence(result: dict[str, Any]) -> str:
    """Return what the page on audits says about a run without survivors."""
    return (
        f"Of {result['mutants']:,} mutants, {result['killed']:,} are noticed, none "
        f"survives, and {result['explained']:,} are explained."
    )


def write(result: dict[str, Any], path: Path) -> None:
    """Write the result; the committed one also goes to the page on audits."""
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if path == RESULT and not result["survived"]:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(re.sub(SENTENCE, sentence(result), page), encoding="utf-8")


def faults(result: dict[str, Any], verdicts: list[Verdict]) -> list[str]:
    """Return what is wrong: survivors, and explanations that explain nothing."""
    found = [f"survived: {name}" for name in result["survived"]]
    alive = [verdict.mutant for verdict in verdicts if verdict.killed_by is None]
    for start in EXPLAINED:
        if not any(name.startswith(start) for name in alive):
            found.append(f"explained, but none of these survives: {start}")
    return found


def main() -> int:
    """Run from the command line; 1 if a mutant survives without an explanation."""
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose name holds this text")
    parser.add_argument("--list", action="store_true", help="name them, and stop")
    parser.add_argument("--tests", help="folders of tests instead of every room's")
    parser.add_argument("--map", type=Path, help="keep the related tests in this file")
    parser.add_argument(
        "--write", type=Path, default=RESULT, help="where the result goes"
    )
    options = parser.parse_args()
    package = Package(import_all())
    targets = certified(package)
    mutants = [
        mutant
        for mutant in all_mutants(package, targets)
        if any(text in mutant.key for text in options.only.split(","))
    ]
    say(f"{len(mutants)} mutants in {len(targets)} functions of {len(rules)} rules")
    if options.list:
        say("\n".join(mutant.key for mutant in mutants))
        return 0

    def report(verdict: Verdict) -> None:
        if verdict.killed_by is None and reason(verdict.mutant) is None:
            say(f"survived: {verdict.mutant} ({verdict.tests} tests)")

    start = time.perf_counter()
    runner = Runner(
        package,
        targets,
        mutants,
        report=report,
        map_file=options.map,
        jobs=int(os.environ.get("JOBS", "2")),
        expected=frozenset(m.key for m in mutants if reason(m.key) is not None),
    )
    folders = options.tests.split(",") if options.tests else rooms_of(targets)
    session(runner, folders)
    result = summary(runner.verdicts, time.perf_counter() - start)
    wrong = result["survived"] if options.only else faults(result, runner.verdicts)
    if not options.only:
        write(result, options.write)
    say(json.dumps(result, indent=2))
    say("\n".join(wrong) or "none survives")
    return 1 if wrong else 0


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201 - a command's output


if __name__ == "__main__":
    sys.exit(main())
