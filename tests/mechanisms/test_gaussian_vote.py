"""The Gaussian vote: exact delta, exact law, and its draws (P1)."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.guarantees import ZCDP, ApproxDP, gaussian_delta, recheck
from reticent.mechanisms import (
    SeededSource,
    SystemSource,
    discrete_gaussian_law,
    gaussian_vote,
    gaussian_vote_approx_certificate,
    gaussian_vote_certificate,
    gaussian_vote_delta,
    gaussian_vote_scale,
)
from tests.mechanisms.neighbours import hockey_stick, vote_pairs
from tests.stats import assert_follows, mutant, rejects


def plane_delta(scale, epsilon):
    """Sum the hockey stick over both counts, one moved up and the other down."""
    reach = int(40 * scale) + 5
    steps = np.arange(-reach, reach + 1)
    here = np.exp(discrete_gaussian_law(steps, scale))
    up = np.exp(discrete_gaussian_law(steps - 1, scale))
    down = np.exp(discrete_gaussian_law(steps + 1, scale))
    return hockey_stick(np.outer(here, here), np.outer(up, down), epsilon)


@pytest.mark.parametrize("scale", [0.3, 0.7, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0])
def test_delta_is_that_of_the_noise(scale, epsilon):
    delta = gaussian_vote_delta(scale, epsilon)
    reference = plane_delta(scale, epsilon)
    assert delta >= reference * (1 - 1e-9) - 1e-14
    assert delta == pytest.approx(reference, rel=1e-6, abs=1e-13)


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_scale_reaches_its_target_and_no_more(epsilon, delta):
    scale = gaussian_vote_scale(epsilon, delta)
    assert 0.99 * delta <= gaussian_vote_delta(scale, epsilon) <= delta
    # Half the noise is caught, and continuous noise needs about the same.
    assert gaussian_vote_delta(scale / 2, epsilon) > 1.9 * delta
    continuous = gaussian_delta(2**0.5 / scale, epsilon)
    assert continuous == pytest.approx(delta, rel=0.35)


@pytest.mark.parametrize("scale", [0.8, 2.0])
def test_no_neighbour_moves_the_answer_further(scale):
    pairs = vote_pairs(3, 4)
    inputs = sorted({item for pair in pairs for item in pair})
    law = gaussian_vote(inputs, scale).probabilities
    rows = {item: law[i] for i, item in enumerate(inputs)}
    rho = gaussian_vote_certificate(n=9, scale=scale).guarantee.rho
    for first, second in pairs:
        p, q = rows[first], rows[second]
        for epsilon in (0.1, 1.0, 3.0):
            assert hockey_stick(p, q, epsilon) <= gaussian_vote_delta(scale, epsilon)
        for order in (1.5, 2.0, 8.0):
            renyi = np.log((p**order * q ** (1 - order)).sum()) / (order - 1)
            assert renyi <= order * rho + 1e-12


@pytest.mark.parametrize("order", [1.1, 2.0, 5.0])
def test_rho_is_attained_by_the_noise(order):
    scale, reach = 3.0, 200
    steps = np.arange(-reach, reach + 1)
    log_p = discrete_gaussian_law(steps, scale)
    log_q = discrete_gaussian_law(steps - 1, scale)
    one = np.log(np.exp(order * log_p + (1 - order) * log_q).sum()) / (order - 1)
    rho = gaussian_vote_certificate(n=9, scale=scale).guarantee.rho
    assert 0.99 * order * rho <= 2 * one <= order * rho * (1 + 1e-9)


def test_law_agrees_with_intervals():
    response = gaussian_vote([[3, 2, 0, 4], [4, 4, 1, 0], [9, 0, 0, 0]], 1.7)
    for row in range(3):
        logs = response.log_probabilities[row]
        for (low, high), log in zip(response.exact(row), logs, strict=True):
            assert high - low <= 2.0**-64
            assert float(low) == pytest.approx(log, abs=1e-11)
    assert response.probabilities.sum(axis=1) == pytest.approx(1.0, abs=1e-12)


def test_ties_go_to_the_first_label():
    law = gaussian_vote([[1, 1]], 0.4).probabilities[0]
    assert law[0] > 0.7


def test_draws_follow_the_law(seed):
    response = gaussian_vote(np.tile([3, 1, 2], (1_000_000, 1)), 1.5)
    law = gaussian_vote([[3, 1, 2]], 1.5).probabilities[0]
    counts = np.bincount(response.draw(SeededSource(seed)), minlength=3)
    assert_follows(counts, law)
    assert rejects(assert_follows, counts, mutant(law))


def test_served_draws_follow_the_law():
    response = gaussian_vote(np.tile([3, 1], (60_000, 1)), 1.5)
    law = gaussian_vote([[3, 1]], 1.5).probabilities[0]
    counts = np.bincount(response.draw(SystemSource()), minlength=2)
    assert_follows(counts, law)
    assert rejects(assert_follows, counts, mutant(law))


def test_certificates_recheck_and_refuse_too_little_noise():
    rho = gaussian_vote_certificate(n=50, scale=4.0)
    assert rho.guarantee.rho == pytest.approx(1 / 16)
    assert isinstance(rho.guarantee, ZCDP)
    scale = gaussian_vote_scale(1.0, 1e-6)
    one = gaussian_vote_approx_certificate(n=50, scale=scale, epsilon=1.0, delta=1e-6)
    assert one.guarantee == ApproxDP(1.0, 1e-6)
    for certificate in (rho, one):
        recheck(certificate)
    with pytest.raises(ValueError, match="reaches delta"):
        gaussian_vote_approx_certificate(n=50, scale=scale / 2, epsilon=1.0, delta=1e-6)


def test_votes_far_apart_are_answered_quickly_and_finitely():
    logs = gaussian_vote([[10**5, 0, 7]], 3.0).log_probabilities
    assert np.isfinite(logs).all()
