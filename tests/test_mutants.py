"""Every certified number is pinned: a change of any of them fails a test."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.__main__ import PAGE, RESULT, SENTENCE, all_mutants, sentence
from tests.mutants.explained import EXPLAINED
from tests.mutants.targets import Package, certified, import_all, rule_functions
from tests.test_layout import ROOT


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_a_number_that_no_test_pins_is_found():
    verdicts = json.loads(run("tests.mutants.toy").splitlines()[-1])
    alive = {name for name, killer in verdicts.items() if killer is None}
    function = "tests.mutants.toy.formulas:unpinned | 3 in 3 * epsilon"
    # Its tests see the sign of the toy's second number, but not its size.
    assert alive == {f"{function} | doubled", f"{function} | halved"}
    assert f"{function} | negated" in verdicts
    changed = {name.rpartition(" | ")[2] for name in verdicts}
    assert changed == {"doubled", "halved", "negated", "sign flipped"}
    assert any(" | SHARE | " in name for name in verdicts)


@pytest.fixture(scope="module")
def names() -> list[str]:
    package = Package(import_all())
    return [mutant.key for mutant in all_mutants(package, certified(package))]


def test_every_rule_has_mutants(names):
    assert len(names) == len(set(names)) >= 80
    changed = {name.partition(" | ")[0] for name in names}
    without_numbers = {"assumed"}
    for name in rule_functions().keys() - without_numbers:
        assert f"rule {name}" in changed
    for start in EXPLAINED:
        assert any(name.startswith(start) for name in names), start


def result() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    return found


def test_the_page_prints_the_last_run():
    last = result()
    assert last["survived"] == []
    assert last["killed"] + last["explained"] == last["mutants"] >= 80
    assert re.findall(SENTENCE, PAGE.read_text("utf-8")) == [sentence(last)]


@pytest.mark.long
def test_no_mutant_survives(tmp_path: Path):
    now = tmp_path / "mutants.json"
    run("tests.mutants", "--write", str(now))
    found = json.loads(now.read_text(encoding="utf-8"))
    assert found["survived"] == []
    # If not, run scripts/mutants, which writes the result that the docs print.
    assert found["mutants"] == result()["mutants"]
