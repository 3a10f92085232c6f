"""The table of tests that do not run behind the proxy names what there is."""

import ast
from pathlib import Path

import pytest

from tests.service.left_out import LEFT_OUT, entry_for

HERE = Path(__file__).parent


def found_in(path):
    tree = ast.parse(path.read_text("utf-8"))
    return {
        f"{path.name}::{node.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


FILES = {path.name: found_in(path) for path in sorted(HERE.glob("test_*.py"))}
ALL = set().union(*FILES.values())


def stale(table):
    """Return the entries of a table that name nothing."""
    return [entry for entry in table if entry not in ALL and entry not in FILES]


def test_every_entry_names_a_file_or_a_test_and_has_a_reason():
    assert stale(LEFT_OUT) == []
    assert all(len(reason.split()) > 3 for reason in LEFT_OUT.values())


def test_an_entry_that_names_nothing_is_noticed():
    wrong = ["test_nothing.py", "test_predict.py::test_nothing"]
    assert stale(wrong) == wrong


def test_a_test_is_not_left_out_twice():
    names = [entry for entry in LEFT_OUT if "::" in entry]
    assert not [name for name in names if name.split("::")[0] in LEFT_OUT]


@pytest.mark.parametrize(
    "file",
    [
        "test_admin.py",
        "test_dashboard.py",
        "test_predict.py",
        "test_problems.py",
        "test_wrong_uses.py",
    ],
)
def test_files_that_ask_the_service_run_behind_the_proxy(file):
    run = {name for name in FILES[file] if entry_for(name) is None}
    assert len(run) > len(FILES[file]) / 2
