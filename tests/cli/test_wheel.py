"""The wheel in clean environments: what the extras promise, and what it weighs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.every_command import COMMANDS
from tests.cli.test_without_service import ROOT, run_every_command

pytestmark = pytest.mark.long

LARGEST_CORE = 330 * 10**6  # bytes, compiled files of Python included
# Rooms that need an extra.
NEED_EXTRAS = {"cli", "client", "dossier", "home", "service"}
# The environment of the tests may have no pip; the Python it was made of has.
PIP = [sys._base_executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout; skips where pip cannot fetch packages."""
    folder = tmp_path_factory.mktemp("wheel")
    probe = run(*PIP, "download", "-q", "--no-deps", "-d", folder / "probe", "typer")
    if probe.returncode != 0:
        pytest.skip("pip is not installed here, or cannot reach a package index")
    source = folder / "source"
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        source.mkdir(exist_ok=True)
        copy(ROOT / name, source / name)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    built = subprocess.run(
        [*build, "-d", folder / "dist"], cwd=source, capture_output=True, check=False
    )
    assert built.returncode == 0, built.stderr
    (found,) = (folder / "dist").glob("*.whl")
    return found


def environment(folder: Path, requirement: str) -> Path:
    """Make a clean environment with one requirement; return its Python."""
    made = run(sys._base_executable, "-m", "venv", "--without-pip", folder)
    assert made.returncode == 0, made.stderr
    python = folder / "bin" / "python"
    done = run(*PIP, "--python", python, "install", "-q", requirement)
    assert done.returncode == 0, done.stderr
    return python


@pytest.fixture(scope="module")
def core(wheel, tmp_path_factory):
    return environment(tmp_path_factory.mktemp("core") / "venv", str(wheel))


def test_the_core_is_light(core):
    (packages,) = core.parents[1].glob("lib/python*/site-packages")
    size = sum(f.stat().st_size for f in packages.rglob("*") if f.is_file())
    assert size > 50 * 10**6  # it was there to be measured
    assert size <= LARGEST_CORE


def test_the_core_imports_without_extras(core):
    rooms = {path.parent.name for path in ROOT.glob("src/reticent/*/__init__.py")}
    names = ", ".join(f"reticent.{room}" for room in sorted(rooms - NEED_EXTRAS))
    done = run(core, "-c", f"import {names}")
    assert done.returncode == 0, done.stderr
    assert run(core, "-c", "import reticent.service").returncode != 0
    said = run(core.with_name("reticent"), "--version")
    assert said.returncode != 0
    assert "pip install 'reticent[cli]'" in said.stderr


def test_the_command_line_needs_its_own_extra_alone(wheel, tmp_path):
    python = environment(tmp_path / "venv", f"{wheel}[cli]")
    for package in ("fastapi", "uvicorn", "prometheus_client", "jinja2"):
        assert run(python, "-c", f"import {package}").returncode != 0
    assert run(python.with_name("reticent"), "--version").returncode == 0
    work = tmp_path / "work"
    work.mkdir()
    results = run_every_command(python, work)
    assert set(results) == set(COMMANDS)
    for command, (code, said) in results.items():
        assert code == 0, (command, said)
    refused = run(python.with_name("reticent"), "serve", "--home", work / ".reticent")
    assert refused.returncode == 1
    assert "pip install 'reticent[serve]'" in refused.stderr
