"""All methods that a plan weighs against each other."""

from __future__ import annotations

from reticent.planning.asking import Average, AverageOfNumbers, Vote
from reticent.planning.classes import (
    PublicCover,
    PublicPoints,
    Relabeling,
    Selection,
    Walk,
)
from reticent.planning.consensus import Consensus, StableLinear
from reticent.planning.method import Method
from reticent.planning.releasing import LinearRelease
from reticent.planning.student import Student

_ALL: tuple[Method, ...] = (
    Vote("trees"),
    Vote("linear"),
    Average(),
    AverageOfNumbers(),
    Consensus(),
    StableLinear(),
    Walk(),
    Selection(),
    Relabeling(),
    *(
        LinearRelease(kind, basis)
        for kind in ("gradient", "objective", "output")
        for basis in ("linear", "splines")
    ),
    Student("trees"),
    Student("linear"),
    PublicCover(),
    PublicPoints(),
)
METHODS = {method.key: method for method in _ALL}
