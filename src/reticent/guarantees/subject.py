"""What a certificate is about: whose data, what was released, what is assumed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, TypeAlias

from reticent._numbers import whole
from reticent._text import one_of
from reticent.errors import (
    CertificateError,
    InvalidGuaranteeError,
    InvalidParameterError,
)


@dataclass(frozen=True)
class ReplaceOne:
    """Neighbours have the same public number `n` of units; `group` of them differ."""

    n: int
    group: int = 1
    name: ClassVar[str] = "replace-one"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole("ReplaceOne", "n", self.n))
        object.__setattr__(self, "group", whole("ReplaceOne", "group", self.group))
        if not self.group <= self.n:
            raise InvalidGuaranteeError(
                f"ReplaceOne needs group <= n; got group={self.group}, n={self.n}."
            )

    def __str__(self) -> str:
        if self.group == 1:
            return f"replace one unit of {self.n}"
        return f"replace {self.group} units of {self.n}"


@dataclass(frozen=True)
class AddRemove:
    """Neighbours differ by adding or removing `group` units."""

    group: int = 1
    name: ClassVar[str] = "add-remove"

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", whole("AddRemove", "group", self.group))

    def __str__(self) -> str:
        if self.group == 1:
            return "add or remove one unit"
        return f"add or remove {self.group} units"


@dataclass(frozen=True)
class ZeroOut:
    """Neighbours have the same public number `n` of units; `group` of them say nothing.

    In one of the two datasets these units contribute nothing at all, as if their
    rows had been blanked; their places, and so `n`, stay. Replacing a unit is zeroing
    it and then putting another in its place: two steps of this relation.
    """

    n: int
    group: int = 1
    name: ClassVar[str] = "zero-out"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole("ZeroOut", "n", self.n))
        object.__setattr__(self, "group", whole("ZeroOut", "group", self.group))
        if not self.group <= self.n:
            raise InvalidGuaranteeError(
                f"ZeroOut needs group <= n; got group={self.group}, n={self.n}."
            )

    def __str__(self) -> str:
        if self.group == 1:
            return f"zero out one unit of {self.n}"
        return f"zero out {self.group} units of {self.n}"


@dataclass(frozen=True)
class Sample:
    """The data are `n` units drawn independently from one distribution."""

    n: int
    name: ClassVar[str] = "sample"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole("Sample", "n", self.n))

    def __str__(self) -> str:
        return f"{self.n} independent units"


def relation_of_units(name: str, n: int) -> ReplaceOne | ZeroOut:
    """Return the relation "replace-one" or "zero-out" for one unit of `n`."""
    replaced = one_of("relation", name, ReplaceOne.name, ZeroOut.name)
    return ReplaceOne(n) if replaced == ReplaceOne.name else ZeroOut(n)


Relation: TypeAlias = ReplaceOne | AddRemove | ZeroOut | Sample

_RELATIONS: dict[str, Any] = {
    cls.name: cls for cls in (ReplaceOne, AddRemove, ZeroOut, Sample)
}


def relation_as_dict(relation: Relation) -> dict[str, Any]:
    """Return a relation for JSON."""
    return {"kind": relation.name, **relation.__dict__}


def relation_from_dict(data: dict[str, Any]) -> Relation:
    """Rebuild a relation from JSON."""
    numbers = dict(data)
    cls = _RELATIONS.get(str(numbers.pop("kind", None)))
    try:
        return cls(**numbers)  # type: ignore[misc, no-any-return]
    except TypeError:
        raise CertificateError(
            f"{data!r} is not a neighbouring relation; the known ones are "
            f"{', '.join(sorted(_RELATIONS))}."
        ) from None


class Scope(Enum):
    """What was released."""

    ANSWER = "answer"
    INTERFACE = "interface"
    MODEL = "model"
    CHOICE = "choice"  #: of settings; neither a model nor its answers

    @classmethod
    def _missing_(cls, value: object) -> Scope:
        raise InvalidParameterError(
            f"scope={value!r} must be one of "
            f"{', '.join(repr(scope.value) for scope in cls)}."
        )

    def __str__(self) -> str:
        return {
            Scope.ANSWER: "one answer",
            Scope.INTERFACE: "all answers",
            Scope.MODEL: "the model",
            Scope.CHOICE: "the choice",
        }[self]


@dataclass(frozen=True, order=True)
class Assumption:
    """Something that a certificate needs and the code cannot check."""

    code: str
    statement: str

    def __str__(self) -> str:
        return f"{self.statement} [{self.code}]"

    @staticmethod
    def collect(*conditional: tuple[Assumption, bool]) -> frozenset[Assumption]:
        """Return the assumptions whose condition holds."""
        return frozenset(assumption for assumption, holds in conditional if holds)


SEEDED_NOISE = Assumption(
    "SEEDED_NOISE", "the seed of the noise is secret and used once; experiments only"
)
PUBLIC_LABELS = Assumption(
    "PUBLIC_LABELS", "the set of labels was read from the data and is public anyway"
)
PUBLIC_BOUNDS = Assumption(
    "PUBLIC_BOUNDS", "the bounds were read from the data and are public anyway"
)
EXACT_ORACLE = Assumption(
    "EXACT_ORACLE", "the optimisation oracle returned an exact minimiser"
)
INDEPENDENT_RUNS = Assumption(
    "INDEPENDENT_RUNS",
    "the mechanisms ran independently; none was chosen from what another returned",
)
PUBLIC_PARTS = Assumption(
    "PUBLIC_PARTS",
    "the parts of the pipeline that keep what they learned when cloned learned it "
    "from public data",
)
ROWWISE_QUERIES = Assumption(
    "ROWWISE_QUERIES",
    "each query, metric and model computes its value at a row from that row alone",
)


def noise_assumptions(
    seeded: bool, *, labels_from_data: bool = False
) -> frozenset[Assumption]:
    """Return what a certificate assumes of its noise, and of labels read from data."""
    return Assumption.collect(
        (PUBLIC_LABELS, bool(labels_from_data)), (SEEDED_NOISE, bool(seeded))
    )
