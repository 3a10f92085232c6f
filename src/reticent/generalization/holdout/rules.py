"""R3: reusable holdouts and leaderboards, and how far their answers may be off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from reticent._numbers import (
    below_one,
    down,
    nonnegative,
    positive,
    probability,
    up,
    whole,
)
from reticent.errors import InvalidParameterError, RuleError
from reticent.generalization.averages import GRID
from reticent.generalization.caller_code import QUIET_QUERIES
from reticent.guarantees import (
    ROWWISE_QUERIES,
    SEEDED_NOISE,
    Assumption,
    Certificate,
    Conclusion,
    FiniteRange,
    Guarantee,
    PureDP,
    ReplaceOne,
    Sample,
    Scope,
    finite_range_to_robust,
    pure_to_robust,
    rule,
)

# Python refuses to print whole numbers beyond 4,300 digits.
_MOST_DIGITS = 4000

THRESHOLDOUT, ROUNDING, LADDER = "R3", "R3-rounding", "R3-ladder"


@dataclass(frozen=True)
class AnswerAccuracy(Guarantee):
    """Every reported value is within `error` of the truth.

    This holds except with probability `failure`. The truth is the value on the
    distribution that the data were drawn from.
    """

    error: float
    failure: float
    _checks: ClassVar[dict[str, Any]] = {"error": nonnegative, "failure": below_one}

    def __str__(self) -> str:
        return (
            f"answers within {self.error:.6g} of the truth "
            f"except with probability {self.failure:.6g}"
        )


@rule(
    THRESHOLDOUT,
    name="reusable holdout (Thresholdout)",
    statement="2B/(s n)-DP: threshold + Lap(2s), query + Lap(4s), answer + Lap(s)",
    source="DworkEtAl2015; R3",
    gives=PureDP,
    adaptivity="fully adaptive",
)
def thresholdout(
    *, n: int, scale: float, overfits: int, seeded: bool = False
) -> Conclusion[PureDP]:
    r"""Certify all answers of a reusable holdout of `n` units.

    Parameters
    ----------
    n : int
        Units of the holdout.
    scale : float
        Noise scale `s` of an answer, for averages in [0, 1].
    overfits : int
        Answers `B` after which the holdout stops.
    seeded : bool, default=False
        Whether the noise came from a seed.

    Guarantee
    ---------
    An average over `n` units moves by :math:`\Delta = 1/n`, and so does its distance
    from a guess that does not depend on the holdout. Between two answers that find
    overfitting, the threshold has one draw of noise. Take a neighbour; shift that draw
    by :math:`\Delta`, at a cost of :math:`\Delta/(2s)`: every comparison that stayed
    below still does. Shift the noise of the one comparison that came out above by
    :math:`2\Delta`, at :math:`2\Delta/(4s)`. The answer itself costs
    :math:`\Delta/s`. Together that is :math:`2\Delta/s` per round, for `B` rounds, and
    basic composition covers whatever is asked next. Answers that agree with the guess
    cost only the comparison. Noise, thresholds and averages are whole numbers of grid
    steps, so the shifts are exact.

    The proof counts draws of the threshold: `B` in total, whoever draws them. Handles
    that share a holdout may each have a threshold of their own.

    That an average moves by no more than :math:`1/n` is assumed of queries, and that
    nothing but their values comes out. A row on which a query fails has the value 0,
    and nobody learns of it, so that a failure is not an answer.
    """
    n = whole("rule R3", "n", n)
    scale = positive("rule R3", "scale", scale)
    overfits = whole("rule R3", "overfits", overfits)
    epsilon = up(2 * overfits / (scale * n))
    return Conclusion(
        PureDP(epsilon),
        ReplaceOne(n),
        Scope.INTERFACE,
        Assumption.collect((SEEDED_NOISE, bool(seeded)))
        | {ROWWISE_QUERIES, QUIET_QUERIES},
    )


@rule(
    ROUNDING,
    name="reusable holdout (rounded answers)",
    statement="sum_{b <= B} C(m, b) (L + 1)^b possible transcripts",
    source="DworkEtAl2015, description length; S3 Thm 21; R3",
    gives=FiniteRange,
    adaptivity="fully adaptive",
)
def rounded_holdout(
    *, n: int, queries: int, overfits: int, levels: int
) -> Conclusion[FiniteRange]:
    """Count the transcripts of a holdout that answers without noise.

    Guarantee
    ---------
    Each of at most `queries` answers says either that the guess was close enough, or
    one of `levels` values, or that the query failed; the latter two at most `overfits`
    times together, and then the holdout stops. What is asked next is a function of the
    answers so far (and of things that do not depend on the holdout), so a transcript is
    named by the places of the values among the queries, and the values. Queries that
    are asked at once and fail are one failure, at the place of the first.
    """
    queries = whole("rule R3-rounding", "queries", queries)
    overfits = whole("rule R3-rounding", "overfits", overfits)
    levels = whole("rule R3-rounding", "levels", levels)
    size = rounding_transcripts(queries, overfits, levels + 1)
    return _range(ROUNDING, size, n, frozenset({QUIET_QUERIES}))


@rule(
    LADDER,
    name="leaderboard (Ladder)",
    statement="sum_{b <= B} C(m, b) C(N, b) transcripts; C(m + N, N) if B >= N",
    source="S3 Thm 21; R3; Ladder of Blum and Hardt",
    gives=FiniteRange,
    adaptivity="fully adaptive",
)
def ladder_transcripts(
    *,
    n: int,
    submissions: int,
    values: int,
    improvements: int,
    own_metric: bool = False,
) -> Conclusion[FiniteRange]:
    r"""Count the transcripts of a leaderboard that shows the best score so far.

    Parameters
    ----------
    n : int
        Units of the test set.
    submissions, values, improvements : int
        The largest numbers of submissions `m`, of values `N` of the score, and of
        rises.
    own_metric : bool, default=False
        Whether the metric is code that was handed in, of which something is assumed.

    Guarantee
    ---------
    The score shown starts at 0 and only ever rises, at most `improvements` times, each
    time to one of `values` higher values on a fixed grid. A transcript of at most
    `submissions` entries is named by the places where it rises and by the increasing
    values: choose `b` of `m` places and `b` of `N` values. Without a cap on `b` the
    sum is :math:`\binom{m+N}{N}`, by Vandermonde. (A union over all sequences of
    values would count far more.)
    """
    submissions = whole("rule R3-ladder", "submissions", submissions)
    values = whole("rule R3-ladder", "values", values)
    improvements = whole("rule R3-ladder", "improvements", improvements)
    size = rising_transcripts(submissions, values, improvements)
    return _range(
        LADDER, size, n, Assumption.collect((QUIET_QUERIES, bool(own_metric)))
    )


def rounding_transcripts(queries: int, overfits: int, levels: int) -> int:
    """Count sequences of `queries` answers, `overfits` of them one of `levels`."""
    most = min(overfits, queries)
    return sum(math.comb(queries, b) * levels**b for b in range(most + 1))


def rising_transcripts(submissions: int, values: int, improvements: int) -> int:
    """Count the transcripts of `ladder_transcripts`, exactly."""
    if improvements >= min(submissions, values):
        return math.comb(submissions + values, values)
    return sum(
        math.comb(submissions, b) * math.comb(values, b)
        for b in range(improvements + 1)
    )


def _range(
    rule_id: str, size: int, n: int, assumptions: frozenset[Assumption]
) -> Conclusion[FiniteRange]:
    if not size < 10**_MOST_DIGITS:
        raise InvalidParameterError(
            f"rule {rule_id} counts more than 10^{_MOST_DIGITS} transcripts, which "
            "bounds nothing. Ask for fewer answers or coarser ones."
        )
    return Conclusion(FiniteRange(size), Sample(n), Scope.INTERFACE, assumptions)


def noise_at_most(
    *, scale: float, threshold: float, overfits: int, queries: int, failure: float
) -> float:
    """Return how far Thresholdout's answers stray from the holdout's averages.

    There are `queries` draws at 4 `scale`, `overfits` at 2 `scale` and as many at
    `scale`. A third of `failure` goes to each kind; a draw on a grid exceeds `x`
    scales with probability at most ``exp(-x)`` on one side, twice that on two.
    """
    on_threshold = 2 * scale * math.log(3 * overfits / failure)
    on_queries = 4 * scale * math.log(3 * queries / failure)
    on_answers = scale * math.log(6 * overfits / failure)
    return up(max(threshold + on_threshold + on_queries, on_answers))


@rule(
    "R3-accuracy",
    name="reported values to the truth",
    statement="robust generalization (G10 or G12) plus the distance of answers from "
    "averages on the data",
    source="DworkEtAl2015; JungEtAl2020; R3",
    takes=(PureDP, FiniteRange),
    gives=AnswerAccuracy,
    scopes=(Scope.INTERFACE,),
)
def answers_to_truth(
    premise: Certificate[Any],
    *,
    beta: float,
    threshold: float = 0.0,
    queries: int = 1,
) -> Conclusion[AnswerAccuracy]:
    """Bound how far any reported value is from the truth.

    Parameters
    ----------
    premise : Certificate
        Of a reusable holdout or a leaderboard, by rules R3, R3-rounding or R3-ladder.
    beta : float
        Failure probability for all answers together.
    threshold : float, default=0.0
        Distance up to which a guess passes; for a leaderboard, how much better than the
        score shown a submission has to be.
    queries : int, default=1
        The largest number of queries to a noisy holdout.

    Guarantee
    ---------
    Let the truth of query `j` be its value on the distribution. Let a monitor, who
    knows the distribution and the transcript, pick the answer that is furthest from
    its truth. The query that it picks is computed from the transcript, so its average
    on the data is within G10's (or G12's) error of its truth: one query, whatever
    their number. The answer is within a distance of that average which the mechanism
    controls: the threshold for a guess that passed, half a level for a rounded value,
    and for Thresholdout the noise on top, which is bounded for all draws at once with
    half of `beta`. For a leaderboard the same two cases bound the score shown from
    above (by the score of the submission that earned it) and from below (by the best
    submission, which was not more than `threshold` better than what was shown).
    """
    beta = probability("rule R3-accuracy", "beta", beta)
    threshold = nonnegative("rule R3-accuracy", "threshold", threshold)
    queries = whole("rule R3-accuracy", "queries", queries)
    known = dict(premise.details)
    if premise.rule == THRESHOLDOUT:
        rest = pure_to_robust(premise, beta=down(beta / 2)).guarantee.epsilon
        distance = noise_at_most(
            scale=known["scale"],  # type: ignore[arg-type]
            threshold=threshold,
            overfits=known["overfits"],  # type: ignore[arg-type]
            queries=queries,
            failure=beta / 2,
        )
    elif premise.rule in (ROUNDING, LADDER):
        rest = finite_range_to_robust(premise, beta=beta).guarantee.epsilon
        name = "levels" if premise.rule == ROUNDING else "values"
        distance = max(threshold, 0.5 / known[name])  # type: ignore[operator]
    else:
        raise RuleError(
            f"rule R3-accuracy needs a premise by rules R3, R3-rounding or R3-ladder; "
            f"got rule {premise.rule}."
        )
    relation: Any = premise.relation
    # Values are rounded to the grid, on the data and in the comparison.
    error = min(1.0, up(rest + up(distance + 2 * GRID)))
    # Only then is a query's average that of a function, which has a truth.
    rowwise = premise.rule != LADDER or bool(premise.parameter("own_metric", False))
    return Conclusion(
        AnswerAccuracy(error, beta),
        Sample(relation.n),
        premise.scope,
        Assumption.collect((ROWWISE_QUERIES, rowwise)),
    )
