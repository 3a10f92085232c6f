"""From privacy, few outputs and compression to generalization: G10-G14, G19-G21."""

from __future__ import annotations

import math
from typing import Any

from reticent._numbers import (
    below_one,
    ceil_float,
    exact,
    nonnegative,
    positive,
    probability,
    up,
    whole,
)
from reticent._search import last_that_holds
from reticent.errors import InvalidParameterError, RuleError
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.convert import (
    epsilon_delta,
    exponential_sum,
    keep,
    range_stability,
    stability,
)
from reticent.guarantees.rule import Conclusion, rule
from reticent.guarantees.subject import (
    ReplaceOne,
    Sample,
    Scope,
)
from reticent.guarantees.types import (
    ApproxDP,
    BoundedRange,
    Compression,
    Consistency,
    ExpectedGeneralization,
    FiniteRange,
    PureDP,
    RiskMultiple,
    RobustGeneralization,
)

# One answer of a private predictor is covered query by query; what is computed from
# many answers is not, until they are composed into an interface.
RELEASED = (Scope.INTERFACE, Scope.MODEL)
# A choice of settings promises nothing about what they then predict.
PREDICTING = (Scope.ANSWER, *RELEASED)


def single_units(rule_id: str, relation: Any) -> int:
    """Return the number of units of a relation that replaces one of them."""
    if relation.group != 1:
        raise RuleError(f"rule {rule_id} needs single units; got {relation}.")
    return int(relation.n)


def pure_robust_error(epsilon: float, n: int, beta: float) -> float:
    """Return G10's tau for pure `epsilon`, `n` units, failure `beta`, rounded up."""
    epsilon = nonnegative("pure_robust_error", "epsilon", epsilon)
    n = whole("pure_robust_error", "n", n)
    beta = probability("pure_robust_error", "beta", beta)
    reach = epsilon * math.sqrt(n / 8) + math.sqrt(-math.log(beta))
    return up(math.sqrt(up(math.log(2) + up(reach) ** 2) / (2 * n)))


@rule(
    "G10",
    name="pure DP to robust generalization",
    statement="tau = sqrt((ln 2 + (eps sqrt(n/8) + sqrt(ln 1/beta))^2) / (2n))",
    source="S0 Lemma 31",
    paper="eps <= tau/2 and n >= 12 ln(4/beta)/tau^2",
    takes=(PureDP, BoundedRange),
    gives=RobustGeneralization,
    relations=(ReplaceOne,),
    scopes=RELEASED,
)
def pure_to_robust(
    premise: Certificate[Any], *, beta: float
) -> Conclusion[RobustGeneralization]:
    """Bound overfitting of anything computed from a purely private output."""
    beta = probability("rule G10", "beta", beta)
    n = single_units("G10", premise.relation)
    tau = pure_robust_error(premise.guarantee.epsilon, n, beta)
    return Conclusion(RobustGeneralization(tau, beta), Sample(n), premise.scope)


def approx_robust_error(epsilon: float, delta: float, n: int, beta: float) -> float:
    """Return G11's error for failure `beta` at good parameters, rounded up.

    Every choice of the parameters is valid. The best ones are approached by choosing
    each in turn, given the others; infinity if the bound cannot be evaluated.
    """
    epsilon = nonnegative("approx_robust_error", "epsilon", epsilon)
    delta = below_one("approx_robust_error", "delta", delta)
    n = whole("approx_robust_error", "n", n)
    beta = probability("approx_robust_error", "beta", beta)
    if epsilon > 690:
        return math.inf
    c, share, noise = 0.1, 0.5 if delta > 0 else 0.0, 1.0
    for _ in range(60):
        spread = math.log1p(1 / c) - math.log(beta) - math.log1p(-share)
        # The derivative in w = 1/(n b) vanishes where w^2 e^w = 2 spread/(n e^eps).
        noise = _square_exp_root(2 * spread / n * math.exp(-epsilon))
        b = 1 / (n * noise)
        c = 4 * b / (1 + math.sqrt(1 + 8 * b))  # c (1 + c) = 2 b
        if delta > 0:
            odds = delta / (beta * b)  # share^2 = (1 - share) odds
            share = 2 / (1 + math.sqrt(1 + 4 / odds))
    return _posterior_error(epsilon, delta, n, beta, (1 / (n * noise), c, share))


def _posterior_error(
    epsilon: float,
    delta: float,
    n: int,
    beta: float,
    parameters: tuple[float, float, float],
) -> float:
    """Return ``2t + c + e^{eps + 1/(nb)} - 1 + 2s``, rounded up at every step.

    The failure is split: ``delta/s`` is the given share of `beta`, and
    ``e^{-t/b} (1 + 1/c)`` the rest.
    """
    b, c, share = parameters
    rest = up(-math.log(beta) - math.log1p(-share))
    t = up(b * up(up(math.log1p(up(1 / c))) + rest))
    growth = up(math.expm1(up(up(epsilon) + up(1 / (n * b)))))
    s = up(up(delta / share) / beta) if delta > 0 else 0.0
    return up(2 * t + c + growth + 2 * s)


def _square_exp_root(target: float) -> float:
    """Return about the `w` with ``w^2 e^w = target``."""
    return last_that_holds(
        lambda w: w * w * math.exp(w) >= target, math.sqrt(target), 0.0, halvings=60
    )


@rule(
    "G11",
    name="approximate DP to robust generalization",
    statement="2t + c + e^{eps + 1/(nb)} - 1 + 2s except with probability "
    "e^{-t/b}(1 + 1/c) + delta/s",
    source="S3 Thm 20; JungEtAl2020",
    paper="O-notation",
    takes=(PureDP, BoundedRange, ApproxDP),
    gives=RobustGeneralization,
    relations=(ReplaceOne,),
    scopes=RELEASED,
)
def approx_to_robust(
    premise: Certificate[Any], *, beta: float
) -> Conclusion[RobustGeneralization]:
    """Bound overfitting of anything computed from a private output."""
    beta = probability("rule G11", "beta", beta)
    n = single_units("G11", premise.relation)
    epsilon, delta = epsilon_delta(premise.guarantee)
    error = approx_robust_error(epsilon, delta, n, beta)
    if not math.isfinite(error):
        raise RuleError(
            f"rule G11 says nothing at epsilon={epsilon:.3g} with n={n}; a robust "
            "bound needs a smaller epsilon."
        )
    return Conclusion(RobustGeneralization(error, beta), Sample(n), premise.scope)


@rule(
    "G12-range",
    name="few possible outputs",
    statement="the output is one of `size` values fixed in advance",
    source="S3 Thm 21",
    gives=FiniteRange,
)
def finite_range(*, size: int, n: int, scope: str) -> Conclusion[FiniteRange]:
    """Record that the output takes at most `size` values, whatever the `n` units."""
    return Conclusion(FiniteRange(size), Sample(n), Scope(scope))


@rule(
    "G12",
    name="few outputs to robust generalization",
    statement="sqrt(ln(2R/beta) / (2n))",
    source="S3 Thm 21",
    paper="drops the 2 of the two-sided bound",
    takes=FiniteRange,
    gives=RobustGeneralization,
    relations=(Sample,),
)
def finite_range_to_robust(
    premise: Certificate[FiniteRange], *, beta: float
) -> Conclusion[RobustGeneralization]:
    """Bound overfitting by a union bound over the possible outputs."""
    beta = probability("rule G12", "beta", beta)
    n = sample_size(premise)
    spread = math.log(2) - math.log(beta) + math.log(premise.guarantee.size)
    error = up(math.sqrt(up(spread) / (2 * n)))
    return keep(premise, RobustGeneralization(error, beta))


def sample_size(premise: Certificate[Any]) -> int:
    """Return the number of independent units of a premise."""
    return int(premise.relation.n)  # type: ignore[union-attr]


@rule(
    "G13-keep",
    name="decoded from kept examples",
    statement="the output is a function of an ordered list of examples and side bits",
    source="S3 Lemma 17",
    gives=Compression,
)
def compression(
    *, kept: int, n: int, side_bits: int = 0, size_from_data: bool = False
) -> Conclusion[Compression]:
    """Record that a model is decoded from `kept` of its `n` examples alone."""
    if not isinstance(size_from_data, bool):
        raise InvalidParameterError(
            f"size_from_data must be True or False; got {size_from_data!r}."
        )
    return Conclusion(
        Compression(kept, side_bits, int(size_from_data)), Sample(n), Scope.MODEL
    )


@rule(
    "G13",
    name="compression to robust generalization",
    statement="sqrt(((k+j) ln n + b ln 2 + ln(2/delta)) / (2(n-k))) + k/n for j lists "
    "of a length that was read off the data",
    source="S3 Lemma 17",
    paper="about three times larger",
    takes=Compression,
    gives=RobustGeneralization,
    relations=(Sample,),
)
def compression_to_robust(
    premise: Certificate[Compression], *, delta: float
) -> Conclusion[RobustGeneralization]:
    """Bound overfitting of a model that is decoded from a few examples."""
    delta = probability("rule G13", "delta", delta)
    n, k = sample_size(premise), premise.guarantee.kept
    if not k < n:
        raise RuleError(f"rule G13 needs fewer kept examples than n={n}; got kept={k}.")
    # A length that was read off the data costs a union bound over the n lengths, for
    # each such list: where the lists of a sequence begin and end says something too.
    chosen = k + premise.guarantee.size_from_data
    spread = (
        chosen * math.log(n)
        + (premise.guarantee.side_bits + 1) * math.log(2)
        - math.log(delta)
    )
    error = up(math.sqrt(up(spread) / (2 * (n - k))) + k / n)
    return keep(premise, RobustGeneralization(error, delta))


@rule(
    "G14",
    name="adaptive sequence of compressions",
    statement="the kept examples and side bits add up",
    source="S3 Thm 19",
    takes=Compression,
    gives=Compression,
    relations=(Sample,),
    adaptivity="adaptive",
)
def compose_compressions(
    *premises: Certificate[Compression],
) -> Conclusion[Compression]:
    """Join models that were compressed one after the other from the same sample."""
    if not premises:
        raise RuleError("rule G14 needs at least one certificate; got none.")
    total, first = premises[0].guarantee, premises[0]
    for later in premises[1:]:
        if later.relation != first.relation:
            raise RuleError(
                f"rule G14 needs one sample; got {first.relation} and {later.relation}."
            )
        total = total.then(later.guarantee)
    return keep(first, total)


@rule(
    "G19",
    name="private prediction to expected generalization",
    statement="E[test^k] <= E[(e^{k eps} train + delta_k B)^k], delta_k of G7; at most "
    "e^{k^2 eps} E[train^k] + slack as train <= B; slack = delta B for k = 1",
    source="S1 Lemma 6.4",
    takes=(PureDP, BoundedRange, ApproxDP),
    gives=ExpectedGeneralization,
    relations=(ReplaceOne,),
    scopes=PREDICTING,
)
def prediction_to_expected(
    premise: Certificate[Any], *, loss_bound: float = 1.0, moment: int = 1
) -> Conclusion[ExpectedGeneralization]:
    """Bound the expected test loss of a private predictor by its train loss."""
    bound = positive("rule G19", "loss_bound", loss_bound)
    moment = whole("rule G19", "moment", moment)
    n = single_units("G19", premise.relation)
    epsilon, delta = epsilon_delta(premise.guarantee)
    # Exchanging k units moves each of k predictions by a group of k (G7). The slack
    # (e^{k eps} train + delta_k B)^k - (e^{k eps} train)^k is largest at train = B.
    factor = up(math.exp(up(moment * moment * epsilon)))
    slack = 0.0
    if delta > 0:
        stretch = up(math.exp(up(moment * epsilon)))
        lifted = up(delta * exponential_sum(epsilon, moment)) / stretch
        excess = up(math.expm1(up(moment * math.log1p(up(lifted)))))
        slack = up(up(bound**moment) * up(factor * excess))
    return Conclusion(
        ExpectedGeneralization(factor, slack, moment), Sample(n), premise.scope
    )


@rule(
    "G20",
    name="private prediction, high probability",
    statement="Pr[test >= a exp(min_k (k eps + ln(1/beta)/k))] <= beta",
    source="S1 Lemma 6.5",
    paper="without the integer k",
    takes=(PureDP, BoundedRange),
    gives=RiskMultiple,
    relations=(ReplaceOne,),
    scopes=PREDICTING,
)
def prediction_to_risk_multiple(
    premise: Certificate[Any], *, beta: float
) -> Conclusion[RiskMultiple]:
    """Bound the test loss when the train loss is always at most `a`."""
    beta = probability("rule G20", "beta", beta)
    n, epsilon = single_units("G20", premise.relation), premise.guarantee.epsilon
    log_odds = -math.log(beta)
    # Convex in k, so the best whole k is next to the best real one; a million is as
    # good as infinity.
    best = min(math.sqrt(log_odds) / math.sqrt(epsilon), 1e6) if epsilon > 0 else 1e6
    candidates = {max(1, math.floor(best)), math.ceil(best)}
    exponent = min(k * epsilon + log_odds / k for k in candidates)
    factor = up(math.exp(up(exponent)))
    return Conclusion(RiskMultiple(factor, beta), Sample(n), premise.scope)


@rule(
    "G21",
    name="privacy and empirical risk minimisation to consistency",
    statement="xi + tanh(eps/4) for a pure release, tanh(eps/2) to predict, else G1",
    source="S0 Cor. 9",
    paper="xi + e^eps - 1",
    takes=(PureDP, BoundedRange, ApproxDP),
    gives=Consistency,
    relations=(ReplaceOne,),
    scopes=PREDICTING,
)
def dp_to_consistency(
    premise: Certificate[Any], *, rate: float
) -> Conclusion[Consistency]:
    """Bound the excess risk of a private, nearly empirical-risk-minimising rule.

    `rate` bounds the expected excess *empirical* risk, for losses in [0, 1].
    """
    rate = nonnegative("rule G21", "rate", rate)
    n = single_units("G21", premise.relation)
    epsilon, delta = epsilon_delta(premise.guarantee)
    # Given a purely private release, what a unit was has a posterior whose density
    # has bounded range; a bounded-range prediction has that range to begin with.
    pure_release = delta == 0 and premise.scope is Scope.MODEL
    if pure_release or isinstance(premise.guarantee, BoundedRange):
        gap = range_stability(epsilon)
    else:
        gap = stability(premise.guarantee)
    return Conclusion(
        Consistency(ceil_float(exact(rate) + exact(gap))), Sample(n), premise.scope
    )
