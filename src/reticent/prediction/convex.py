"""What stable linear models promise: P3's two rules, and the numbers behind them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reticent._rounding import down, up
from reticent.errors import InvalidParameterError, RuleError
from reticent.guarantees import (
    PUBLIC_LABELS,
    Assumption,
    Conclusion,
    ReplaceOne,
    Scope,
    Sensitivity,
    rule,
)
from reticent.guarantees.numbers import nonnegative, positive, whole
from reticent.hypotheses import (
    ConvexLoss,
    HuberLoss,
    LogisticLoss,
    SmoothedHingeLoss,
    SquaredLoss,
)

# Half a unit in the last place of 1.0.
ROUND_OFF = 2.0**-53


@rule(
    "P3-erm",
    name="regularised minimiser over a ball",
    statement="a prediction moves by 2 (L/n + tau) L_f / lambda, at most by 2 R L_f; "
    "rounding adds twice its bound",
    source="S1 Thm 4.9",
    paper="4 L L_f / (lambda n)",
    gives=Sensitivity,
)
def erm_sensitivity(
    *,
    n: int,
    lipschitz: float,
    feature_bound: float,
    radius: float,
    regularization: float,
    tolerance: float,
    rounding: float = 0.0,
    public_labels: bool = False,
) -> Conclusion[Sensitivity]:
    """Certify how far one unit of `n` moves a prediction of the minimiser.

    *Proof.* Let `w` and `v` be what the solver returns on two neighbours. Each has a
    (sub)gradient of its objective, normals of the ball included, of norm at most
    `tolerance`. Both objectives are `regularization`-strongly convex and differ by two
    losses, each `lipschitz` and weighing ``1/n``; so the subgradient of the first
    objective at `v` has norm at most ``2 lipschitz / n + tolerance``, and strong
    convexity gives ``regularization |w - v| <= 2 lipschitz / n + 2 tolerance``. A
    prediction is `feature_bound`-Lipschitz in the coefficients.
    """
    n = whole("rule P3-erm", "n", n)
    lipschitz = positive("rule P3-erm", "lipschitz", lipschitz)
    strength = positive("rule P3-erm", "regularization", regularization)
    tolerance = nonnegative("rule P3-erm", "tolerance", tolerance)
    moved = 2 * (lipschitz / n + tolerance) / strength
    return _conclude("P3-erm", n, moved, feature_bound, radius, rounding, public_labels)


@rule(
    "P3-psgd",
    name="one pass of projected gradient steps",
    statement="with steps R/(L sqrt n) and smoothness <= 2 L sqrt n / R, a prediction "
    "moves by 2 R L_f / sqrt n; rounding adds twice its bound",
    source="S1 Thm 4.12",
    paper="R L_f / sqrt n, an average over the replaced unit's place",
    gives=Sensitivity,
)
def psgd_sensitivity(
    *,
    n: int,
    lipschitz: float,
    smoothness: float,
    feature_bound: float,
    radius: float,
    rounding: float = 0.0,
    public_labels: bool = False,
) -> Conclusion[Sensitivity]:
    """Certify how far one unit of `n` moves a prediction of the average iterate.

    *Proof.* A gradient step on a convex loss of smoothness at most twice the inverse
    of the step, and a projection, bring no two points further apart. Only the step of
    the replaced unit can: by twice the step's length, ``2 radius / sqrt n``. So every
    iterate, and their average, moves by at most that.
    """
    n = whole("rule P3-psgd", "n", n)
    lipschitz = positive("rule P3-psgd", "lipschitz", lipschitz)
    smoothness = nonnegative("rule P3-psgd", "smoothness", smoothness)
    size = positive("rule P3-psgd", "radius", radius)
    limit = down(2 * lipschitz * math.sqrt(n) / size)
    if not smoothness <= limit:
        raise RuleError(
            f"rule P3-psgd needs smoothness <= 2 L sqrt(n) / R = {limit:.6g}; got "
            f"smoothness={smoothness!r}. Use more units a shard, a smaller radius or a "
            "smoother loss."
        )
    moved = 2 * size / math.sqrt(n)
    return _conclude("P3-psgd", n, moved, feature_bound, size, rounding, public_labels)


def _conclude(
    rule_id: str,
    n: int,
    moved: float,
    feature_bound: float,
    radius: float,
    rounding: float,
    public_labels: bool,
) -> Conclusion[Sensitivity]:
    slope = positive(f"rule {rule_id}", "feature_bound", feature_bound)
    radius = positive(f"rule {rule_id}", "radius", radius)
    rounding = nonnegative(f"rule {rule_id}", "rounding", rounding)
    return Conclusion(
        Sensitivity(up(min(moved, 2 * radius) * slope + 2 * rounding)),
        ReplaceOne(n),
        Scope.ANSWER,
        Assumption.collect((PUBLIC_LABELS, public_labels)),
    )


@dataclass(frozen=True)
class BoundedLoss:
    """A convex loss with bounds on its derivatives where it is used.

    Attributes
    ----------
    loss : ConvexLoss
        Value and derivatives for arrays.
    slope_at : callable
        The slope for one prediction and one target, as plain numbers.
    slope, curvature : float
        Bounds on the size of the first and the second derivative.
    """

    loss: ConvexLoss
    slope_at: Callable[[float, float], float]
    slope: float
    curvature: float


def classification_loss(name: Any, width: Any) -> BoundedLoss:
    """Return the loss called "logistic" or "hinge", for labels 0 and 1."""
    if name == "logistic":
        return BoundedLoss(LogisticLoss(), _logistic_slope, 1.0, 0.25)
    if name == "hinge":
        width = positive("the smoothed hinge", "width", width)

        def hinge_slope(prediction: float, y: float) -> float:
            sign = 2.0 * y - 1.0
            return -sign * min(max(1.0 - sign * prediction, 0.0), width) / width

        return BoundedLoss(SmoothedHingeLoss(width), hinge_slope, 1.0, up(1 / width))
    raise InvalidParameterError(f"loss={name!r} must be 'logistic' or 'hinge'.")


def regression_loss(name: Any, width: Any, reach: float) -> BoundedLoss:
    """Return the loss called "huber" or "squared", for targets in [-1, 1].

    `reach` bounds the size of predictions, which the slope of the square depends on.
    """
    if name == "huber":
        width = positive("Huber's loss", "width", width)

        def huber_slope(prediction: float, y: float) -> float:
            return min(max(prediction - y, -width), width)

        return BoundedLoss(HuberLoss(width), huber_slope, width, 1.0)
    if name == "squared":
        return BoundedLoss(SquaredLoss(0.5), _difference, up(reach + 1.0), 1.0)
    raise InvalidParameterError(f"loss={name!r} must be 'huber' or 'squared'.")


def _logistic_slope(prediction: float, y: float) -> float:
    sign = 2.0 * y - 1.0
    return -sign / (1.0 + math.exp(min(sign * prediction, 700.0)))


def _difference(prediction: float, y: float) -> float:
    return prediction - y


def automatic_regularization(
    lipschitz: float, radius: float, n: int, epsilon: float
) -> float:
    """Return S1's strength of the penalty for losses that are merely convex.

    It balances what the penalty costs in accuracy with the noise that it saves.
    """
    return 2 * lipschitz / (radius * math.sqrt(n * epsilon / (1 + epsilon)))
