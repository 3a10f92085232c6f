"""Certificates: a guarantee, what it is about, and the rule it follows from."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, Generic, TypeAlias, TypeVar

from reticent._numbers import LARGEST_WHOLE
from reticent.errors import CertificateError
from reticent.guarantees.subject import (
    Assumption,
    Relation,
    Scope,
    relation_as_dict,
    relation_from_dict,
)
from reticent.guarantees.types import Guarantee

G_co = TypeVar("G_co", bound=Guarantee, covariant=True)

Scalar: TypeAlias = bool | int | float | str | None
Detail: TypeAlias = Scalar | tuple[Scalar, ...]

FORMAT = 1
# Parameters of rules that were renamed, by the name that certificates were first issued
# under. They are read by both names. The id is computed from the first one, so it does
# not change: accounts and remembered answers are filed under it.
_RENAMED = {"public_labels": "labels_from_data"}
_FIRST_NAMES = {new: old for old, new in _RENAMED.items()}
# What can be built can be written, read, printed and compared without running out of
# stack. Derivations have a handful of levels; a loop that composes its own result
# grows without end and should use `compose` once.
_DEEPEST = 64


@dataclass(frozen=True, kw_only=True)
class Certificate(Generic[G_co]):
    """A guarantee with its relation, scope, derivation and assumptions.

    Certificates are made by rules (see `reticent.guarantees.rules`), not by hand: the
    rule's id, its premises and its parameters (`details`) are recorded, so that
    `recheck` can derive the numbers again.
    """

    guarantee: G_co  #: what is promised, in numbers
    relation: Relation  #: whose change, or which randomness, the promise is about
    #: What was released: one answer, all answers of an interface, or a model.
    scope: Scope
    rule: str  #: id of the rule that concluded this
    #: What the rule started from; empty for a mechanism.
    premises: tuple[Certificate[Any], ...] = ()
    #: What the code cannot check. It includes those of every premise.
    assumptions: frozenset[Assumption] = field(default_factory=frozenset)
    details: tuple[tuple[str, Detail], ...] = ()  #: the parameters of the rule
    _depth: int = field(init=False, repr=False, compare=False, default=1)

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, Guarantee):
            raise CertificateError(
                "a certificate needs a Guarantee; got "
                f"guarantee of type {type(self.guarantee).__name__}."
            )
        depth = 1 + max((p._depth for p in self.premises), default=0)
        object.__setattr__(self, "_depth", _checked_depth(depth))
        lost = frozenset().union(*(p.assumptions for p in self.premises))
        if not lost <= self.assumptions:
            names = ", ".join(sorted(a.code for a in lost - self.assumptions))
            raise CertificateError(
                f"rule {self.rule} dropped the assumptions {names}; a conditional "
                "certificate never becomes a proved one."
            )

    @property
    def proved(self) -> bool:
        """Whether nothing is assumed but what the code itself enforces."""
        return not self.assumptions

    @cached_property
    def id(self) -> str:
        """A name for exactly this certificate, from a hash of its content."""
        content = _json(self._data(_FIRST_NAMES))
        return hashlib.sha256(content.encode()).hexdigest()[:32]

    def parameter(self, name: str, default: Detail = None) -> Detail:
        """Return one parameter of the rule."""
        return dict(self.details).get(name, default)

    def headline(self) -> str:
        """Say in one line what is promised, for what, and how firmly."""
        firmness = "proved" if self.proved else "conditional"
        return f"{self.guarantee} for {self.released()}, {self.relation}; {firmness}"

    def answer_count(self) -> int | None:
        """Return how many answers are covered, or None if that is not recorded."""
        if self.scope is not Scope.INTERFACE:
            return 1 if self.scope is Scope.ANSWER else None
        counted = self.parameter("answers")
        if isinstance(counted, int):
            return counted
        covered = [premise.answer_count() for premise in self.premises]
        return covered[0] if len(covered) == 1 else None

    def released(self) -> str:
        """Say what was released, with the number of answers where it is known."""
        answers = self.answer_count()
        if self.scope is Scope.INTERFACE and answers is not None:
            return f"{answers} answer{'s' if answers != 1 else ''}"
        return str(self.scope)

    def __str__(self) -> str:
        from reticent.guarantees.render import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from reticent.guarantees.render import as_html

        return as_html(self)

    def walk(self) -> Iterator[Certificate[Any]]:
        """Yield this certificate and everything it rests on."""
        yield self
        for premise in self.premises:
            yield from premise.walk()

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return self._data({})

    def _data(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Return plain data for JSON, with other names for some parameters."""
        return {
            "format": FORMAT,
            "guarantee": self.guarantee.as_dict(),
            "relation": relation_as_dict(self.relation),
            "scope": self.scope.value,
            "rule": self.rule,
            "details": {
                names.get(name, name): list(value)
                if isinstance(value, tuple)
                else value
                for name, value in self.details
            },
            "assumptions": [
                {"code": a.code, "statement": a.statement}
                for a in sorted(self.assumptions)
            ],
            "premises": [premise._data(names) for premise in self.premises],
        }

    def to_json(self) -> str:
        """Return canonical JSON; floats survive the round trip exactly."""
        return _json(self.as_dict())

    @staticmethod
    def from_dict(data: Any, *, _depth: int = 0) -> Certificate[Any]:
        """Rebuild a certificate from plain data, validating every number."""
        _checked_depth(_depth + 1)
        try:
            if data["format"] != FORMAT:
                raise CertificateError(
                    f"format={data['format']!r} of a certificate is not known; this "
                    f"version reads format {FORMAT}."
                )
            return Certificate(
                guarantee=Guarantee.from_dict(data["guarantee"]),
                relation=relation_from_dict(data["relation"]),
                scope=Scope(data["scope"]),
                rule=str(data["rule"]),
                premises=tuple(
                    Certificate.from_dict(premise, _depth=_depth + 1)
                    for premise in data["premises"]
                ),
                assumptions=frozenset(
                    Assumption(str(a["code"]), str(a["statement"]))
                    for a in data["assumptions"]
                ),
                details=_details(data["details"]),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, CertificateError):
                raise
            raise CertificateError(
                f"this is not a certificate of reticent ({type(error).__name__}: "
                f"{error})."
            ) from None

    @staticmethod
    def from_json(text: str | bytes) -> Certificate[Any]:
        """Read a certificate that `to_json` wrote.

        The numbers are validated. Whether they follow from the premises is checked by
        `reticent.guarantees.recheck`.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise CertificateError(
                "this is not JSON; expected the text of Certificate.to_json()."
            ) from None
        return Certificate.from_dict(data)


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _details(data: Any) -> tuple[tuple[str, Detail], ...]:
    """Return the parameters of a rule by the names that they have now."""
    named = [(_RENAMED.get(name, str(name)), value) for name, value in data.items()]
    if len(dict(named)) != len(named):
        raise CertificateError("a parameter of a rule is named twice.")
    return tuple((name, as_detail(name, value)) for name, value in sorted(named))


def _checked_depth(depth: int) -> int:
    if not depth <= _DEEPEST:
        raise CertificateError(
            f"a certificate has at most {_DEEPEST} levels; got {depth}. Compose all "
            "steps at once instead of adding them to a total one by one."
        )
    return depth


def as_detail(name: str, value: Any) -> Detail:
    """Turn a parameter of a rule into something JSON keeps exactly."""
    if hasattr(value, "tolist"):  # NumPy arrays and scalars
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return tuple(_as_scalar(name, item) for item in value)
    return _as_scalar(name, value)


def _as_scalar(name: str, value: Any) -> Scalar:
    if hasattr(value, "item"):  # NumPy scalars
        value = value.item()
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, float):
        fits = math.isfinite(value)
    elif isinstance(value, int):
        fits = abs(value) < LARGEST_WHOLE
    else:
        fits = value is None or isinstance(value, str)
    if not fits:
        raise CertificateError(
            f"{name} of type {type(value).__name__} cannot be recorded on a "
            "certificate; use finite numbers or text."
        )
    return value  # type: ignore[no-any-return]
