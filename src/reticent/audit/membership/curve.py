"""The true positive rates that a certificate allows at each false positive rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent._arrays import Floats
from reticent._numbers import whole
from reticent.errors import InvalidParameterError
from reticent.guarantees import (
    QUICK_METHODS,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Certificate,
    PureDP,
    Scope,
    repeat,
)

# Deltas at which many answers are composed; each gives two straight lines above the
# curve. More lines would make no visible difference.
_DELTAS = (
    *(float(10.0**power) for power in np.arange(-9, -1.4, 0.5)),
    *(0.05, 0.07, 0.1, 0.14, 0.19, 0.25, 0.32, 0.4, 0.5, 0.6, 0.75),
)
# For more answers than this, composing loss distributions takes seconds; the closed
# forms are only slightly looser.
_MOST_BY_DISTRIBUTION = 50
# A generous bound on the rounding of a few float operations, added upwards.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class TradeOff:
    """The largest true positive rate that a privacy promise allows, as a curve.

    An attacker decides from the answers whether one unit was in the data. The true
    positive rate is the share of members that the attack names, the false positive rate
    the share of non-members that it names.

    Guarantee
    ---------
    Under the promise no attack exceeds the curve, for each pair of neighbours and,
    because the curve is concave, on average over pairs.

    References
    ----------
    :cite:`WassermanZhou2010` for ``TPR <= exp(epsilon) FPR + delta``.

    Examples
    --------
    >>> float(TradeOff(pairs=((1.0, 0.0),)).true_positives_at_most(0.01).round(4))
    0.0272
    """

    #: Promises of approximate privacy that hold together.
    pairs: tuple[tuple[float, float], ...]
    #: If not None, the odds of every event also change by at most ``exp(odds)``.
    odds: float | None = None

    def true_positives_at_most(self, false_positives: ArrayLike) -> Floats:
        """Return the largest true positive rate at each false positive rate."""
        rates = np.asarray(false_positives, dtype=np.float64)
        if not ((rates >= 0) & (rates <= 1)).all():
            raise InvalidParameterError("a false positive rate must lie in [0, 1].")
        most = np.ones_like(rates)
        for epsilon, delta in self.pairs:
            growth = math.exp(min(epsilon, 700.0))
            most = np.minimum(most, delta + growth * rates)
            missed = np.maximum(1 - delta - rates, 0.0) / growth
            most = np.minimum(most, 1 - missed)
        if self.odds is not None:
            growth = math.exp(min(self.odds, 700.0))
            most = np.minimum(most, growth * rates / (1 + (growth - 1) * rates))
        return np.asarray(np.clip(np.maximum(most, rates) + _ROUNDING, 0.0, 1.0))


def trade_off(certificate: Certificate[Any], answers: int = 1) -> TradeOff:
    """Return the curve that a certificate allows for a number of answers.

    Parameters
    ----------
    certificate : Certificate
        Of one answer, of all answers of an interface, or of a released model; the
        latter two already cover any number of questions.
    answers : int, default=1
        Number of answers that the attacker sees; each question may depend on earlier
        answers.

    Examples
    --------
    >>> from reticent.mechanisms import soft_vote_certificate
    >>> curve = trade_off(soft_vote_certificate(n=100, epsilon=1.0))
    >>> float(curve.true_positives_at_most(0.01).round(4))
    0.0267
    """
    answers = whole("trade_off", "answers", answers)
    guarantee = certificate.guarantee
    if not isinstance(guarantee, (PureDP, BoundedRange, ApproxDP, ZCDP)):
        raise InvalidParameterError(
            f"{guarantee} does not bound what answers say about one unit; a curve "
            "needs PureDP, BoundedRange, ApproxDP or ZCDP."
        )
    if certificate.scope is not Scope.ANSWER:
        answers = 1
    odds = None
    if isinstance(guarantee, BoundedRange) and answers == 1:
        odds = guarantee.epsilon
    return TradeOff(pairs=_pairs(certificate, answers), odds=odds)


@lru_cache(maxsize=256)
def _pairs(
    certificate: Certificate[Any], answers: int
) -> tuple[tuple[float, float], ...]:
    """Return what the answers promise together, at several deltas."""
    guarantee = certificate.guarantee
    if answers == 1 and isinstance(guarantee, (PureDP, BoundedRange)):
        return ((guarantee.epsilon, 0.0),)
    if answers == 1 and isinstance(guarantee, ApproxDP):
        return ((guarantee.epsilon, guarantee.delta),)
    found = []
    slack = 0.0
    if not isinstance(guarantee, ZCDP):
        summed = repeat(certificate, answers).guarantee
        slack = getattr(summed, "delta", 0.0)
        found.append((float(summed.epsilon), float(slack)))
    few = answers <= _MOST_BY_DISTRIBUTION
    methods = (*QUICK_METHODS, "pld") if few else QUICK_METHODS
    for delta in _DELTAS:
        if delta > slack:
            promise = repeat(certificate, answers, delta=delta, methods=methods)
            found.append((float(promise.guarantee.epsilon), delta))
    return tuple(found)
