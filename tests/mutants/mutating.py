"""Mutants: one number doubled, halved or negated, one sign flipped, in memory only."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Real
from types import CodeType, FunctionType
from typing import Any

from tests.mutants.targets import Package, Target, parsed

# Keywords whose numbers lay out arrays or say how long a search may take.
LAYOUT = {"axis", "ndmin", "bits", "decimals", "n_jobs", "maxsize"}
LAYOUT |= {"maxiter", "halvings", "relative"}
# Attributes whose numbers say how many digits a computation carries.
DIGITS = {"prec", "dps", "Emin", "Emax"}
# Below this a number is a margin for rounding: only its direction is certified.
MARGIN = 1.1e-6

# Names of limits: of what is accepted, of what is computed at once, of digits.
SIZES = re.compile(
    "LARGEST|SMALLEST|MOST|FEW|WORKSPACE|CELLS|BITS|PRECISION|FINE|REACH|MARGIN|DOUBT|STEPS"
)

FACTORS = {"doubled": 2.0, "halved": 0.5, "negated": -1.0}
FLIPPED = {ast.Add: ast.Sub, ast.Sub: ast.Add}


@dataclass(frozen=True)
class Mutant:
    """One change of one number or sign.

    Attributes
    ----------
    place : str
        The function, or the rule, that is changed.
    where : str
        The expression around the change, and which of its equals it is.
    change : str
        What is done to it.
    apply : callable
        Makes the change in this process, for good: fork first.
    hit : Target
        Tests that run this function are related.
    idle : callable
        Whether nothing has been changed since it was applied: twice zero is zero.
    """

    place: str
    where: str
    change: str
    apply: Callable[[], None] = dataclasses.field(compare=False, repr=False)
    hit: Target = dataclasses.field(compare=False, repr=False)
    idle: Callable[[], bool] = dataclasses.field(
        default=lambda: False, compare=False, repr=False
    )

    @property
    def key(self) -> str:
        """The mutant's name, which does not change when lines move."""
        return f"{self.place} | {self.where} | {self.change}"


def is_number(node: ast.AST) -> bool:
    """Whether a node is a number that a factor changes."""
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return False
    return isinstance(node.value, (int, float)) and node.value != 0


def is_margin(node: ast.expr) -> bool:
    """Whether a node is a margin for rounding or a limit of floats: 1e-12, 2.0**-50."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, power = node.left, node.right
        if isinstance(power, ast.UnaryOp):
            power = power.operand
        return is_number(base) and is_number(power) and power.value >= 10
    if is_error_bound(node):
        return True
    if isinstance(node, ast.Name):
        return bool(re.search("doubt|margin", node.id.lower()))
    return is_number(node) and abs(node.value) < MARGIN


def is_limit(node: ast.Constant, above: ast.AST) -> bool:
    """Whether a number is the 1 that a probability or a count is compared with.

    The types of guarantees refuse it once more.
    """
    return isinstance(above, ast.Compare) and node.value == 1


def is_text(node: ast.AST) -> bool:
    """Whether a plus sign beside this node joins rather than adds."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (str, bytes))
    return isinstance(node, (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp))


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that can hold certified numbers."""
    if isinstance(node, (ast.Raise, ast.JoinedStr)):
        return  # messages
    if is_error_bound(node) or is_margin(node):
        return  # how large a rounding error may be
    if is_shape(node):
        return
    if isinstance(node, ast.Assign) and DIGITS & {
        n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)
    }:
        return
    for name, value in ast.iter_fields(node):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)) and name != "body":
            continue  # defaults and annotations: what users give, not what we certify
        if isinstance(node, ast.AnnAssign) and name == "annotation":
            continue
        if isinstance(node, ast.Subscript) and name == "slice":
            continue  # positions
        if isinstance(node, ast.keyword) and node.arg in LAYOUT:
            continue
        if isinstance(node, ast.For) and name == "iter" and is_counter(node):
            continue
        yield from (each for each in as_list(value) if isinstance(each, ast.AST))


def is_error_bound(node: ast.AST) -> bool:
    """Whether a node multiplies something by a margin for rounding."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return False
    return is_margin(node.left) or is_margin(node.right)


def is_shape(node: ast.AST) -> bool:
    """Whether a node makes or checks the shape of an array."""
    if isinstance(node, ast.Compare):
        asked = ast.unparse(node.left)
        return any(word in asked for word in (".ndim", ".shape", ".itemsize"))
    if isinstance(node, ast.Call):
        made = ast.unparse(node.func)
        if made.endswith((".reshape", ".broadcast_to")):
            return True
        if made == "reach":
            return True  # what audits are told, and check by replaying
        return made in ("np.empty", "np.zeros", "np.ones", "np.full", "np.reshape")
    return False


def is_counter(node: ast.For) -> bool:
    """Whether a loop only repeats: how often a bisection halves certifies nothing."""
    return isinstance(node.target, ast.Name) and node.target.id == "_"


def is_bracket(node: ast.Assign) -> bool:
    """Whether a search sets its bracket: how fast it ends certifies nothing."""
    names = {
        each.id for t in node.targets for each in ast.walk(t) if hasattr(each, "id")
    }
    return bool(names) and names <= {"low", "high", "middle"}


def as_list(value: Any) -> list[Any]:
    """Return a list of one thing or of many."""
    return value if isinstance(value, list) else [value]


def walk(
    node: ast.AST, above: ast.AST | None = None, *, looping: bool = False
) -> Iterator[tuple[Any, Any]]:
    """Yield every node that can hold certified numbers, with the one above it."""
    yield node, above
    looping = looping or isinstance(node, (ast.For, ast.While))
    for part in parts(node):
        if not (looping and isinstance(part, ast.Assign) and is_bracket(part)):
            yield from walk(part, node, looping=looping)


def changes(node: ast.AST) -> Iterator[tuple[ast.AST, str, str, Any]]:
    """Yield node, description, attribute and new value of each change in a function."""
    ends: set[int] = set()
    for each, above in walk(node):
        if isinstance(each, ast.Call) and ast.unparse(each.func) in (
            "range",
            "np.arange",
        ):
            ends.update(id(argument) for argument in each.args)
        if isinstance(each, (ast.BinOp, ast.AugAssign)) and type(each.op) in FLIPPED:
            if not any(is_text(side) for side in ast.iter_child_nodes(each)):
                yield each, "sign flipped", "op", FLIPPED[type(each.op)]()
        elif isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.USub):
            yield each, "sign flipped", "op", ast.UAdd()
        elif is_number(each) and not is_margin(above) and not is_limit(each, above):
            for name, factor in FACTORS.items():
                signed = isinstance(above, ast.UnaryOp) or (
                    isinstance(above, (ast.BinOp, ast.AugAssign))
                    and type(above.op) in FLIPPED
                )
                if name == "negated" and signed:
                    continue  # the sign before it is flipped already
                if name != "negated" and is_margin(each):
                    continue
                if name == "halved" and id(above) in ends and each.value == 1:
                    continue  # a range that ends a half later is the same
                yield each, name, "value", scaled(each.value, factor)


def scaled(value: float, factor: float) -> float:
    """Return a multiple; whole numbers stay whole where they can."""
    if not isinstance(value, int):
        return value * factor
    if factor == 0.5:
        return value // 2 if value % 2 == 0 or value > 2**53 else value / 2
    return value * int(factor)


def code_of(target: Target) -> CodeType:
    """Compile a target's module as its syntax tree stands, and return its code."""
    original = target.function.__code__
    tree = parsed(original.co_filename)
    whole = compile(tree, original.co_filename, "exec", dont_inherit=True)
    for code in nested(whole):
        same_place = code.co_firstlineno == original.co_firstlineno
        if same_place and code.co_qualname == original.co_qualname:
            return code
    raise LookupError(f"no code for {target.place}")


def nested(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def in_source(package: Package, target: Target) -> Iterator[Mutant]:
    """Yield the mutants of one function's own numbers and signs."""
    node = package.node(target)
    if node is None:
        return
    above = {id(each): parent for each, parent in walk(node)}
    seen: dict[str, int] = {}
    for each, change, attribute, new in changes(node):
        shown = each
        while not isinstance(shown, ast.expr) or (
            shown is each and attribute == "value"
        ):
            shown = above[id(shown)]
            if isinstance(shown, ast.stmt):
                break
        where = re.sub(r"\s+", " ", ast.unparse(shown)).split(": ")[0][:100]
        label = f"{describe(each)} in {where}" if attribute == "value" else where
        count = seen[label, change] = seen.get((label, change), 0) + 1
        label += f" (no. {count})" if count > 1 else ""
        yield Mutant(
            target.place,
            label,
            change,
            recompiled(target, each, attribute, new),
            target,
        )


def describe(node: Any) -> str:
    """Show a number as it stands in the source."""
    return ast.unparse(node)


def recompiled(
    target: Target, node: ast.AST, attribute: str, new: Any
) -> Callable[[], None]:
    """Return what changes a node and gives the function its new code."""

    def apply() -> None:
        setattr(node, attribute, new)
        target.function.__code__ = code_of(target)

    return apply


def module_numbers(package: Package, targets: list[Target]) -> Iterator[Mutant]:
    """Yield the mutants of numbers that targets read from their module."""
    done = set()
    for target in targets:
        for name in sorted(set(target.function.__code__.co_names)):
            value = target.function.__globals__.get(name)
            plain = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not plain or value == 0 or (target.module, name) in done:
                continue
            if name not in assigned(target) or SIZES.search(name):
                continue
            done.add((target.module, name))
            for change, factor in FACTORS.items():
                place = target.place.partition(":")[0]
                apply = rebound(package, name, value, scaled(value, factor))
                yield Mutant(place, name, change, apply, target)


def assigned(target: Target) -> set[str]:
    """Return the names that a target's module gives a value itself."""
    tree = parsed(target.function.__code__.co_filename)
    return {
        each.id
        for statement in tree.body
        if isinstance(statement, (ast.Assign, ast.AnnAssign))
        for each in ast.walk(statement)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def rebound(package: Package, name: str, old: Any, new: Any) -> Callable[[], None]:
    """Return what gives a name its new value in every module that has the old one."""

    def apply() -> None:
        for module in package.modules.values():
            if vars(module).get(name) is old:
                setattr(module, name, new)

    return apply


def in_conclusions(
    package: Package, rules: dict[str, FunctionType], gives: dict[str, tuple[type, ...]]
) -> Iterator[Mutant]:
    """Yield the mutants of what each rule concludes, number by number."""
    for name, function in rules.items():
        fields = {
            part.name for kind in gives[name] for part in dataclasses.fields(kind)
        }
        target = package.of(function)
        assert target is not None
        for part in sorted(fields):
            for change in ("doubled", "halved"):
                mutated = Conclusions(function, part, FACTORS[change])
                yield Mutant(
                    f"rule {name}", part, change, mutated.apply, target, mutated.idle
                )


class Conclusions:
    """One number of a rule's conclusions, scaled."""

    def __init__(self, function: FunctionType, part: str, factor: float) -> None:
        self.function, self.part, self.factor = function, part, factor
        self.changed = False

    def idle(self) -> bool:
        """Whether every such number was zero, or absent."""
        return not self.changed

    def apply(self) -> None:
        """Put a function in the rule's place that calls it and scales its number."""
        function = self.function
        original = FunctionType(
            function.__code__, function.__globals__, function.__name__
        )
        original.__kwdefaults__ = function.__kwdefaults__

        def scaling(*args: Any, **kwargs: Any) -> Any:
            return self.scaled(original(*args, **kwargs))

        function.__globals__["__scaling__"] = scaling
        source = "def shim(*args, **kwargs): return __scaling__(*args, **kwargs)"
        calling = compile(source, "<mutant>", "exec")
        (shim,) = (code for code in calling.co_consts if isinstance(code, CodeType))
        function.__defaults__ = function.__kwdefaults__ = None
        function.__code__ = shim

    def scaled(self, conclusion: Any) -> Any:
        """Return a conclusion with its number scaled."""
        value = getattr(conclusion.guarantee, self.part, None)
        if not isinstance(value, Real) or value == 0:
            return conclusion
        self.changed = True
        new = scaled(value, self.factor)
        guarantee = dataclasses.replace(conclusion.guarantee, **{self.part: new})
        return dataclasses.replace(conclusion, guarantee=guarantee)
