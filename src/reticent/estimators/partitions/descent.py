"""A released model: a sum over partitions, learned by noisy gradients (L12, L14)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from reticent._arrays import Floats
from reticent.estimators.partitions.codes import CodedColumns
from reticent.estimators.partitions.damping import Damping
from reticent.estimators.partitions.features import (
    PartFeatures,
    curvature,
    part_features,
)
from reticent.estimators.partitions.model import CLIP, PartitionModel
from reticent.estimators.partitions.rounds import RoundBudget, Rounds
from reticent.estimators.partitions.rows import UnitRows
from reticent.estimators.partitions.sums import PackedParts
from reticent.estimators.partitions.trees import Shares, random_trees, single_columns

# Residuals are multiples of this power of two, so that their sums are exact.
_BITS = 12
_MOMENTUM = 0.9
# No row counts more than this many times as much because its features are small.
_MOST_RAISED = 2.0
# Defaults, settled on parts of the training rows of some public tables and on generated
# ones; see the page on releases. None depends on the rows.
_STEPS = 96
_TREES = 128
# A release may have more trees if there are few rows, and fewer if there are many: then
# they are what a fit spends its time on.
_FEW_TREES, _MANY_TREES, _ROWS_FOR_FEW = 96, 256, 250_000
_ROWS_PER_PART = 100.0
# With less signal than this per column, most of a model is linear in its columns.
_SIGNAL = 200.0
_LEAST_LINEAR, _LEAST_BINS, _LEAST_TREES = 0.05, 0.05, 0.1
#: Of what is not linear, trees have this share.
TREE_SHARE = 0.45


@dataclass(frozen=True)
class _Pace:
    """How gradients are clipped, and how long they are followed.

    Attributes
    ----------
    clip : float
        Bound on the norm of a row's slope.
    near, far : float
        In time t noise moves a score by about t scale / (n norm sqrt(steps)). More time
        is of no use once that is `near` where trees learn, `near` + `far` where a
        linear model does.
    longest : float
        The longest step, times the curvature of a square loss. It is much too long
        for the few directions that are most curved: see `Damping`.
    """

    clip: float
    near: float
    far: float
    longest: float


_PACES = {True: _Pace(CLIP, 2.0, 0.0, 140.0), False: _Pace(0.3, 0.2, 1.0, 4.0)}


@dataclass(frozen=True, eq=False)
class PartitionPlan:
    """What is learned and how long, by public facts and released numbers.

    Attributes
    ----------
    features : PartFeatures
        The features whose sums are released.
    linear : float
        Near one if there is signal for little more than a linear model, else near zero.
    curvature : float
        A bound on the curvature of a square loss.
    """

    features: PartFeatures
    linear: float
    curvature: float

    @classmethod
    def of(
        cls,
        columns: CodedColumns,
        shares: Shares,
        rounds: Rounds,
        *,
        n_units: int,
        share: float,
        relevance: Floats | None = None,
        n_trees: int | None = None,
        signal: float | None = None,
        detail: float = 1.0,
        interactions: float = TREE_SHARE,
    ) -> PartitionPlan:
        """Choose by the number of units and columns and the budget; draw the trees.

        Parameters
        ----------
        columns, shares, rounds
            The columns, how rows are spread over them, and the budget.
        n_units : int
            Number of units.
        share : float
            What all steps may cost, as a share of a unit's budget.
        relevance : ndarray or None, default=None
            Released weights of columns, of sum one; None is all the same.
        n_trees : int or None, default=None
            Number of trees; None takes 128.
        signal : float or None, default=None
            The signal that the model is made for; None takes what there is.
        detail : float, default=1.0
            Above 1 the model is less linear than the rule says, below 1 more.
        interactions : float, default=0.45
            The share of trees in what is not linear.
        """
        if signal is None:
            signal = signal_of(n_units, rounds.budget, share)
        n_columns = float(len(columns))
        if relevance is not None:
            n_columns = 1 / float((relevance**2).sum())
        finer = min(detail * signal / n_columns / _SIGNAL, 1e6)
        linear = 1 / (1 + finer**2)
        straight = _LEAST_LINEAR + (1 - _LEAST_LINEAR - _LEAST_BINS) * linear
        trees, bins = None, 1 - straight
        if bins * interactions >= _LEAST_TREES:
            bins *= 1 - interactions
            depth = round(math.log2(max(signal / 2 / _ROWS_PER_PART, 1)))
            depth = min(max(depth, 3), 8)
            trees = random_trees(
                columns,
                shares,
                n_trees=n_trees or _TREES,
                depth=depth,
                source=rounds.source,
                weights=relevance,
            )
        features = part_features(
            columns,
            shares,
            single_columns(columns),
            trees,
            linear=straight,
            bins=bins,
            relevance=relevance,
        )
        return cls(features, linear, curvature(features, columns, shares))


def trees_for(n_units: int) -> int:
    """Return how many trees a release has, by its number of units."""
    wanted = _FEW_TREES * math.sqrt(_ROWS_FOR_FEW / n_units)
    return round(min(max(wanted, _FEW_TREES), _MANY_TREES))


def signal_of(n_units: int, budget: RoundBudget, share: float) -> float:
    """Return how much clearer than noise a sum over all units is, with all steps."""
    return 2 * n_units * math.sqrt(share * budget.cap / budget.weight(acute=False))


def fit_prior(
    rows: UnitRows,
    plan: PartitionPlan,
    rounds: Rounds,
    *,
    logistic: bool,
    share: float,
    pace: float = 1.0,
    level: bool = False,
) -> PartitionModel:
    r"""Learn the values of parts by noisy gradient descent.

    Each step sums the slopes of the loss over all units. A unit's contribution is a
    whole number times the features of its row, and the unit pays for the norm that it
    really had: units that the model fits well keep most of their budget.

    Parameters
    ----------
    rows : UnitRows
        The rows.
    plan : PartitionPlan
        What is learned.
    rounds : Rounds
        The rounds in which noise is added and units pay.
    logistic : bool
        Whether targets are labels.
    share : float
        What a unit that is never fitted pays, as a share of its budget.
    pace : float, default=1.0
        How long gradients are followed, in terms of the usual time.
    level : bool, default=False
        Whether rows with small features count more, so that the slopes of all rows
        reach as far as noise is made for. They are clearer then, and cost more.
    """
    usual, features = _PACES[logistic], plan.features
    n, n_scores, root = rows.n_units, len(rows.targets), math.sqrt(features.square)
    norm = root * 2.0**_BITS
    scale = rounds.budget.scale(
        usual.clip * norm, share=share, times=_STEPS, acute=False
    )
    time = (usual.near + usual.far * plan.linear**3) * n * norm * math.sqrt(_STEPS)
    rate = pace * time / scale * (1 - _MOMENTUM) / _STEPS
    rate = min(rate, usual.longest / plan.curvature)
    # Packed by the number of units: how many rows they have is not public.
    parts = PackedParts.of(features.partitions, rows.codes, most=n)
    # Sums of groups are rounded to 24 bits.
    norms = np.sqrt(parts.scores(features.squares)[0]) * (1 + 2.0**-20)
    sizes = (2.0**_BITS / rows.sizes)[rows.unit]
    if level:
        sizes *= root / np.maximum(norms, root / _MOST_RAISED)
    if rows.weights is not None:
        sizes *= rows.weights
    point = np.zeros((n_scores, features.n_features))
    velocity, mean = np.zeros_like(point), np.zeros_like(point)
    damping = Damping(point.size, scale / (n * norm))
    for step in range(_STEPS):
        ahead = point + _MOMENTUM * velocity
        slopes = parts.scores(features.values(ahead / root))
        _make_slopes(slopes, rows.targets, logistic, usual.clip)
        slopes *= sizes
        np.trunc(slopes, out=slopes)
        squares = _squares(slopes, norms, rows)
        speaks = rounds.admit(slice(None), squares, scale, acute=False)
        slopes[:, ~speaks[rows.unit]] = 0.0
        sums = features.sums(parts.sums(slopes))
        slope = rounds.noisy(sums, scale) / (n * norm)
        slope = damping.followed(rate, ahead, slope, velocity)
        velocity = _MOMENTUM * velocity - rate * slope
        point = point + velocity
        if step >= _STEPS // 2:
            mean += point
    mean /= root * (_STEPS - _STEPS // 2)
    return PartitionModel.of(features.partitions, features.values(mean), logistic)


def _make_slopes(scores: Floats, targets: Floats, logistic: bool, clip: float) -> None:
    """Turn scores into slopes of the loss, clipped to a norm, in place."""
    if logistic:
        expit(scores, out=scores)
    scores -= targets
    if len(scores) == 1:
        np.clip(scores, -clip, clip, out=scores)
    else:
        norms = np.sqrt((scores * scores).sum(axis=0))
        scores *= clip / np.maximum(norms, clip)


def _squares(whole: Floats, norms: Floats, rows: UnitRows) -> Floats:
    """Return bounds on the square of each unit's sum; its rows may point anywhere.

    Parameters
    ----------
    whole : ndarray of shape (n_scores, n_rows)
        The factors by which the features of each row are multiplied.
    norms : ndarray of shape (n_rows,)
        The norms of the features of rows, or upper bounds on them.
    rows : UnitRows
        The rows.
    """
    own = np.sqrt(np.einsum("ij,ij->j", whole, whole))
    own *= norms
    total = rows.per_unit(own)
    # Far more than products, a root and sums can be off.
    total *= 1 + 2.0**-38
    total *= total
    return total
