"""The exact law of the best of K runs on finite sets of outcomes."""

from __future__ import annotations

import itertools

import mpmath

DIGITS = 60


def negative_binomial(eta, gamma):
    """Return the generating function of a truncated negative binomial number."""
    eta, gamma = mpmath.mpf(eta), mpmath.mpf(gamma)

    def at(x):
        inside = 1 - (1 - gamma) * x
        if eta == 0:
            return mpmath.log(inside) / mpmath.log(gamma)
        return (inside**-eta - 1) / (gamma**-eta - 1)

    return at


def exactly(k):
    """Return the generating function of a fixed number."""
    return lambda x: mpmath.mpf(x) ** k


def best_law(run, generating):
    """Return the law of the best of K runs; outcomes go from worst to best."""
    law, below = [], mpmath.mpf(0)
    for mass in run:
        law.append(generating(below + mass) - generating(below))
        below = below + mass
    return law


def loss(run, neighbour, generating):
    """Return the largest log-ratio of the best runs of two neighbours."""
    with mpmath.workdps(DIGITS):
        one, two = (best_law(law, generating) for law in (run, neighbour))
        return max(abs(mpmath.log(a / b)) for a, b in zip(one, two, strict=True))


def delta(run, neighbour, generating, epsilon):
    """Return the exact delta at an epsilon, the larger of both directions."""
    with mpmath.workdps(DIGITS):
        one, two = (best_law(law, generating) for law in (run, neighbour))
        factor = mpmath.exp(mpmath.mpf(epsilon))
        return max(
            sum(max(a - factor * b, 0) for a, b in zip(*laws, strict=True))
            for laws in ((one, two), (two, one))
        )


def small_search(epsilon):
    """Return the run laws of all datasets of one training and one held-out unit.

    A unit is a bit. Of two settings, one trains by randomized response and the other
    on the flipped bit. The score is whether the model is right about the held-out bit,
    by randomized response. Outcomes are (score, setting, model), ordered by the score
    and then by the rest, which no run depends on in its order.
    """
    with mpmath.workdps(DIGITS):
        kept = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        laws = {}
        for trained, held_out in itertools.product((0, 1), repeat=2):
            law = []
            for score, setting, model in itertools.product((0, 1), repeat=3):
                own = kept if model == (trained ^ setting) else 1 - kept
                right = int(model == held_out)
                law.append(own * (kept if score == right else 1 - kept) / 2)
            laws[trained, held_out] = law
        return laws
