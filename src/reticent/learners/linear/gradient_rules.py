"""What noisy gradient descent promises: one clipped sum, then all of its steps."""

from __future__ import annotations

import math

from reticent._numbers import positive, probability, up, whole
from reticent.errors import RuleError
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    Certificate,
    Conclusion,
    GaussianDP,
    ReplaceOne,
    Scope,
    Sensitivity,
    ZeroOut,
    gaussian_delta,
    noise_assumptions,
    relation_of_units,
    rule,
)
from reticent.mechanisms import checked_grid, grid_scale_to_continuous

_MODEL = (Scope.MODEL,)


@rule(
    "L-clipped-sum",
    name="sum of clipped gradients",
    statement="each of n units adds a vector of norm at most C, so replacing one moves "
    "the sum by at most 2 C, and leaving one out by at most C",
    source="triangle inequality; sums in whole numbers",
    gives=Sensitivity,
)
def clipped_sum(
    *,
    n: int,
    clip: float,
    dimension: int,
    relation: str = "replace-one",
    labels_from_data: bool = False,
    seeded: bool = False,
) -> Conclusion[Sensitivity]:
    """Certify the move of one sum, at coefficients that are the same for neighbours.

    With the relation "zero-out" a unit contributes nothing to any sum.
    """
    neighbours = relation_of_units(relation, n)
    clip = positive("rule L-clipped-sum", "clip", clip)
    dimension = whole("rule L-clipped-sum", "dimension", dimension)
    # A doubling is exact.
    moved = 2 * clip if isinstance(neighbours, ReplaceOne) else clip
    return Conclusion(
        Sensitivity(up(moved * math.sqrt(dimension)), moved),
        neighbours,
        Scope.MODEL,
        noise_assumptions(seeded, labels_from_data=labels_from_data),
    )


@rule(
    "L-noisy-gradient",
    name="Gaussian noise, adaptive steps",
    statement="T sums, each chosen from the noisy ones before it, cost what one sum of "
    "sqrt(T) times the sensitivity costs",
    source="DongRothSu2022, Thm. 4 and Cor. 2; BalleWang2018, Thm. 8",
    takes=Sensitivity,
    gives=ApproxDP,
    relations=(ReplaceOne, ZeroOut),
    scopes=_MODEL,
    adaptivity="adaptive",
)
def noisy_steps(
    premise: Certificate[Sensitivity],
    *,
    steps: int,
    scale: float,
    grid: float,
    epsilon: float,
    delta: float,
) -> Conclusion[ApproxDP]:
    r"""Certify (epsilon, delta) for all noisy sums together.

    *Proof.* Discrete Gaussian noise of scale `s` on the grid is, up to a factor within
    :math:`e^{\pm 3h}` per coordinate with `h` below 1e-136, continuous Gaussian noise
    of variance :math:`s^2 - 16\,\mathrm{grid}^2` that was rounded at random (see
    `reticent.mechanisms.sampling.gaussian_grid`). Continuous noise makes each step
    :math:`\mu`-Gaussian DP, :math:`\mu` the sensitivity over the scale, whatever the
    coefficients are; `T` adaptive steps are :math:`\sqrt T \mu`-Gaussian DP, whose
    curve is that of one Gaussian. The factors of all steps fit in that curve's margin.
    """
    owner = "rule L-noisy-gradient"
    delta = probability(owner, "delta", delta)
    ratio = _ratio(owner, premise.guarantee, steps, scale, grid)
    reached = gaussian_delta(ratio, epsilon)
    if not reached <= delta:
        raise RuleError(
            f"rule L-noisy-gradient: scale={scale!r} reaches delta={reached!r} at "
            f"epsilon={epsilon!r}, not delta={delta!r}."
        )
    return Conclusion(ApproxDP(epsilon, delta), premise.relation, premise.scope)


def _ratio(
    owner: str, moved: Sensitivity, steps: int, scale: float, grid: float
) -> float:
    """Return sensitivity over noise for all steps together, rounded up."""
    steps = whole(owner, "steps", steps)
    scale = positive(owner, "scale", scale)
    grid = checked_grid(grid)
    continuous = grid_scale_to_continuous(scale / grid) * grid
    return up(up(math.sqrt(steps)) * moved.l2 / continuous)


@rule(
    "L-noisy-gradient-gdp",
    name="Gaussian noise, adaptive steps",
    statement="mu = sqrt(T) l2 sensitivity / scale of the continuous noise inside",
    source="DongRothSu2022, Thm. 4 and Cor. 2; proof in noisy_steps",
    takes=Sensitivity,
    gives=GaussianDP,
    relations=(ReplaceOne, ZeroOut),
    scopes=_MODEL,
    adaptivity="adaptive",
)
def noisy_steps_gdp(
    premise: Certificate[Sensitivity], *, steps: int, scale: float, grid: float
) -> Conclusion[GaussianDP]:
    r"""Certify the same release as Gaussian DP, for choosing among several.

    The factors of discrete noise, within :math:`e^{\pm 3h}` per coordinate and step
    with `h` below 1e-136 (see `noisy_steps`), are covered by a share of 1e-12 of mu: it
    raises the curve of Gaussian DP by far more at every epsilon.
    """
    owner = "rule L-noisy-gradient-gdp"
    ratio = _ratio(owner, premise.guarantee, steps, scale, grid)
    return Conclusion(
        GaussianDP(up(ratio * (1 + 1e-12))), premise.relation, premise.scope
    )


@rule(
    "L-noisy-gradient-zcdp",
    name="Gaussian noise, adaptive steps",
    statement="rho = T (l2 sensitivity / scale)^2 / 2",
    source="BunSteinke2016, Lemma 2.3; CanonneKamathSteinke2020, Thm 4",
    takes=Sensitivity,
    gives=ZCDP,
    relations=(ReplaceOne, ZeroOut),
    scopes=_MODEL,
    adaptivity="adaptive",
)
def noisy_steps_zcdp(
    premise: Certificate[Sensitivity], *, steps: int, scale: float
) -> Conclusion[ZCDP]:
    """Certify the same release as concentrated DP; stored models may rest on it."""
    owner = "rule L-noisy-gradient-zcdp"
    steps = whole(owner, "steps", steps)
    scale = positive(owner, "scale", scale)
    rho = up(steps * up((premise.guarantee.l2 / scale) ** 2) / 2)
    return Conclusion(ZCDP(rho), premise.relation, premise.scope)
