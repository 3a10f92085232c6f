"""Which functions compute certified numbers: the rules, their modules, what they call.

Nothing is listed by hand. Roots are the registered rules, the modules of mechanisms
that register one (their laws), and the modules named after their bounds. From there
calls are followed by name, as far as they stay inside the package. What only chooses
parameters is not here: the rules certify whatever was chosen.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from sklearn.base import BaseEstimator

import reticent
from reticent.guarantees import rules

# What computes no number of a certificate, and why.
NOT_CERTIFIED = {
    "reticent.errors": "messages",
    "reticent._sklearn": "estimators' parameters",
    "reticent.hypotheses": "oracles, compared with brute force",
    "reticent.ensembles": "training",
    "reticent.signing": "signatures",
    "reticent.audit": "what samples refute, not what is certified",
    "reticent.mechanisms.sampling.exact": "draws, compared with the laws",
    "reticent.mechanisms.sampling.inversion": "draws, compared with the laws",
    "reticent.mechanisms.sampling.randomness": "random bits",
    "reticent.mechanisms.sampling.listening": "random bits, heard by audits",
    "reticent.mechanisms.sampling.fixed_point": "enclosures, right at every precision",
    "reticent.mechanisms.sampling.intervals": "enclosures, right at every precision",
    "reticent.mechanisms.response": "enclosures, right at every precision",
    "reticent.mechanisms.sampling.inputs": "checks of what callers give",
    "reticent._numbers": "checks of what callers give",
    "reticent._search": "searches; rules certify what they find",
    "reticent.guarantees.subject": "checks of what callers give",
    "reticent.guarantees.render": "how certificates are printed",
    "reticent.guarantees.certificate": "how certificates are stored",
    "reticent.guarantees.rule": "how certificates are derived, without numbers",
}


@dataclass(frozen=True)
class Target:
    """A function of the package that stands for itself in a module's source."""

    module: str
    name: str
    line: int
    function: FunctionType = field(compare=False, repr=False)

    @property
    def place(self) -> str:
        """Module and name, without the package's own name."""
        return f"{self.module.removeprefix('reticent.')}:{self.name}"


def import_all() -> list[ModuleType]:
    """Import every module of the package, so that every rule is registered."""
    found = pkgutil.walk_packages(reticent.__path__, "reticent.")
    names = [each.name for each in found if not each.name.endswith("__main__")]
    return [importlib.import_module(name) for name in names]


@cache
def parsed(path: str) -> ast.Module:
    """Return a file's syntax tree."""
    return ast.parse(Path(path).read_text(encoding="utf-8"), path)


def unwrapped(value: Any) -> FunctionType | None:
    """Return the plain function inside decorators and descriptors, if there is one."""
    for attribute in ("fget", "func", "__func__"):
        inner = getattr(value, attribute, None)
        if isinstance(value, (property, cached_property, staticmethod, classmethod)):
            value = inner if inner is not None else value
    value = inspect.unwrap(value) if hasattr(value, "__wrapped__") else value
    return value if isinstance(value, FunctionType) else None


class Package:
    """All functions of the package by the code they run."""

    def __init__(self, modules: list[ModuleType]) -> None:
        self.modules = {module.__name__: module for module in modules}
        self.targets: dict[CodeType, Target] = {}
        for module in modules:
            for owner in (module, *self._classes(module)):
                for value in list(vars(owner).values()):
                    self._add(unwrapped(value))

    @staticmethod
    def _classes(module: ModuleType) -> Iterator[type]:
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield value

    def _add(self, function: FunctionType | None) -> None:
        if function is None or function.__module__ not in self.modules:
            return
        code = function.__code__
        module = function.__module__
        if code.co_filename != self.modules[module].__file__:
            return  # generated, such as a dataclass's __init__
        target = Target(module, code.co_qualname, code.co_firstlineno, function)
        self.targets.setdefault(code, target)

    def of(self, function: FunctionType | None) -> Target | None:
        """Return the target that a function is, if it is one."""
        return None if function is None else self.targets.get(function.__code__)

    def node(self, target: Target) -> ast.FunctionDef | None:
        """Return a target's definition in its module's syntax tree."""
        tree = parsed(target.function.__code__.co_filename)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                last = target.name.rpartition(".")[2]
                if first == target.line and node.name == last:
                    return node
        return None

    def called(self, target: Target) -> Iterator[Target]:
        """Yield the functions of the package that a target names."""
        node = self.node(target)
        for each in ast.walk(node) if node is not None else ():
            if not isinstance(each, (ast.Name, ast.Attribute)):
                continue
            value = self.resolved(each, target)
            if isinstance(value, type) and value.__module__ in self.modules:
                own = (unwrapped(part) for part in vars(value).values())
                yield from (t for f in own if (t := self.of(f)) is not None)
            elif (found := self.of(unwrapped(value))) is not None:
                yield found

    def resolved(self, node: ast.expr, target: Target) -> Any:
        """Return what a name or a dotted name means inside a target, or None."""
        if isinstance(node, ast.Name):
            return target.function.__globals__.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in ("self", "cls") and "." in target.name:
                owner = self.modules[target.module]
                for part in target.name.split(".")[:-1]:
                    owner = getattr(owner, part, None)
                return inspect.getattr_static(owner, node.attr, None) if owner else None
            owner = target.function.__globals__.get(node.value.id)
            if isinstance(owner, (ModuleType, type)):
                return inspect.getattr_static(owner, node.attr, None)
        return None


def rule_functions() -> dict[str, FunctionType]:
    """Return the undecorated function of every rule of the package, by its id."""
    found = {name: inspect.unwrap(known.apply) for name, known in rules.items()}
    # Tests register rules of their own.
    return {
        name: function
        for name, function in found.items()
        if function.__module__.startswith("reticent.")
    }


def certified(package: Package) -> list[Target]:
    """Return every function that takes part in a certified number."""
    functions = rule_functions().values()
    laws = {f.__module__ for f in functions if ".mechanisms." in f.__module__}
    roots = [package.of(function) for function in functions]
    roots += [
        target
        for target in package.targets.values()
        if target.module in laws or target.module.endswith("bounds")
    ]
    open_ends = [target for target in roots if target is not None]
    found: set[Target] = set()
    while open_ends:
        target = open_ends.pop()
        if target in found or left_out(package, target):
            continue
        found.add(target)
        open_ends.extend(package.called(target))
    return sorted(found, key=lambda t: (t.module, t.line))


def left_out(package: Package, target: Target) -> str:
    """Say why a function computes no certified number; nothing if it may."""
    for name, reason in NOT_CERTIFIED.items():
        if target.module == name or target.module.startswith(name + "."):
            return reason
    names = set(inspect.signature(target.function).parameters)
    if names & {"source", "rng"}:
        return "it draws: exact tests compare it with the law"
    if "arithmetic" in names:
        return "an enclosure of a law that is here, right at every precision"
    owner: Any = package.modules[target.module]
    for part in target.name.split(".")[:-1]:
        owner = getattr(owner, part, None)
    if isinstance(owner, type) and issubclass(owner, BaseEstimator):
        return "it moves data and parameters between functions that are here"
    return ""
