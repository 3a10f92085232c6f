"""`scripts/lines` says how much shorter restructuring made the code."""

import re
import subprocess
import sys
from collections import Counter
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest

from tests.test_layout import ROOT

PATH = str(ROOT / "scripts" / "lines")


@pytest.fixture(scope="module")
def lines():
    loader = SourceFileLoader("lines_of_src", PATH)
    module = module_from_spec(spec_from_loader("lines_of_src", loader))
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def printed(lines):
    first = next(iter(lines.sorted_commits()))[0]
    if subprocess.run(
        ["git", "-C", ROOT, "cat-file", "-e", f"{first}^"], capture_output=True
    ).returncode:
        pytest.skip("this copy does not have the commits")
    done = subprocess.run(
        [sys.executable, PATH, "--kinds"], capture_output=True, text=True, check=True
    )
    return [line.split(maxsplit=3) for line in done.stdout.splitlines()]


def test_restructuring_took_about_2500_lines_out_of_src(printed):
    sums = {row[1]: int(row[0].replace(",", "")) for row in printed if len(row) == 2}
    counted = Counter()
    for net, kind, *rest in printed:
        if rest:
            counted[kind] += int(net.replace(",", ""))
    assert counted == {kind: sums[kind] for kind in counted}
    assert set(counted) == {"restructure", "words", "capability"}  # none is unsorted
    # Lines were added where sentences became plainer; both together are the claim.
    assert (sums["restructure"], sums["words"]) == (-2528, 42)
    assert sums["all"] == sum(sums.values()) - sums["all"]


def test_every_commit_is_listed_under_its_own_subject(lines, printed):
    listed = re.findall(r"^(\w{7}) \w+ +(?!src/)(.+)$", lines.KINDS.read_text(), re.M)
    told = {row[2]: row[3] for row in printed if len(row) == 4}
    assert dict(listed) == told
    assert len(listed) == len(told)


def test_a_commit_that_nobody_sorted_is_not_hidden(lines):
    files = {"src/a.py": 3, "src/b.py": -5}
    assert lines.by_kind("1234567", files, {}) == {"unsorted": -2}
    kinds = {("1234567", ""): "capability", ("1234567", "src/b.py"): "restructure"}
    found = lines.by_kind("1234567", files, kinds)
    assert found == {"capability": 3, "restructure": -5}
