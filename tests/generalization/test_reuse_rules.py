"""R3: transcripts counted by brute force, privacy by integration, and accuracy."""

import math
from itertools import product

import numpy as np
import pytest

from reticent.errors import InvalidGuaranteeError, InvalidParameterError, RuleError
from reticent.generalization import (
    AnswerAccuracy,
    answers_to_truth,
    ladder_transcripts,
    rounded_holdout,
    session_to_robust,
    thresholdout,
)
from reticent.generalization.holdout.rules import (
    noise_at_most,
    rising_transcripts,
    rounding_transcripts,
)
from reticent.guarantees import (
    SEEDED_NOISE,
    Certificate,
    PureDP,
    ReplaceOne,
    Sample,
    Scope,
    claim,
    finite_range_to_robust,
    pure_to_robust,
    recheck,
)


@pytest.mark.parametrize("queries", [1, 3, 5])
@pytest.mark.parametrize("overfits", [1, 2, 5])
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_transcripts_of_a_rounding_holdout_are_counted_right(queries, overfits, levels):
    # An answer is "as guessed" or one of the levels; after the last allowed level the
    # holdout stops, and nothing more is said.
    seen = set()
    for answers in product([None, *range(levels)], repeat=queries):
        transcript, found = [], 0
        for answer in answers:
            if found == overfits:
                break
            transcript.append(answer)
            found += answer is not None
        seen.add(tuple(transcript))
    counted = rounding_transcripts(queries, overfits, levels)
    assert len(seen) <= counted
    if overfits >= queries:
        assert len(seen) == counted == (levels + 1) ** queries


def test_a_failure_is_one_of_the_answers_of_a_rounding_holdout():
    rule = rounded_holdout(n=9, queries=3, overfits=3, levels=2)
    told = product(["as guessed", "failed", "low", "high"], repeat=3)
    assert rule.guarantee.size == len(list(told)) == 64


@pytest.mark.parametrize("submissions", [1, 2, 4])
@pytest.mark.parametrize("values", [1, 2, 4])
@pytest.mark.parametrize("improvements", [1, 2, 4])
def test_transcripts_of_a_ladder_are_counted_right(submissions, values, improvements):
    improvements = min(improvements, values)
    seen = set()
    for scores in product(range(values + 1), repeat=submissions):
        shown, rises, transcript = 0, 0, []
        for score in scores:
            if score > shown and rises < improvements:
                shown, rises = score, rises + 1
            transcript.append(shown)
        seen.add(tuple(transcript))
    assert len(seen) == rising_transcripts(submissions, values, improvements)


def laplace_cdf(x, scale):
    tail = np.exp(-np.abs(x) / scale) / 2
    return np.where(x < 0, tail, 1 - tail)


def log_law(first, second, answer, *, threshold, scale):
    """Log-density of "1000 firsts below, the second above, with this answer".

    Threshold noise of scale 2 s, which both share, query noise of scale 4 s and answer
    noise of scale s, integrated on a fine grid.
    """
    z = np.linspace(-60 * scale, 60 * scale, 120_001)
    line = np.exp(-np.abs(z) / (2 * scale)) / (4 * scale)
    below = laplace_cdf(threshold + z - first, 4 * scale) ** 1000
    above = laplace_cdf(second - threshold - z, 4 * scale)
    both = np.trapezoid(line * below * above, z)
    return math.log(both) - abs(answer - second) / scale


@pytest.mark.parametrize("noise", [1.0, 0.5])
def test_thresholdout_loses_at_most_its_epsilon(noise):
    # Averages that one of n units moves by 1/n; many queries that stay below, then one
    # that comes out above and is answered.
    n, scale = 50, 0.05
    law = {"threshold": 0.1, "scale": scale * noise}
    certified = thresholdout(n=n, scale=scale, overfits=1).guarantee.epsilon
    worst = 0.0
    for first, second in product([0.0, 0.3], [-0.8, 0.1]):
        for a, b in product([-1 / n, 1 / n], repeat=2):
            for answer in (-2.0, 2.0):
                there = log_law(first + a, second + b, answer, **law)
                here = log_law(first, second, answer, **law)
                worst = max(worst, abs(there - here))
    if noise == 1.0:
        assert worst <= certified + 1e-6
        assert worst > 0.9 * certified  # the rule is not slack
    else:
        assert worst > 1.5 * certified  # half of the noise is caught


def test_epsilon_is_two_b_over_s_n():
    certificate = thresholdout(n=1000, scale=0.01, overfits=7)
    assert certificate.guarantee.epsilon == pytest.approx(1.4, rel=1e-12)
    assert certificate.guarantee.epsilon >= 1.4
    assert certificate.relation == ReplaceOne(1000)
    assert certificate.scope is Scope.INTERFACE
    codes = {assumption.code for assumption in certificate.assumptions}
    assert codes == {"ROWWISE_QUERIES", "QUIET_QUERIES"}
    seeded = thresholdout(n=1000, scale=0.01, overfits=7, seeded=True)
    assert seeded.assumptions - certificate.assumptions == {SEEDED_NOISE}


def test_noise_bound_covers_the_noise(seed):
    rng = np.random.default_rng(seed)
    scale, queries, overfits, failure = 1.0, 50, 5, 0.2
    bound = noise_at_most(
        scale=scale, threshold=0.0, overfits=overfits, queries=queries, failure=failure
    )
    trials = 2000
    line = rng.laplace(scale=2 * scale, size=(trials, overfits)).max(axis=1)
    query = -rng.laplace(scale=4 * scale, size=(trials, queries)).min(axis=1)
    answer = np.abs(rng.laplace(scale=scale, size=(trials, overfits))).max(axis=1)
    misses = np.maximum(line + query, answer) > bound
    assert misses.mean() <= failure
    assert (np.maximum(line + query, answer) > bound / 3).mean() > failure


def test_accuracy_adds_generalization_and_distance():
    laplace = thresholdout(n=10**5, scale=1e-3, overfits=2)
    got = answers_to_truth(laplace, beta=0.05, threshold=0.01, queries=100)
    tau = pure_to_robust(laplace, beta=0.025).guarantee.epsilon
    noise = noise_at_most(
        scale=1e-3, threshold=0.01, overfits=2, queries=100, failure=0.025
    )
    assert got.guarantee.error == pytest.approx(tau + noise, abs=1e-5)
    rounding = rounded_holdout(n=10**5, queries=100, overfits=2, levels=20)
    got = answers_to_truth(rounding, beta=0.05, threshold=0.01)
    tau = finite_range_to_robust(rounding, beta=0.05).guarantee.epsilon
    assert got.guarantee.error == pytest.approx(tau + 0.025, abs=1e-5)
    board = ladder_transcripts(n=10**5, submissions=100, values=50, improvements=50)
    got = answers_to_truth(board, beta=0.05, threshold=0.02)
    tau = finite_range_to_robust(board, beta=0.05).guarantee.epsilon
    assert got.guarantee.error == pytest.approx(tau + 0.02, abs=1e-5)
    assert got.relation == Sample(10**5)


def test_certificates_derive_again():
    board = ladder_transcripts(n=1000, submissions=5000, values=100, improvements=9)
    for certificate in (
        answers_to_truth(board, beta=0.05, threshold=0.01),
        answers_to_truth(
            thresholdout(n=1000, scale=0.1, overfits=2), beta=0.05, queries=9
        ),
        answers_to_truth(
            rounded_holdout(n=1000, queries=9000, overfits=20, levels=30), beta=0.05
        ),
    ):
        again = Certificate.from_json(certificate.to_json())
        recheck(again)
        assert again == certificate
        assert "of the truth" in str(again)


def test_rules_refuse_what_does_not_fit():
    with pytest.raises(RuleError, match="R3-ladder"):
        answers_to_truth(
            claim(PureDP(1.0), ReplaceOne(9), Scope.INTERFACE, statement="x"), beta=0.1
        )
    with pytest.raises(RuleError, match="needs PureDP or FiniteRange"):
        answers_to_truth(session_to_robust(n=9, beta=0.1), beta=0.1)
    with pytest.raises(InvalidParameterError, match="transcripts"):
        rounded_holdout(n=9, queries=10**6, overfits=10**3, levels=10**6)
    with pytest.raises(InvalidGuaranteeError, match="scale"):
        thresholdout(n=9, scale=0.0, overfits=1)
    with pytest.raises(InvalidGuaranteeError, match="error=nan"):
        AnswerAccuracy(float("nan"), 0.1)
