"""What one unit moves in a stable linear model: P3's two rules."""

from __future__ import annotations

import math

from reticent._numbers import down, nonnegative, positive, up, whole
from reticent.errors import RuleError
from reticent.guarantees import (
    PUBLIC_LABELS,
    Assumption,
    Conclusion,
    ReplaceOne,
    Scope,
    Sensitivity,
    ZeroOut,
    relation_of_units,
    rule,
)


@rule(
    "P3-erm",
    name="regularised minimiser over a ball",
    statement="a prediction moves by 2 (L/n + tau) L_f / lambda, at most by 2 R L_f; "
    "rounding adds twice its bound; if the unit is left out, L/n counts once",
    source="S1 Thm 4.9",
    paper="4 L L_f / (lambda n)",
    gives=Sensitivity,
    later=("relation",),
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
    labels_from_data: bool = False,
    relation: str = "replace-one",
) -> Conclusion[Sensitivity]:
    """Certify how far one unit of `n` moves a prediction of the minimiser.

    *Proof.* Let `w` and `v` be what the solver returns on two neighbours. Each has a
    (sub)gradient of its objective, normals of the ball included, of norm at most
    `tolerance`. Both objectives are `regularization`-strongly convex and differ by two
    losses, each `lipschitz` and weighing ``1/n``; so the subgradient of the first
    objective at `v` has norm at most ``2 lipschitz / n + tolerance``, and strong
    convexity gives ``regularization |w - v| <= 2 lipschitz / n + 2 tolerance``. A
    prediction is `feature_bound`-Lipschitz in the coefficients.

    With the relation "zero-out" one of the two objectives lacks the unit's loss; the
    others weigh ``1/n`` in both, because `n` is public. The objectives then differ by
    one loss instead of two, and ``regularization |w - v| <= lipschitz / n +
    2 tolerance`` by the same argument.
    """
    n = whole("rule P3-erm", "n", n)
    neighbours = relation_of_units(relation, n)
    lipschitz = positive("rule P3-erm", "lipschitz", lipschitz)
    strength = positive("rule P3-erm", "regularization", regularization)
    tolerance = nonnegative("rule P3-erm", "tolerance", tolerance)
    losses = 2 if isinstance(neighbours, ReplaceOne) else 1
    moved = (losses * (lipschitz / n) + 2 * tolerance) / strength
    return _conclude(
        "P3-erm", neighbours, moved, feature_bound, radius, rounding, labels_from_data
    )


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
    labels_from_data: bool = False,
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
            f"smoothness={smoothness!r}. Use more units per shard, a smaller radius or "
            "a smoother loss."
        )
    moved = 2 * size / math.sqrt(n)
    return _conclude(
        "P3-psgd",
        ReplaceOne(n),
        moved,
        feature_bound,
        size,
        rounding,
        labels_from_data,
    )


def _conclude(
    rule_id: str,
    neighbours: ReplaceOne | ZeroOut,
    moved: float,
    feature_bound: float,
    radius: float,
    rounding: float,
    labels_from_data: bool,
) -> Conclusion[Sensitivity]:
    slope = positive(f"rule {rule_id}", "feature_bound", feature_bound)
    radius = positive(f"rule {rule_id}", "radius", radius)
    rounding = nonnegative(f"rule {rule_id}", "rounding", rounding)
    return Conclusion(
        Sensitivity(up(min(moved, 2 * radius) * slope + 2 * rounding)),
        neighbours,
        Scope.ANSWER,
        Assumption.collect((PUBLIC_LABELS, labels_from_data)),
    )
