"""The shape of the package: rooms, their names, their size, and the static checks."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from sklearn.base import BaseEstimator

import reticent

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "reticent"
SOURCES = sorted(PACKAGE.rglob("*.py"))
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
MODULES = ["reticent", *(f"reticent.{room}" for room in ROOMS)]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_FOLDER_MODULES = 20


# A path of somebody's machine, or a package registry: neither belongs in a file that
# others clone. The words are put together here so that this file does not hold them.
MACHINE_PATH = re.compile(
    r"(?<![\w.])/(?:" + "|".join(["work", "root", "home", "Users", "farm"]) + r")/\w"
)
REGISTRY = re.compile(
    "|".join(["index-" + "url", "find-" + "links", r"pypi\." + "org"])
)
SKIPPED_FOLDERS = {"__pycache__", "_build", "_generated", "build", "dist", "cache"}
BINARY = {".png", ".npy", ".npz", ".parquet", ".gz", ".pyc", ".db", ".woff2"}


def text_files() -> list[Path]:
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            name
            for name in folders
            if name not in SKIPPED_FOLDERS and (name == ".ci" or name[0] != ".")
        ]
        found += [Path(folder, name) for name in names]
    return sorted(path for path in found if path.suffix not in BINARY)


def public_names(module: ModuleType) -> set[str]:
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and name != "annotations"
    }


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring: proofs may be long."""
    total = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        total -= first.end_lineno - first.lineno + 1
    return total


def deep_imports(source: str, room: str) -> list[str]:
    """Return the submodules of other rooms that a module of `room` imports."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
            if node.module == "reticent":  # from reticent import room
                names = [f"reticent.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            package, *path = name.split(".")
            if package == "reticent" and len(path) > 1 and path[0] != room:
                found.append(name)
    return found


def room_of(path: Path) -> str:
    """Return the room of a source file; its own name for a file of the ground."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def public_classes(sources: dict[str, str]) -> dict[str, list[str]]:
    """Return the files that define each public class, by its name."""
    found: dict[str, list[str]] = {}
    for name, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(name)
    return found


def clashes(sources: dict[str, str]) -> dict[str, list[str]]:
    """Return the public classes that have one name in several files."""
    return {
        name: files for name, files in public_classes(sources).items() if len(files) > 1
    }


def crowded_folders(files: list[Path]) -> dict[Path, int]:
    """Return the folders with too many modules, and how many they have."""
    counts = Counter(path.parent for path in files if path.name != "__init__.py")
    return {
        folder: count for folder, count in counts.items() if count > MAX_FOLDER_MODULES
    }


@pytest.mark.parametrize("module_name", MODULES)
def test_exported_names_are_complete(module_name):
    module = importlib.import_module(module_name)
    exported = module.__all__
    assert len(exported) == len(set(exported))
    missing = [name for name in exported if not hasattr(module, name)]
    assert not missing, f"{module_name}.__all__ names what is not there: {missing}"
    hidden = public_names(module) - set(exported)
    assert not hidden, f"{module_name} has public names outside __all__: {hidden}"


@pytest.mark.parametrize("module_name", [*MODULES, "reticent.errors"])
def test_everything_public_has_a_docstring(module_name):
    module = importlib.import_module(module_name)
    silent = [] if inspect.getdoc(module) else [module_name]
    for name in module.__all__:
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        # Dataclasses without one get their signature as a docstring.
        if not value.__doc__ or value.__doc__.startswith(f"{name}("):
            silent.append(name)
        if inspect.isclass(value) and value.__module__.startswith("reticent."):
            silent += [
                f"{name}.{member}"
                for member, method in vars(value).items()
                if not member.startswith("_")
                and inspect.isroutine(method)
                and not inspect.getdoc(getattr(value, member))
            ]
    assert not silent


def too_long(text: str) -> list[str]:
    """Return what is too long in a source file: the file, and its functions."""
    lines = len(text.splitlines())
    return [f"{lines} lines"] * (lines > MAX_FILE_LINES) + [
        f"{node.name}: {code_lines(node)} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and code_lines(node) > MAX_FUNCTION_LINES
    ]


def test_source_files_and_functions_stay_small():
    found = {path: too_long(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert len(found) > 100
    assert not {path: what for path, what in found.items() if what}


def test_long_files_and_functions_are_noticed():
    body = "    x = 1\n" * MAX_FUNCTION_LINES
    assert not too_long(f"def f():\n{body[10:]}")
    assert too_long(f"def f():\n{body}    x = 2\n")
    assert too_long("x = 1\n" * (MAX_FILE_LINES + 1))


def test_rooms_import_each_other_through_init_only():
    found = {
        path: deep_imports(path.read_text(encoding="utf-8"), room_of(path))
        for path in SOURCES
    }
    assert not {path: imports for path, imports in found.items() if imports}


def test_a_deep_import_is_recognised():
    own = "from reticent.ledger.caps import Cap\nimport reticent.ledger.sql\n"
    fine = "from reticent import ledger\nfrom reticent.ledger import Cap\n"
    lazy = "def f():\n    from reticent.ledger.caps import Cap\n"
    typed = "if TYPE_CHECKING:\n    import reticent.ledger.caps as caps\n"
    assert not deep_imports(own + fine, "ledger")
    assert not deep_imports(fine, "service")
    assert deep_imports(own, "service") == [
        "reticent.ledger.caps",
        "reticent.ledger.sql",
    ]
    assert deep_imports(lazy, "service") == ["reticent.ledger.caps"]
    assert deep_imports(typed, "service") == ["reticent.ledger.caps"]


def learned_parameters(module: ModuleType) -> dict[str, list[str]]:
    """Return constructor parameters of estimators that are named like what `fit` sets.

    An attribute that is annotated in the body of a dataclass is a parameter, too.
    """
    return {
        name: names
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, BaseEstimator)
        and (names := [n for n in inspect.signature(value).parameters if n[-1] == "_"])
    }


@pytest.mark.parametrize("module_name", MODULES)
def test_nothing_that_a_fit_learns_is_a_parameter(module_name):
    assert not learned_parameters(importlib.import_module(module_name))


def test_a_learned_parameter_is_recognised():
    @dataclass(eq=False, repr=False)
    class Mistaken(BaseEstimator):
        epsilon: float = 1.0
        coef_: float = 0.0

    module = ModuleType("mistaken")
    module.Mistaken = Mistaken
    assert learned_parameters(module) == {"Mistaken": ["coef_"]}


def test_no_two_public_classes_share_a_name():
    sources = {
        str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8")
        for path in SOURCES
    }
    assert not clashes(sources)


def test_a_clash_of_names_is_recognised():
    toy = {"a.py": "class Vote: ...\n", "b.py": "class _Vote: ...\nclass Cap: ...\n"}
    assert not clashes(toy)
    assert clashes({**toy, "c.py": "class Vote: ...\n"}) == {"Vote": ["a.py", "c.py"]}


def test_no_folder_has_too_many_modules():
    assert not crowded_folders(SOURCES)


def test_a_crowded_folder_is_recognised():
    files = [Path("room", f"m{number}.py") for number in range(MAX_FOLDER_MODULES)]
    assert not crowded_folders([*files, Path("room", "__init__.py")])
    assert crowded_folders([*files, Path("room", "one_more.py")]) == {
        Path("room"): MAX_FOLDER_MODULES + 1
    }


def test_no_room_or_file_is_a_drawer():
    drawers = {"utils", "util", "common", "helpers", "misc"}
    names = {path.stem.strip("_") for path in SOURCES} | set(ROOMS)
    assert not names & drawers


def test_every_room_has_its_place_in_the_import_order():
    (contract,) = PROJECT["tool"]["importlinter"]["contracts"]
    placed = set(re.findall(r"reticent\.(\w+)", " ".join(contract["layers"])))
    assert set(ROOMS) <= placed


@pytest.mark.parametrize("check", ["format", "lint", "types", "imports"])
def test_static_check_passes(check):
    done = subprocess.run(
        [ROOT / "scripts" / "check", check], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ('__all__ = ["b", "a"]\n', "RUF022"),  # unsorted names
        ("def f(x):\n    assert x\n", "S101"),  # a check that -O removes
        ("import numpy as np\nnp.random.seed(0)\n", "NPY002"),  # global state
        ("try:\n    f()\nexcept Exception:\n    g()\n", "BLE001"),  # swallow all
        ("print(1)\n", "T201"),
    ],
)
def test_lint_catches_what_we_rely_on_it_for(code, rule):
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--stdin-filename", "src/x.py", "-"],
        input=code,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert rule in done.stdout


def test_no_file_holds_a_machine_path():
    hits = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in text_files()
        for number, line in enumerate(
            path.read_text("utf-8", "replace").splitlines(), 1
        )
        if MACHINE_PATH.search(line)
    ]
    assert not hits


def test_machine_path_is_recognised():
    assert MACHINE_PATH.search("see /" + "home/ada/x")
    assert not MACHINE_PATH.search("docs/" + "work/of/art")


def test_lock_pins_with_hashes_and_names_no_registry():
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    assert "://" not in lock
    assert not REGISTRY.search(lock)
    pins = re.split(r"\n(?=\S)", lock.strip())
    loose = [
        pin.split()[0]
        for pin in pins
        if not pin.startswith("#") and ("==" not in pin or "--hash=sha256:" not in pin)
    ]
    assert not loose


def test_lock_holds_every_dependency():
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    locked = set(re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==", lock, re.MULTILINE))
    project = PROJECT["project"]
    wanted = [
        *project["dependencies"],
        *PROJECT["dependency-groups"]["dev"],
        *(
            name
            for extra in project["optional-dependencies"].values()
            for name in extra
        ),
    ]
    names = {re.match(r"[\w.-]+", requirement).group() for requirement in wanted}
    assert {name.lower().replace("_", "-") for name in names} <= locked


def test_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {reticent.__version__}\n" in citation
