"""The command line works without the packages of the service."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from reticent.cli.main import app
from reticent.errors import LedgerError
from reticent.ledger import SQLLedger
from tests.cli.every_command import COMMANDS, EXTRA_COMMANDS, SERVER_COMMANDS

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("every_command.py")
OF_THE_SERVICE = [
    "fastapi",
    "jinja2",
    "prometheus_client",
    "psycopg",
    "starlette",
    "uvicorn",
]


def run_every_command(python: str | Path, folder: Path, *blocked: str) -> dict:
    done = subprocess.run(
        [python, PROGRAM, folder, *blocked],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("without")
    blocked = [*OF_THE_SERVICE, *EXTRA_COMMANDS.values()]
    return run_every_command(sys.executable, folder, *blocked)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_server_needs_no_package_of_the_service(command, results):
    code, said = results[command]
    assert code == 0, said


@pytest.mark.parametrize("command", SERVER_COMMANDS)
def test_a_command_with_server_says_what_to_install(command, results):
    code, said = results[command]
    assert code == 1
    assert "pip install 'reticent[serve]'" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", EXTRA_COMMANDS)
def test_a_command_with_an_extra_says_what_to_install(command, results):
    code, said = results[command]
    assert code == 2
    assert f"pip install 'reticent[{EXTRA_COMMANDS[command]}]'" in said
    assert "Traceback" not in said


# Typer brings pydantic of its own accord, so blocking it would block the parser.
NOT_OURS = {*OF_THE_SERVICE, "pydantic"} - {"psycopg"}


def foreign_imports(path: Path) -> set[str]:
    """Return the packages of the service that a file imports, anywhere in it."""
    roots = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            roots |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add((node.module or "").partition(".")[0])
    return roots & NOT_OURS


def test_only_the_service_imports_its_packages():
    package = ROOT / "src" / "reticent"
    files = sorted(package.rglob("*.py"))
    found = {
        file.relative_to(package).parts[0] for file in files if foreign_imports(file)
    }
    assert found == {"service"}


def test_the_command_line_imports_the_service_inside_functions_only():
    for file in sorted((ROOT / "src" / "reticent" / "cli").glob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("reticent.service"), file


@pytest.mark.parametrize("driver", ["psycopg", "sqlalchemy"])
def test_a_ledger_without_its_driver_says_what_to_install(driver, monkeypatch):
    if driver == "sqlalchemy":
        monkeypatch.delitem(sys.modules, "reticent.ledger.sql.store", raising=False)
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(LedgerError, match=r"pip install 'reticent\[cli\]'"):
        SQLLedger("postgresql://nobody@localhost:1/nothing")


def test_every_command_is_tried():
    """A new command is in the list, or is one that needs the service."""
    found = set()
    for name, command in typer.main.get_command(app).commands.items():
        inner = getattr(command, "commands", {})
        found |= {f"{name} {other}" for other in inner} or {name}
    tried = " ".join([*COMMANDS, *SERVER_COMMANDS, *EXTRA_COMMANDS])
    assert found
    assert not {name for name in found if name not in tried}
