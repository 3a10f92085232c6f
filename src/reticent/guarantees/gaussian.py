"""Gaussian DP: what implies it, how it adds up, and individual accounting (G24)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from reticent._numbers import (
    ceil_float,
    ceil_root,
    exact,
    high_precision,
    positive,
    probability,
    up,
    whole,
)
from reticent.errors import RelationMismatchError, RuleError
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.convert import NEIGHBOURS, keep
from reticent.guarantees.gaussian_curve import gaussian_epsilon
from reticent.guarantees.premises import joint_scope
from reticent.guarantees.rule import Conclusion, rule
from reticent.guarantees.subject import (
    ReplaceOne,
    Scope,
    ZeroOut,
    noise_assumptions,
)
from reticent.guarantees.types import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    GaussianDP,
    PureDP,
    Sensitivity,
)


@rule(
    "G24",
    name="individual accounting",
    statement="each round releases a sum over active units with Gaussian noise; a unit "
    "is active while its own sum of (norm / scale)^2, this round included, is at most "
    "mu^2; the whole transcript is mu-GDP, however long",
    source="FeldmanZrnic2021; proof in individual_filter",
    gives=GaussianDP,
    adaptivity="fully adaptive",
)
def individual_filter(
    *,
    n: int,
    mu: float,
    scope: str,
    labels_from_data: bool = False,
    seeded: bool = False,
) -> Conclusion[GaussianDP]:
    r"""Certify all rounds of a sum in which each unit pays for what it contributes.

    Round `t` releases :math:`\sum_i f_t(u_i) + N(0, \sigma_t^2)` over the active
    units. What shapes a round (:math:`f_t`, :math:`\sigma_t`) is a function of what
    was released before and of public facts, never of who is active. The caller's code
    enforces this, and tells nobody which units have used up their budget.

    Guarantee
    ---------
    ``GaussianDP(mu)`` for the whole transcript, whatever its length and wherever the
    analyst stops, if one of `n` units is zeroed. *Proof.* Let `D` have the unit and
    `D'` not. Given the transcript so far, the sum over the others and who of them is
    active are the same in both, so the means of round `t` differ by the unit's own
    contribution :math:`v_t`, which the transcript determines. Pad the end by one more
    Gaussian observation of information :math:`\mu^2 - \sum_t |v_t|^2/\sigma_t^2`,
    which is not negative because the unit was active only while it was within
    :math:`\mu^2`. The log-likelihood ratio is then a sum of conditionally Gaussian
    terms whose predictable variances add up to exactly :math:`\mu^2`; by the
    martingale of its characteristic function it is :math:`N(-\mu^2/2, \mu^2)`, as for
    :math:`N(0, 1)` against :math:`N(\mu, 1)`. Dropping the padding, and rounding the
    noise to a grid on which the sums lie, is post-processing.
    """
    mu = positive("rule G24", "mu", mu)
    assumed = noise_assumptions(seeded, labels_from_data=labels_from_data)
    return Conclusion(GaussianDP(mu), ZeroOut(n), Scope(scope), assumed)


@rule(
    "G24-rounds",
    name="individual accounting, replacing one unit",
    statement="a unit pays (norm / scale)^2 in rounds whose contributions never point "
    "apart and twice that in all others; a unit is active while its sum, this round "
    "included, is at most mu^2 / 2; the whole transcript is mu-GDP, however long",
    source="FeldmanZrnic2021; proof in individual_filter_replacing",
    gives=GaussianDP,
    adaptivity="fully adaptive",
)
def individual_filter_replacing(
    *,
    n: int,
    mu: float,
    scope: str,
    labels_from_data: bool = False,
    seeded: bool = False,
) -> Conclusion[GaussianDP]:
    r"""Certify rounds of both kinds under one filter, if one unit is replaced.

    Contributions of a round *never point apart* if any two that units may make to it
    have a non-negative inner product, as one-hot votes and histograms do. The caller's
    code enforces this, and the rest of what G24 asks.

    Guarantee
    ---------
    ``GaussianDP(mu)`` for the whole transcript if one of `n` units is replaced.
    *Proof.* Let the unit contribute :math:`a_t` in one dataset and :math:`b_t` in the
    other. The means of round `t` differ by :math:`a_t - b_t`. Its square is at most
    :math:`2|a_t|^2 + 2|b_t|^2` always, and at most :math:`|a_t|^2 + |b_t|^2` where the
    inner product is not negative. So :math:`\sum_t |a_t - b_t|^2/\sigma_t^2` is at most
    what the two units pay together, :math:`\mu^2`, on every transcript. The proof of
    G24 continues from there.
    """
    mu = positive("rule G24-rounds", "mu", mu)
    assumed = noise_assumptions(seeded, labels_from_data=labels_from_data)
    return Conclusion(GaussianDP(mu), ReplaceOne(n), Scope(scope), assumed)


@rule(
    "G24-replace",
    name="zeroing to replacing one unit",
    statement="2 mu; sqrt(2) mu if contributions of one round never point apart",
    source="Minkowski; <a, b> >= 0 gives |a - b|^2 <= |a|^2 + |b|^2",
    takes=GaussianDP,
    gives=GaussianDP,
    relations=(ZeroOut,),
)
def zeroing_to_replacing(
    premise: Certificate[GaussianDP], *, acute: bool = False
) -> Conclusion[GaussianDP]:
    r"""Derive what is promised if one unit is replaced by another.

    Parameters
    ----------
    premise : Certificate of GaussianDP
        For zeroing one unit.
    acute : bool, default=False
        Whether any two contributions that units may make to one round have a
        non-negative inner product, as one-hot votes and histograms do. The caller's
        code must enforce it, and the premise must be individual accounting itself.

    Guarantee
    ---------
    *Proof.* With contributions :math:`a_t` and :math:`b_t` of the two units, each with
    :math:`\sum |a_t|^2/\sigma_t^2 \le \mu^2` on every transcript, the means differ by
    :math:`a_t - b_t`. By Minkowski's inequality
    :math:`(\sum |a_t - b_t|^2/\sigma_t^2)^{1/2} \le 2\mu`; where no inner product is
    negative, :math:`|a_t - b_t|^2 \le |a_t|^2 + |b_t|^2` gives
    :math:`\sqrt 2 \mu`. The proof of G24 continues from there. Without `acute` it is
    group privacy for two.
    """
    relation: Any = premise.relation
    if relation.group != 1:
        raise RuleError(f"rule G24-replace needs one unit; got {relation}.")
    if acute and premise.rule != "G24":
        raise RuleError(
            "rule G24-replace with acute=True needs individual accounting (G24) as its "
            f"premise; got rule {premise.rule}. Convert before composing."
        )
    squares = exact(premise.guarantee.mu) ** 2 * (2 if acute else 4)
    return Conclusion(
        GaussianDP(ceil_root(squares)), ReplaceOne(relation.n), premise.scope
    )


@rule(
    "G24-noise",
    name="Gaussian noise as Gaussian DP",
    statement="mu = l2 sensitivity / scale, for continuous noise, rounded to a grid on "
    "which the values lie or not at all",
    source="DongRothSu2022, Thm 1",
    takes=Sensitivity,
    gives=GaussianDP,
    relations=NEIGHBOURS,
)
def gaussian_noise_gdp(
    premise: Certificate[Sensitivity], *, scale: float
) -> Conclusion[GaussianDP]:
    """Add continuous Gaussian noise of this standard deviation to each coordinate.

    The discrete Gaussian law is not covered: its likelihood ratio is not Gaussian.
    """
    scale = positive("rule G24-noise", "scale", scale)
    moved = premise.guarantee.l2
    return keep(premise, GaussianDP(up(moved / scale) if moved > 0 else 0.0))


@rule(
    "G24-pure",
    name="pure DP to Gaussian DP",
    statement="mu = 2 Phi^-1(e^eps / (1 + e^eps))",
    source="DongRothSu2022, Sec. 2.3; convexity of the trade-off curve",
    takes=(PureDP, BoundedRange),
    gives=GaussianDP,
    relations=NEIGHBOURS,
)
def pure_to_gaussian(premise: Certificate[Any]) -> Conclusion[GaussianDP]:
    r"""Derive Gaussian DP from pure DP; tight.

    The trade-off curve of epsilon-DP consists of two chords that meet at
    :math:`a = 1/(1+e^{\varepsilon})`. The Gaussian curve is convex and has the same
    ends, so it lies below both chords as soon as it does at their meeting point,
    where :math:`\Phi(\Phi^{-1}(1-a) - \mu) = a`.
    """
    return keep(premise, GaussianDP(_mu_of_pure(premise.guarantee.epsilon)))


def _mu_of_pure(epsilon: float) -> float:
    if epsilon == 0:
        return 0.0
    if not epsilon <= 600:
        raise RuleError(f"rule G24-pure needs epsilon <= 600; got epsilon={epsilon!r}.")
    with high_precision(2000) as context:
        # erfinv(tanh(eps/2)) sqrt(2) is the normal quantile of e^eps/(1 + e^eps).
        quantile = context.erfinv(context.tanh(context.mpf(epsilon) / 2))
        return up(float(2 * context.sqrt(2) * quantile))


@rule(
    "G24-compose",
    name="composition of Gaussian DP",
    statement="mu = sqrt(sum of mu_i^2), steps chosen adaptively",
    source="DongRothSu2022, Thm 4",
    takes=GaussianDP,
    gives=GaussianDP,
    relations=NEIGHBOURS,
    adaptivity="adaptive",
)
def gaussian_composition(
    *premises: Certificate[GaussianDP], counts: Sequence[int]
) -> Conclusion[GaussianDP]:
    """Compose steps; `counts` says how often each one is taken."""
    if not premises or len(premises) != len(counts):
        raise RuleError(
            "rule G24-compose needs at least one certificate and one count for each; "
            f"got {len(premises)} and {len(counts)}."
        )
    relation = premises[0].relation
    if any(premise.relation != relation for premise in premises):
        raise RelationMismatchError(
            "rule G24-compose needs one relation; got "
            + ", ".join(sorted({str(premise.relation) for premise in premises}))
            + "."
        )
    squares = (
        exact(premise.guarantee.mu) ** 2 * whole("rule G24-compose", "counts", count)
        for premise, count in zip(premises, counts, strict=True)
    )
    total = sum(squares, Fraction(0))
    return Conclusion(GaussianDP(ceil_root(total)), relation, joint_scope(premises))


@rule(
    "G24-zcdp",
    name="Gaussian DP to zCDP",
    statement="rho = mu^2 / 2",
    source="DongRothSu2022, Cor. B.6",
    takes=GaussianDP,
    gives=ZCDP,
    relations=NEIGHBOURS,
)
def gaussian_to_zcdp(premise: Certificate[GaussianDP]) -> Conclusion[ZCDP]:
    """Derive concentrated DP; the way back would cost more and is not offered."""
    return keep(premise, ZCDP(ceil_float(exact(premise.guarantee.mu) ** 2 / 2)))


@rule(
    "G24-approx",
    name="Gaussian DP to approximate DP",
    statement="delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)",
    source="DongRothSu2022, Cor. 1; BalleWang2018, Thm. 8",
    takes=GaussianDP,
    gives=ApproxDP,
    relations=NEIGHBOURS,
)
def gaussian_to_approx(
    premise: Certificate[GaussianDP], *, delta: float
) -> Conclusion[ApproxDP]:
    """Derive (epsilon, delta)-DP for a chosen delta; exact."""
    delta = probability("rule G24-approx", "delta", delta)
    return keep(premise, ApproxDP(gaussian_epsilon(premise.guarantee.mu, delta), delta))
