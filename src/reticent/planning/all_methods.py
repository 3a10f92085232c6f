"""All methods that a plan compares."""

from __future__ import annotations

from reticent.planning.asking import AverageMethod, AverageRegressionMethod, VoteMethod
from reticent.planning.classes import (
    PublicCoverMethod,
    PublicPointsMethod,
    RelabelingMethod,
    SelectionMethod,
    WalkMethod,
)
from reticent.planning.consensus import ConsensusMethod, StableLinearMethod
from reticent.planning.local import LocalMethod
from reticent.planning.planned_method import PlannedMethod
from reticent.planning.releasing import LinearReleaseMethod, TabularReleaseMethod

_ALL: tuple[PlannedMethod, ...] = (
    VoteMethod("trees"),
    VoteMethod("linear"),
    AverageMethod(),
    AverageRegressionMethod(),
    ConsensusMethod(),
    StableLinearMethod(),
    LocalMethod(),
    WalkMethod(),
    SelectionMethod(),
    RelabelingMethod(),
    TabularReleaseMethod(),
    *(
        LinearReleaseMethod(kind, basis)
        for kind in ("gradient", "objective", "output")
        for basis in ("linear", "splines")
    ),
    PublicCoverMethod(),
    PublicPointsMethod(),
)
METHODS = {method.key: method for method in _ALL}
