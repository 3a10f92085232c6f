"""Fill in what two pages say about the tree: the map, and the theorem table.

People write what a room holds, what a theorem says and what to look for. Where it is
found is looked up here, so that a module that moves takes its lines along:

- A module *states* a theorem if it registers a rule of that id (``G22-basic`` is one of
  G22), or if the first line of its docstring names the id: ``(P4)``, ``G6 to G9``.
- A test file is a test of a theorem if the first line of its docstring names the id. It
  must use a name that a module of the theorem defines.
- A thing to look for is a function, a class or a file of the package.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAP = ROOT / "docs" / "explain" / "architecture.md"
THEOREMS = ROOT / "docs" / "explain" / "theorems.md"

ID = re.compile(r"\b([GLMPR])([1-9]\d?)k?\b(?!\[)")
_RANGE = re.compile(rf"{ID.pattern}(?: to |-){ID.pattern}")


def named(line: str) -> set[str]:
    """Return the ids that a line names, those inside ``G6 to G9`` included."""
    found = {"".join(match) for match in ID.findall(line)}
    for letter, first, other, last in _RANGE.findall(line):
        if letter == other:
            found |= {f"{letter}{n}" for n in range(int(first), int(last) + 1)}
    return found


class Tree:
    """The sources and the tests below a folder.

    Parameters
    ----------
    root : Path
        The folder that holds ``src/reticent``, ``tests`` and ``pyproject.toml``.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.package = root / "src" / "reticent"
        self.tests = root / "tests"

    @cached_property
    def sources(self) -> dict[str, ast.Module]:
        """The modules of the package by their paths."""
        return {
            path.relative_to(self.package).as_posix(): ast.parse(path.read_bytes())
            for path in sorted(self.package.rglob("*.py"))
        }

    @cached_property
    def rooms(self) -> set[str]:
        """The names of the rooms."""
        return {path.parent.name for path in self.package.glob("*/__init__.py")}

    @cached_property
    def layers(self) -> list[list[str]]:
        """The order of imports, from the top; names on one line are equals."""
        project = tomllib.loads((self.root / "pyproject.toml").read_text("utf-8"))
        contracts = project["tool"]["importlinter"]["contracts"]
        (order,) = (one["layers"] for one in contracts if one["type"] == "layers")
        return [re.findall(r"reticent\.(\w+)", layer) for layer in order]

    @cached_property
    def cited(self) -> set[str]:
        """The ids that the package cites anywhere."""
        texts = (path.read_text("utf-8") for path in self.package.rglob("*.py"))
        return {"".join(match) for text in texts for match in ID.findall(text)}

    @cached_property
    def modules(self) -> dict[str, list[str]]:
        """The modules that state each id."""
        found = defaultdict(list)
        for path, tree in self.sources.items():
            ids = {name for rule in rules_of(tree) for name in named(base_of(rule))}
            if not path.endswith("__init__.py"):
                ids |= named(first_line(tree))
            for name in ids:
                found[name].append(path)
        return found

    @cached_property
    def tests_of(self) -> dict[str, list[str]]:
        """The tests of each id."""
        found = defaultdict(list)
        for path in sorted(self.tests.rglob("test_*.py")):
            for name in named(first_line(ast.parse(path.read_bytes()))):
                found[name].append(path.relative_to(self.tests).as_posix())
        return found

    def place(self, name: str) -> list[str]:
        """Return the paths of the modules that define a name, or of files called so."""
        defining = [p for p, tree in self.sources.items() if name in definitions(tree)]
        files = self.package.rglob(name) if "." in name else ()
        return defining + [
            p.relative_to(self.package).as_posix() for p in sorted(files)
        ]

    def test(self, path: str) -> str | None:
        """Return the path of a test, found again by its name if it moved."""
        if (self.tests / path).is_file():
            return path
        moved = [*self.tests.rglob(Path(path).name)]
        return moved[0].relative_to(self.tests).as_posix() if len(moved) == 1 else None

    def idle(self) -> Iterator[str]:
        """Say which tests name a theorem but use nothing of its modules."""
        for name, tests in self.tests_of.items():
            defined = {
                definition
                for module in self.modules.get(name, [])
                for definition in definitions(self.sources[module])
            }
            for test in tests:
                words = set(re.findall(r"\w+", (self.tests / test).read_text("utf-8")))
                if not words & defined:
                    yield f"tests/{test} names {name} but uses nothing that states it"


def first_line(tree: ast.Module) -> str:
    """Return the first line of a module's docstring."""
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def definitions(tree: ast.Module) -> set[str]:
    """Return the functions and classes that a module defines."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {node.name for node in tree.body if isinstance(node, kinds)}


def rules_of(tree: ast.Module) -> set[str]:
    """Return the ids of the rules that a module registers with ``@rule(id, ...)``."""
    constants = _constants(tree)
    found = set()
    for node in tree.body:
        for call in getattr(node, "decorator_list", []):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "rule":
                given = ast.unparse(call.args[0])
                found.add(constants.get(given, given.strip("'")))
    return found


def _constants(tree: ast.Module) -> dict[str, str]:
    """Return the names that a module gives to texts, ``A, B = "a", "b"`` included."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = [*zip(target.elts, value.elts, strict=True)]
            for name, text in pairs:
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found[ast.unparse(name)] = text.value
    return found


def base_of(rule: str) -> str:
    """Return the theorem that a rule belongs to."""
    return rule.partition("-")[0]


def cells(line: str) -> list[str]:
    """Return the cells of a row of a table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def block(text: str, name: str) -> str:
    """Return what a page has between ``<!-- name -->`` and ``<!-- /name -->``."""
    return _between(name).search(text)[0]


def rows(text: str, name: str) -> list[list[str]]:
    """Return the rows of the table in a block, without its head."""
    return [cells(line) for line in block(text, name).splitlines()[2:]]


def _between(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)


def _with_rows(text: str, name: str, filled: Iterable[list[str]]) -> str:
    head = block(text, name).splitlines()[:2]
    lines = [
        *head,
        *(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in filled),
    ]
    return _between(name).sub(lambda _: "\n".join(lines) + "\n", text)


def _paths(paths: Iterable[str]) -> str:
    return ", ".join(f"`{path}`" for path in paths)


def filled_theorems(text: str, tree: Tree) -> str:
    """Return the page of theorems with the modules and tests that the tree has."""
    filled = [
        [
            name,
            statement,
            _paths(tree.modules.get(name, [])),
            _paths(tree.tests_of.get(name, [])),
        ]
        for name, statement, *_ in rows(text, "theorems")
    ]
    return _with_rows(text, "theorems", filled)


def filled_map(text: str, tree: Tree) -> str:
    """Return the map with the order of imports and the places that the tree has."""
    filled = []
    for goal, wanted, _, tests in rows(text, "places"):
        names = re.findall(r"`([^`]+)`", wanted)
        code = dict.fromkeys(path for name in names for path in tree.place(name))
        found = [tree.test(path) or path for path in re.findall(r"`([^`]+)`", tests)]
        filled.append([goal, wanted, _paths(code), _paths(found)])
    text = _with_rows(text, "places", filled)
    order = [" | ".join(layer) for layer in tree.layers]
    drawn = "\n".join(["```text", *order, "```", ""])
    return _between("layers").sub(lambda _: drawn, text)


def faults_of_theorems(text: str, tree: Tree) -> list[str]:
    """Say what a person must mend in the page of theorems."""
    listed = [row[0] for row in rows(text, "theorems")]
    found = [f"{name} has no row" for name in sorted(tree.cited - set(listed))]
    found += [f"{name} has two rows" for name in set(listed) if listed.count(name) > 1]
    for name in listed:
        if not tree.modules.get(name):
            found.append(f"no module states {name}")
        if not tree.tests_of.get(name):
            found.append(f"no test names {name} in its docstring")
    return [*found, *tree.idle()]


def faults_of_map(text: str, tree: Tree) -> list[str]:
    """Say what a person must mend in the map."""
    listed = [row[0].strip("`") for row in rows(text, "rooms")]
    layered = {name for layer in tree.layers for name in layer}
    found = [f"the room {name} has no line" for name in sorted(tree.rooms - {*listed})]
    found += [f"there is no room {name}" for name in sorted({*listed} - tree.rooms)]
    found += [
        f"{name} has two lines" for name in sorted({*listed}) if listed.count(name) > 1
    ]
    found += [f"{name} is in no layer" for name in sorted(tree.rooms - layered)]
    for _, wanted, _, tests in rows(text, "places"):
        for name in re.findall(r"`([^`]+)`", wanted):
            if not tree.place(name):
                found.append(f"nothing is called {name}")
        for path in re.findall(r"`([^`]+)`", tests):
            if tree.test(path) is None:
                found.append(f"there is no tests/{path}, nor one elsewhere")
    return found


PAGES = {
    MAP: (filled_map, faults_of_map),
    THEOREMS: (filled_theorems, faults_of_theorems),
}


def main() -> int:
    """Write the pages; 1 if something is left that only a person can mend."""
    tree, found = Tree(), []
    for page, (filled, faults) in PAGES.items():
        text = filled(page.read_text("utf-8"), tree)
        page.write_text(text, encoding="utf-8")
        found += [f"{page.name}: {fault}" for fault in faults(text, tree)]
    print("\n".join(found) or "the pages say what the tree says")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
