"""Pure releases of tables with two labels: an additive model, then random trees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from reticent._arrays import Floats, Ints
from reticent._numbers import positive
from reticent.estimators import (
    CodedColumns,
    PartitionModel,
    Partitions,
    UnitRows,
    additive_maps,
    random_trees,
    single_columns,
)
from reticent.guarantees import (
    Certificate,
    Conclusion,
    ReplaceOne,
    Scope,
    Sensitivity,
    compose,
    noise_assumptions,
    rule,
)
from reticent.learners.linear.objective_noise import ObjectivePerturbationClassifier
from reticent.mechanisms import GridNoise, RandomSource, calibrate_laplace

# Slopes and curvatures are multiples of this power of two, so that sums are exact.
_BITS = 12
# A slope is clipped at 1/2, and a curvature is at most 1/4.
_CLIP, _MOST_CURVED = 0.5, 0.25
# Defaults, settled on training rows of Covertype and Skin. With less signal than this
# per column there are no trees. Otherwise the additive part gets this share.
_SIGNAL, _ADDITIVE = 5000.0, 0.25
_TREES, _RATE, _LARGEST_STEP = 50, 0.7, 1.0
_NOISE_PER_LEAF = 30.0
_LEAST_DEPTH, _MOST_DEPTH = 3, 8


@rule(
    "L-leaf-sums",
    name="sums of slopes and curvatures in the parts of a partition",
    statement="each of n units adds numbers whose sizes add up to at most B, so "
    "replacing one moves the sums by at most 2 B in l1",
    source="triangle inequality; sums in whole numbers",
    gives=Sensitivity,
)
def leaf_sums(
    *, n: int, bound: float, labels_from_data: bool = False, seeded: bool = False
) -> Conclusion[Sensitivity]:
    """Certify the move of sums at scores that are the same for neighbours."""
    moved = 2 * positive("rule L-leaf-sums", "bound", bound)  # a doubling is exact
    return Conclusion(
        Sensitivity(moved, moved),
        ReplaceOne(n),
        Scope.MODEL,
        noise_assumptions(seeded, labels_from_data=labels_from_data),
    )


@dataclass(frozen=True)
class PurePlan:
    """How epsilon is shared out, by public facts."""

    additive: float  #: epsilon of the additive part
    each: float  #: epsilon of each tree
    n_trees: int
    depth: int

    @classmethod
    def of(cls, epsilon: float, n_units: int, n_columns: int) -> PurePlan:
        """Choose by epsilon and the numbers of units and columns."""
        if n_units * epsilon / n_columns < _SIGNAL:
            return cls(epsilon, 0.0, 0, 0)
        # A little less than all: sums of epsilons are rounded up.
        rest = (1 - _ADDITIVE) * epsilon * (1 - 2.0**-40)
        leaves = n_units * rest / (_TREES * _NOISE_PER_LEAF)
        depth = min(max(round(math.log2(leaves)), _LEAST_DEPTH), _MOST_DEPTH)
        return cls(_ADDITIVE * epsilon, rest / _TREES, _TREES, depth)


def fit_pure(
    rows: UnitRows,
    columns: CodedColumns,
    *,
    epsilon: float,
    source: RandomSource,
    labels_from_data: bool,
) -> tuple[PartitionModel, Certificate[Any]]:
    r"""Learn an additive model, then what each of several trees adds to it.

    Parameters
    ----------
    rows : UnitRows
        The rows; their one target is 1 for the second label.
    columns : CodedColumns
        The columns.
    epsilon : float
        What the model costs.
    source : RandomSource
        Where trees and noise come from.
    labels_from_data : bool
        Whether labels were read from the data and are assumed public.

    Guarantee
    ---------
    The model is `epsilon`-DP for replacing one unit. *Proof.* The additive part is a
    release by itself (L-objective-release). Trees are public. Each tree releases sums
    over its leaves, where a unit adds whole numbers whose sizes add up to at most
    :math:`3/4 \cdot 2^{12}`, a function of its own rows and of what was released before
    (L-leaf-sums, G5-laplace). Epsilons add up (G22-basic).
    """
    plan = PurePlan.of(epsilon, rows.n_units, len(columns))
    singles = single_columns(columns)
    values, certificate = _additive(
        rows,
        columns,
        singles,
        # Labels that were read from the data are an assumption of this part as well.
        classes=None if labels_from_data else [0, 1],
        epsilon=plan.additive,
        source=source,
    )
    if not plan.n_trees:
        return PartitionModel.of(singles, values[None], logistic=True), certificate
    trees = random_trees(
        columns,
        (None,) * len(columns),
        n_trees=plan.n_trees,
        depth=plan.depth,
        source=source,
    )
    moved = leaf_sums(
        n=rows.n_units,
        bound=(_CLIP + _MOST_CURVED) * 2**_BITS,
        labels_from_data=labels_from_data,
        seeded=source.seeded,
    )
    noise = calibrate_laplace(
        moved,
        epsilon=plan.each,
        dimension=2 << plan.depth,
        grid=1.0,
        on_grid=True,
        seeded=source.seeded,
    )
    start = PartitionModel.of(singles, values[None], logistic=True)
    steps = _boost(rows, start, trees, noise, source)
    whole = compose([certificate, *[noise.certificate] * plan.n_trees])
    found = np.concatenate([start.values[0], *steps])[None]
    return PartitionModel.of(singles.joined(trees), found, logistic=True), whole


def _additive(
    rows: UnitRows,
    columns: CodedColumns,
    singles: Partitions,
    *,
    classes: list[int] | None,
    epsilon: float,
    source: RandomSource,
) -> tuple[Floats, Certificate[Any]]:
    """Return what parts of single columns add to the score, and the certificate."""
    maps = additive_maps(columns)
    parts = singles.parts(rows.codes)
    features = np.concatenate(
        [each[own] for each, own in zip(maps, parts, strict=True)], axis=1
    )
    # Entries of a column are not negative and add up to one.
    model = ObjectivePerturbationClassifier(
        epsilon,
        norm_bound=math.sqrt(len(columns)),
        l1_bound=float(len(columns)),
        classes=classes,
        random_state=source,
    ).fit(features, rows.targets[0].astype(np.int64), rows.unit)
    ends = np.cumsum([each.shape[1] for each in maps])[:-1]
    blocks = np.split(model.coef_[0], ends)
    found = [each @ own for each, own in zip(maps, blocks, strict=True)]
    found[0] = found[0] + model.intercept_[0]
    return np.concatenate(found), model.certificate_


def _boost(
    rows: UnitRows,
    start: PartitionModel,
    trees: Partitions,
    noise: GridNoise,
    source: RandomSource,
) -> list[Floats]:
    """Return what the leaves of each tree add, tree by tree."""
    scores, target = start.scores(rows.codes)[0], rows.targets[0]
    size = (2.0**_BITS / rows.sizes)[rows.unit]
    by_column = np.ascontiguousarray(rows.codes.T)
    # Noise is public: it is a natural size for the penalty.
    penalty = noise.scale * 2
    found = []
    for place, n_leaves in enumerate(trees.n_parts.tolist()):
        leaf = trees.part(place, by_column).astype(np.intp)
        sums = _sums(scores, target, size, leaf, n_leaves)
        noisy = noise.response(sums).draw(source)
        slope, curved = noisy[:n_leaves], noisy[n_leaves:]
        step = -_RATE * slope / (np.maximum(curved, 0) + penalty)
        found.append(np.clip(step, -_LARGEST_STEP, _LARGEST_STEP))
        scores += found[-1][leaf]
    return found


def _sums(
    scores: Floats, target: Floats, size: Floats, leaf: Ints, n_leaves: int
) -> Floats:
    """Return sums over leaves: of slopes, then of curvatures, in whole numbers."""
    mean = expit(scores)
    slope = np.trunc(np.clip(mean - target, -_CLIP, _CLIP) * size)
    curved = np.trunc(mean * (1 - mean) * size)
    return np.concatenate(
        [np.bincount(leaf, each, n_leaves) for each in (slope, curved)]
    )
