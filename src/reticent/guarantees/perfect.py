"""Perfect generalization and post-processing: G15 to G18, G23."""

from __future__ import annotations

import math
from typing import Any

from reticent._rounding import down, up
from reticent.errors import RuleError
from reticent.guarantees.amplify import _group
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.convert import epsilon_delta, keep
from reticent.guarantees.numbers import probability, whole
from reticent.guarantees.robust import RELEASED, sample_size, single_units
from reticent.guarantees.rule import Conclusion, rule
from reticent.guarantees.subject import (
    INDEPENDENT_RUNS,
    ReplaceOne,
    Sample,
)
from reticent.guarantees.types import (
    ApproxDP,
    BoundedRange,
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
    t = epsilon * math.sqrt(n * (math.log(outputs) + math.log(2 / beta)) / 2)
    reach = up(min(2 * t, t + n * epsilon**2 / 8))
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
    if not up(2 * g.beta) < down((1 - 1 / n) ** n):
        raise RuleError(
            f"rule G16 needs 2 beta < (1 - 1/n)^n; got beta={g.beta!r}, n={n}."
        )
    growth = math.expm1(4 * g.epsilon) / math.expm1(g.epsilon) if g.epsilon > 0 else 4
    delta = up(g.delta * growth + g.beta / (1 - g.beta))
    if not delta < 1:
        raise RuleError(
            f"rule G16 gives delta={delta:.3g} >= 1, which promises nothing."
        )
    return Conclusion(
        ApproxDP(PureDP(g.epsilon).times(4).epsilon, delta),
        ReplaceOne(n),
        premise.scope,
    )


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
    slack = up(g.beta + g.delta)
    if not 0 < slack < 0.5:
        raise RuleError(
            f"rule G17 needs 0 < beta + delta < 1/2; got beta={g.beta!r}, "
            f"delta={g.delta!r}."
        )
    error = up(math.sqrt((g.epsilon + math.log(2 / down(g.beta + g.delta))) / (2 * n)))
    return keep(premise, RobustGeneralization(error, up(2 * slack)))


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
    relation = premises[0].relation
    for premise in premises:
        if premise.guarantee.delta != 0 or premise.relation != relation:
            raise RuleError(
                "rule G18 needs delta = 0 and one sample; got "
                f"delta={premise.guarantee.delta!r}, {premise.relation}."
            )
    beta = up(math.fsum(premise.guarantee.beta for premise in premises))
    epsilon = up(math.fsum(premise.guarantee.epsilon for premise in premises))
    return Conclusion(
        PerfectGeneralization(beta, epsilon, 0.0),
        relation,
        premises[0].scope,
        frozenset({INDEPENDENT_RUNS}),
    )


@rule(
    "G23-group",
    name="privacy of everybody to perfect generalization",
    statement="(0, n eps, .): all n units are a group",
    source="S3 Lemma 11",
    takes=(PureDP, BoundedRange, ApproxDP),
    gives=PerfectGeneralization,
    relations=(ReplaceOne,),
    scopes=RELEASED,
)
def dp_to_group_perfect(premise: Certificate[Any]) -> Conclusion[PerfectGeneralization]:
    """Replace all units one after the other."""
    n = single_units("G23-group", premise.relation)
    epsilon, delta = epsilon_delta(_group(premise.guarantee, n))
    return Conclusion(
        PerfectGeneralization(0.0, epsilon, delta), Sample(n), premise.scope
    )


@rule(
    "G23-pair",
    name="perfect generalization, two samples",
    statement="(2 eps, 3 delta) but for 2 beta",
    source="S3 Cor. 10",
    takes=PerfectGeneralization,
    gives=TwoSampleCloseness,
    relations=(Sample,),
)
def perfect_to_pair(
    premise: Certificate[PerfectGeneralization],
) -> Conclusion[TwoSampleCloseness]:
    """Compare the outputs on two independent samples.

    Needs ``epsilon <= ln 2``: through the simulator the slack is
    ``delta (1 + e^epsilon)``, which is at most ``3 delta`` there.
    """
    g = premise.guarantee
    if g.delta > 0 and not g.epsilon <= math.log(2):
        raise RuleError(
            f"rule G23-pair needs epsilon <= ln 2 when delta > 0; got {g.epsilon!r}."
        )
    return keep(
        premise, TwoSampleCloseness(up(2 * g.beta), up(2 * g.epsilon), up(3 * g.delta))
    )


@rule(
    "G23",
    name="post-processing",
    statement="what is computed from the output alone keeps its guarantee",
    source="DworkRoth2014, Prop. 2.1; S3 Lemmas 5 and 9",
    takes=(PureDP, BoundedRange, ApproxDP, RobustGeneralization, PerfectGeneralization),
    gives=(PureDP, BoundedRange, ApproxDP, RobustGeneralization, PerfectGeneralization),
)
def post_process(premise: Certificate[Any], *, what: str) -> Conclusion[Any]:
    """Conclude the same for something computed from the output without the data."""
    if not what:
        raise RuleError("rule G23 needs what='...', the thing that was computed.")
    return keep(premise, premise.guarantee)
