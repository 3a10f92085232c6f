"""Zero-concentrated DP: what implies it, and what it implies (G2, G5, G22)."""

from __future__ import annotations

import math
from typing import Any

from reticent._numbers import (
    ceil_float,
    exact,
    nonnegative,
    positive,
    probability,
    up,
)
from reticent._search import doubled_until, geometric_mean, last_that_holds
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.convert import NEIGHBOURS, epsilon_delta, keep
from reticent.guarantees.rule import Conclusion, rule
from reticent.guarantees.types import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    PureDP,
    Sensitivity,
)

# Each term of the conversion rounds a handful of times.
_DOUBT = 2e-15


def step_rho(guarantee: Any) -> float:
    """Return the zCDP cost of one step, without its own delta."""
    if isinstance(guarantee, ZCDP):
        return guarantee.rho
    epsilon = exact(epsilon_delta(guarantee)[0])
    return ceil_float(epsilon**2 / (8 if isinstance(guarantee, BoundedRange) else 2))


@rule(
    "G2-zcdp",
    name="bounded range to zCDP",
    statement="rho = eps^2 / 8",
    source="CesarRogers2021, Lemma 3.2; DongDurfeeRogers2020",
    takes=BoundedRange,
    gives=ZCDP,
    relations=NEIGHBOURS,
)
def bounded_range_to_zcdp(premise: Certificate[BoundedRange]) -> Conclusion[ZCDP]:
    """Derive concentrated DP; four times better than from pure DP."""
    return keep(premise, ZCDP(step_rho(premise.guarantee)))


@rule(
    "G22-pure-zcdp",
    name="pure DP to zCDP",
    statement="rho = eps^2 / 2",
    source="BunSteinke2016, Prop. 1.4",
    takes=PureDP,
    gives=ZCDP,
    relations=NEIGHBOURS,
)
def pure_to_zcdp(premise: Certificate[PureDP]) -> Conclusion[ZCDP]:
    """Derive concentrated DP from pure DP."""
    return keep(premise, ZCDP(step_rho(premise.guarantee)))


@rule(
    "G5-gaussian",
    name="Gaussian noise",
    statement="rho = (l2 sensitivity / scale)^2 / 2, continuous or discrete noise",
    source="BunSteinke2016, Prop. 1.6; CanonneKamathSteinke2020, Thm 4",
    takes=Sensitivity,
    gives=ZCDP,
    relations=NEIGHBOURS,
)
def gaussian_noise(
    premise: Certificate[Sensitivity], *, scale: float
) -> Conclusion[ZCDP]:
    """Add Gaussian noise of this standard deviation to every coordinate."""
    scale = positive("rule G5-gaussian", "scale", scale)
    moved = premise.guarantee.l2
    return keep(premise, ZCDP(up((moved / scale) ** 2 / 2) if moved > 0 else 0.0))


@rule(
    "G22-zcdp-approx",
    name="zCDP to approximate DP",
    statement="best Renyi order of the conversion",
    source="CanonneKamathSteinke2020, Prop. 12",
    takes=ZCDP,
    gives=ApproxDP,
    relations=NEIGHBOURS,
)
def zcdp_to_approx(premise: Certificate[ZCDP], *, delta: float) -> Conclusion[ApproxDP]:
    """Derive (epsilon, delta)-DP for a chosen delta."""
    delta = probability("rule G22-zcdp-approx", "delta", delta)
    return keep(premise, ApproxDP(zcdp_epsilon(premise.guarantee.rho, delta), delta))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon such that rho-zCDP is (epsilon, delta)-DP, rounded up.

    Canonne, Kamath and Steinke (2020, Prop. 12) give, for every order ``1 + x > 1``,
    ``epsilon = (1+x) rho + (ln(1/delta) - ln(1+x))/x - ln(1+1/x)``. Its derivative in
    `x` vanishes where ``rho x^2 + ln(1+x) = ln(1/delta)``, whose left side grows.
    """
    rho = nonnegative("zcdp_epsilon", "rho", rho)
    delta = probability("zcdp_epsilon", "delta", delta)
    if rho == 0:
        return 0.0
    target = -math.log(delta)
    high = min(math.sqrt(target) / math.sqrt(rho), math.expm1(min(target, 690.0)))
    # From above, so that 60 halvings of the logarithm reach the last digits.
    x = last_that_holds(
        lambda x: rho * x * x + math.log1p(x) >= target,
        high,
        high * 1e-12,
        halvings=64,
        middle=geometric_mean,
    )
    terms = ((1 + x) * rho, target / x, -math.log1p(x) / x, -math.log1p(1 / x))
    # Every order is valid, so only the rounding of these terms has to be covered.
    return max(0.0, math.fsum(terms) + _DOUBT * math.fsum(map(abs, terms)))


def rho_within(epsilon: float, delta: float) -> float:
    """Return the largest rho whose zCDP is within (epsilon, delta), rounded down."""
    epsilon = positive("rho_within", "epsilon", epsilon)
    delta = probability("rho_within", "delta", delta)

    def fits(rho: float) -> bool:
        return zcdp_epsilon(rho, delta) <= epsilon

    low, high = doubled_until(lambda rho: not fits(rho), epsilon)
    return last_that_holds(fits, low, high, halvings=80)
