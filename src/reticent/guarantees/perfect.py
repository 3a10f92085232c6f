"""Perfect generalization and post-processing: G15 to G18, G23."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from reticent._numbers import ceil_float, down, exact, probability, up, whole
from reticent.errors import RuleError
from reticent.guarantees.amplify import for_group
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.convert import epsilon_delta, exponential_sum, keep
from reticent.guarantees.robust import RELEASED, sample_size, single_units
from reticent.guarantees.rule import Conclusion, rule
from reticent.guarantees.subject import (
    INDEPENDENT_RUNS,
    AddRemove,
    ReplaceOne,
    Sample,
    Scope,
    ZeroOut,
)
from reticent.guarantees.types import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    GaussianDP,
    PerfectGeneralization,
    PureDP,
    RobustGeneralization,
    TwoSampleCloseness,
)


@rule(
    "G15",
    name="pure DP to perfect generalization",
    statement="(beta, min(2t, t + n eps^2/8), 0), t = eps sqrt(n ln(2R/beta) / 2)",
    source="S3 Thm 39",
    paper="2t",
    takes=(PureDP, BoundedRange),
    gives=PerfectGeneralization,
    relations=(ReplaceOne,),
    scopes=RELEASED,
)
def pure_to_perfect(
    premise: Certificate[Any], *, outputs: int, beta: float
) -> Conclusion[PerfectGeneralization]:
    """Derive perfect generalization of a private output with finite range."""
    outputs = whole("rule G15", "outputs", outputs)
    beta = probability("rule G15", "beta", beta)
    n, epsilon = single_units("G15", premise.relation), premise.guarantee.epsilon
    spread = math.log(outputs) + math.log(2) - math.log(beta)
    t = epsilon * math.sqrt(n * spread / 2)
    reach = up(t + min(t, n * epsilon**2 / 8)) if epsilon > 0 else 0.0
    return Conclusion(PerfectGeneralization(beta, reach, 0.0), Sample(n), premise.scope)


@rule(
    "G16",
    name="resample a perfect generalizer",
    statement="(4 eps, delta (e^{4eps}-1)/(e^eps-1) + beta/(1-beta))",
    source="S3 Thm 32",
    paper="(4 eps, 16 delta + 2 beta)",
    takes=PerfectGeneralization,
    gives=ApproxDP,
    relations=(Sample,),
    scopes=RELEASED,
)
def resample_perfect(
    premise: Certificate[PerfectGeneralization],
) -> Conclusion[ApproxDP]:
    """Run a perfect generalizer on `n` draws with replacement from the data."""
    n, g = sample_size(premise), premise.guarantee
    if not g.epsilon <= math.log(2):
        raise RuleError(f"rule G16 needs epsilon <= ln 2; got epsilon={g.epsilon!r}.")
    # (1 - 1/n)^n through logarithms: the power of a rounded base is off by n ulps.
    missed = down(math.exp(n * math.log1p(-1 / n))) if n > 1 else 0.0
    if not 2 * g.beta < missed:
        raise RuleError(
            f"rule G16 needs 2 beta < (1 - 1/n)^n; got beta={g.beta!r}, n={n}."
        )
    chained = up(g.delta * exponential_sum(g.epsilon, 4)) if g.delta > 0 else 0.0
    bad = exact(g.beta)
    delta = ceil_float(exact(chained) + bad / (1 - bad))
    if not delta < 1:
        raise RuleError(
            f"rule G16 gives delta={delta:.3g} >= 1, which promises nothing."
        )
    epsilon = ceil_float(4 * exact(g.epsilon))
    return Conclusion(ApproxDP(epsilon, delta), ReplaceOne(n), premise.scope)


@rule(
    "G17",
    name="perfect to robust generalization",
    statement="(sqrt((eps + ln(2/(beta+delta))) / (2n)), 2(beta+delta))",
    source="S3 Lemma 36",
    paper="false for large eps",
    takes=PerfectGeneralization,
    gives=RobustGeneralization,
    relations=(Sample,),
)
def perfect_to_robust(
    premise: Certificate[PerfectGeneralization],
) -> Conclusion[RobustGeneralization]:
    """Derive robust from perfect generalization."""
    n, g = sample_size(premise), premise.guarantee
    slack = exact(g.beta) + exact(g.delta)
    if not 0 < slack < 0.5:
        raise RuleError(
            f"rule G17 needs 0 < beta + delta < 1/2; got beta={g.beta!r}, "
            f"delta={g.delta!r}."
        )
    spread = g.epsilon + math.log(2) - math.log(float(slack))
    error = up(math.sqrt(up(spread) / (2 * n)))
    return keep(premise, RobustGeneralization(error, ceil_float(2 * slack)))


@rule(
    "G18",
    name="independent perfect generalizers",
    statement="the betas and the epsilons add up; delta = 0, not adaptively",
    source="S3 Thm 12",
    takes=PerfectGeneralization,
    gives=PerfectGeneralization,
    relations=(Sample,),
    adaptivity="fixed",
)
def compose_perfect(
    *premises: Certificate[PerfectGeneralization],
) -> Conclusion[PerfectGeneralization]:
    """Join perfect generalizers on one sample that do not depend on one another."""
    if not premises:
        raise RuleError("rule G18 needs at least one certificate; got none.")
    relation = premises[0].relation
    for premise in premises:
        if premise.guarantee.delta != 0 or premise.relation != relation:
            raise RuleError(
                "rule G18 needs delta = 0 and one sample; got "
                f"delta={premise.guarantee.delta!r}, {premise.relation}."
            )
    nothing = Fraction(0)
    beta = sum((exact(premise.guarantee.beta) for premise in premises), nothing)
    if not beta < 1:
        raise RuleError(
            f"rule G18 gives beta={float(beta):.3g} >= 1, which promises nothing."
        )
    epsilon = sum((exact(premise.guarantee.epsilon) for premise in premises), nothing)
    return Conclusion(
        PerfectGeneralization(ceil_float(beta), ceil_float(epsilon), 0.0),
        relation,
        premises[0].scope,
        frozenset({INDEPENDENT_RUNS}),
    )


@rule(
    "G23-group",
    name="privacy of everybody to perfect generalization",
    statement="(0, n eps, .): all n units are a group",
    source="S3 Sec. 5.2",
    takes=(PureDP, BoundedRange, ApproxDP),
    gives=PerfectGeneralization,
    relations=(ReplaceOne,),
    scopes=RELEASED,
)
def dp_to_group_perfect(premise: Certificate[Any]) -> Conclusion[PerfectGeneralization]:
    """Replace all units one after the other."""
    n = single_units("G23-group", premise.relation)
    everybody = for_group("G23-group", premise.guarantee, n)
    epsilon, delta = epsilon_delta(everybody)
    return Conclusion(
        PerfectGeneralization(0.0, epsilon, delta), Sample(n), premise.scope
    )


@rule(
    "G23-pair",
    name="perfect generalization, two samples",
    statement="(2 eps, delta (1 + e^eps)) except with probability 2 beta",
    source="S3 Cor. 10",
    paper="3 delta, for eps < ln 2",
    takes=PerfectGeneralization,
    gives=TwoSampleCloseness,
    relations=(Sample,),
)
def perfect_to_pair(
    premise: Certificate[PerfectGeneralization],
) -> Conclusion[TwoSampleCloseness]:
    """Compare the outputs on two independent samples, each with the simulator's.

    ``3 delta`` covers the slack up to ``epsilon = ln 2`` only.
    """
    g = premise.guarantee
    failure = 2 * exact(g.beta)
    delta = up(g.delta * exponential_sum(g.epsilon, 2)) if g.delta > 0 else 0.0
    if not (failure < 1 and delta < 1):
        raise RuleError(
            f"rule G23-pair gives failure={float(failure):.3g} and delta={delta:.3g}; "
            "one of them promises nothing."
        )
    close = TwoSampleCloseness(
        ceil_float(failure), ceil_float(2 * exact(g.epsilon)), delta
    )
    return keep(premise, close)


_PROCESSED = (
    PureDP,
    BoundedRange,
    ApproxDP,
    ZCDP,
    GaussianDP,
    RobustGeneralization,
    PerfectGeneralization,
)


@rule(
    "G23",
    name="post-processing",
    statement="what is computed from the output alone keeps its guarantee",
    source="DworkRoth2014, Prop. 2.1; S3 Lemma 11",
    takes=_PROCESSED,
    gives=_PROCESSED,
    relations=(ReplaceOne, AddRemove, ZeroOut, Sample),
    same_kind=True,
)
def post_process(
    premise: Certificate[Any], *, what: str, scope: str | None = None
) -> Conclusion[Any]:
    """Conclude the same for something computed from the output without the data.

    Parameters
    ----------
    premise : Certificate
        Of the output.
    what : str
        The thing that was computed, for the record.
    scope : {"answer", "interface", "model"} or None
        What is released instead, if that is something else: answers computed from a
        model, or a model computed from all answers. One answer stays one answer, and
        a choice a choice.
    """
    if not (isinstance(what, str) and what.strip()):
        raise RuleError(f"rule G23 needs what='...', what was computed; got {what!r}.")
    released = premise.scope if scope is None else Scope(scope)
    if premise.scope is Scope.ANSWER and released is not Scope.ANSWER:
        raise RuleError(
            f"rule G23 needs the scope INTERFACE or MODEL to release {released}; got "
            "ANSWER, which promises something for each query by itself."
        )
    if premise.scope is Scope.CHOICE and released is not Scope.CHOICE:
        raise RuleError(
            f"rule G23 needs the scope INTERFACE or MODEL to release {released}; got "
            "CHOICE, which promises nothing about what the chosen settings give."
        )
    return Conclusion(premise.guarantee, premise.relation, released)
