"""What perturbed risk minimisation promises: noise on the result, or in the problem."""

from __future__ import annotations

import math

from reticent._numbers import nonnegative, positive, up, whole
from reticent.errors import RuleError
from reticent.guarantees import (
    Certificate,
    Conclusion,
    PureDP,
    ReplaceOne,
    Scope,
    Sensitivity,
    ZeroOut,
    noise_assumptions,
    relation_of_units,
    rule,
)
from reticent.mechanisms import checked_grid


@rule(
    "L-output",
    name="all the coefficients of a minimiser",
    statement="the coefficients move, in l2, by what P3 says of a prediction at a row "
    "of norm one; in l1 by sqrt(d) times that",
    source="S1 Thm 4.9; ChaudhuriMonteleoniSarwate2011, Sec. 3.2",
    takes=Sensitivity,
    gives=Sensitivity,
    relations=(ReplaceOne, ZeroOut),
    scopes=(Scope.ANSWER,),
)
def coefficient_sensitivity(
    premise: Certificate[Sensitivity], *, dimension: int
) -> Conclusion[Sensitivity]:
    """Certify the move of the coefficient vector from P3's bound on one prediction.

    *Proof.* P3 bounds the move of the coefficients and multiplies it by the norm of a
    row; with rows of norm one the two are the same.
    """
    dimension = whole("rule L-output", "dimension", dimension)
    if premise.rule != "P3-erm" or dict(premise.details)["feature_bound"] != 1.0:
        raise RuleError(
            "rule L-output starts from rule P3-erm with feature_bound=1; got rule "
            f"{premise.rule}."
        )
    moved = premise.guarantee.l2
    return Conclusion(
        Sensitivity(up(moved * math.sqrt(dimension)), moved),
        premise.relation,
        Scope.MODEL,
    )


@rule(
    "L-objective",
    name="noise in the objective",
    statement="the exact minimiser of (1/n) sum loss + (lambda/2)|w|^2 + b.w/n, with "
    "Laplace b of scale beta: 2 L_1/beta + s/(n lambda); L_1/beta + s/(n lambda) if "
    "a unit is left out",
    source="ChaudhuriMonteleoniSarwate2011, Thm. 9; KiferSmithThakurta2012, Thm. 2",
    gives=PureDP,
    later=("relation",),
)
def objective_noise(
    *,
    n: int,
    slope: float,
    curvature: float,
    l1_bound: float,
    l2_bound: float,
    regularization: float,
    scale: float,
    grid: float,
    dimension: int,
    labels_from_data: bool = False,
    seeded: bool = False,
    relation: str = "replace-one",
) -> Conclusion[PureDP]:
    r"""Certify the exact minimiser of an objective that was tilted at random.

    *Proof.* The optimality condition makes the tilt a function of the minimiser,
    :math:`b = -n\lambda w - \sum_i \nabla\ell_i(w)`, one-to-one and Lipschitz both
    ways. So the density of `w` is that of `b` there times the determinant of
    :math:`M = n\lambda I + \sum_i \nabla^2 \ell_i(w)`. Replacing one unit moves `b`, in
    l1, by at most two gradients, :math:`2 \cdot` slope :math:`\cdot` `l1_bound`. It
    exchanges one term :math:`H` of trace at most :math:`s =` curvature
    :math:`\cdot` `l2_bound` :math:`^2` for another, and
    :math:`1 \le \det(N + H)/\det N \le e^{\operatorname{tr}(N^{-1} H)} \le
    e^{s/(n\lambda)}`, where `N` is `M` without either. Averages over a unit's rows
    keep all bounds. With the relation "zero-out" the unit's gradient is missing on one
    side and nothing takes its place. So `b` moves by one gradient; `M` is `N` on that
    side, and the determinants are within the same factor.

    The tilt is drawn from a grid of step `grid`. Rounding continuous Laplace noise to
    the nearest step has, with :math:`t` = `grid` / `scale`, probabilities within
    factors :math:`e^{-t/2}` and :math:`e^{t^2/8}` of the discrete Laplace law; both
    laws of `dimension` numbers cost :math:`d t` together. What the rounding moves in
    the minimiser is left to rule L-objective-solver.
    """
    owner = "rule L-objective"
    n = whole(owner, "n", n)
    dimension = whole(owner, "dimension", dimension)
    slope = positive(owner, "slope", slope)
    curvature = positive(owner, "curvature", curvature)
    l1_bound = positive(owner, "l1_bound", l1_bound)
    l2_bound = positive(owner, "l2_bound", l2_bound)
    strength = positive(owner, "regularization", regularization)
    scale = positive(owner, "scale", scale)
    fine = checked_grid(grid) / scale
    if not fine <= 1:
        raise RuleError(
            f"rule L-objective needs grid <= scale; got grid={grid!r}, scale={scale!r}."
        )
    neighbours = relation_of_units(relation, n)
    gradients = 2 if isinstance(neighbours, ReplaceOne) else 1
    shift = up(gradients * slope * l1_bound / scale)
    volume = up(curvature * l2_bound**2 / (n * strength))
    return Conclusion(
        PureDP(up(shift + volume + up(dimension * fine))),
        neighbours,
        Scope.MODEL,
        noise_assumptions(seeded, labels_from_data=labels_from_data),
    )


@rule(
    "L-objective-solver",
    name="distance from the exact minimiser",
    statement="a gradient of norm tau and a tilt off by r leave the minimiser within "
    "(tau + r/n)/lambda",
    source="strong convexity",
    gives=Sensitivity,
    later=("relation",),
)
def solver_distance(
    *,
    n: int,
    regularization: float,
    tolerance: float,
    grid: float,
    dimension: int,
    relation: str = "replace-one",
) -> Conclusion[Sensitivity]:
    """Certify how far two computed minimisers are apart where the exact ones agree."""
    owner = "rule L-objective-solver"
    n = whole(owner, "n", n)
    strength = positive(owner, "regularization", regularization)
    tolerance = nonnegative(owner, "tolerance", tolerance)
    root = math.sqrt(whole(owner, "dimension", dimension))
    off = tolerance + root * checked_grid(grid) / (2 * n)
    moved = up(2 * off / strength)
    return Conclusion(
        Sensitivity(up(moved * root), moved),
        relation_of_units(relation, n),
        Scope.MODEL,
    )


@rule(
    "L-objective-release",
    name="computed minimiser with noise for its distance",
    statement="the two epsilons add",
    source="IyengarEtAl2019, Thm. 1, for pure DP",
    takes=PureDP,
    gives=PureDP,
    relations=(ReplaceOne, ZeroOut),
    scopes=(Scope.MODEL,),
)
def objective_release(
    exact: Certificate[PureDP], computed: Certificate[PureDP], *, epsilon: float
) -> Conclusion[PureDP]:
    """Certify what is released, within `epsilon`: a computed minimiser plus noise.

    *Proof.* Condition on the exact minimiser. Its densities on neighbours are within
    the factor of the first premise; given the same exact minimiser, what is computed
    on neighbours is no further apart than the second premise's noise covers.
    """
    if exact.rule != "L-objective" or exact.relation != computed.relation:
        raise RuleError(
            "rule L-objective-release takes rule L-objective and noise for rule "
            "L-objective-solver, about the same data."
        )
    total = up(exact.guarantee.epsilon + computed.guarantee.epsilon)
    if not total <= epsilon:
        raise RuleError(
            f"rule L-objective-release: the parts cost {total!r}, more than "
            f"epsilon={epsilon!r}."
        )
    return Conclusion(PureDP(epsilon), exact.relation, Scope.MODEL)
