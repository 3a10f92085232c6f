"""How often a private search runs: truncated negative binomial numbers (G26)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._numbers import MPMATH_LOCK, exact, high_precision, real, up
from reticent._search import geometric_mean, last_that_holds
from reticent.errors import InternalError, InvalidParameterError
from reticent.mechanisms.sampling.exact import longer_prefixes
from reticent.mechanisms.sampling.intervals import (
    IntervalArithmetic,
    TooWideError,
    interval_arithmetic,
)
from reticent.mechanisms.sampling.randomness import RandomSource

# Closer to 0 than this, the formulas for eta != 0 cancel too many digits.
_SMALLEST_ETA = 1e-3
_LARGEST_ETA = 100.0
_SMALLEST_GAMMA = 1e-9
_BITS = 203  # 60 digits


@dataclass(frozen=True)
class Repetitions:
    r"""The law of a number `K` of runs, at least one.

    :math:`\Pr[K=k]` falls by the factor :math:`(1-\gamma)(k+\eta)/(k+1)` from `k` to
    `k + 1`. The geometric law has ``eta=1``, the logarithmic one ``eta=0``.
    """

    #: Above -1, up to 100. Larger numbers keep `K` closer to its mean, and cost more
    #: privacy: ``(2 + eta) epsilon`` for pure runs.
    eta: float
    gamma: float  #: between 1e-9 and 1; smaller numbers mean more runs

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", checked_eta(self.eta))
        gamma = real("Repetitions", "gamma", self.gamma)
        object.__setattr__(self, "gamma", gamma)
        if not _SMALLEST_GAMMA <= gamma < 1:
            raise InvalidParameterError(
                f"gamma={gamma!r} must be below 1 and at least {_SMALLEST_GAMMA:g}."
            )

    @classmethod
    def with_mean(cls, eta: float, mean: float) -> Repetitions:
        """Return the law whose mean is `mean`, or a little less.

        Parameters
        ----------
        eta : float
            As for the class.
        mean : float
            Above 1.
        """
        eta = checked_eta(eta)
        mean = real("Repetitions", "mean", mean)
        fewest = cls(eta, _SMALLEST_GAMMA).mean
        if not 1 < mean < fewest:
            raise InvalidParameterError(
                f"runs={mean!r} on average must be above 1 and below {fewest:.3g}."
            )
        gamma = last_that_holds(
            lambda gamma: cls(eta, gamma).mean <= mean,
            1 - 1e-12,
            _SMALLEST_GAMMA,
            halvings=60,
            middle=geometric_mean,
        )
        return cls(eta, gamma)

    @property
    def mean(self) -> float:
        """The mean of `K`, rounded up."""
        with high_precision(_BITS) as context:
            gamma, eta = context.mpf(self.gamma), context.mpf(self.eta)
            log = context.log(gamma)
            if self.eta == 0:
                found = (1 / gamma - 1) / -log
            else:
                found = eta * (1 - gamma) / (gamma * -context.expm1(eta * log))
            return up(float(found))

    def probabilities(self, count: int) -> NDArray[np.float64]:
        """Return the probabilities of 1 to `count` runs, as floats."""
        k = np.arange(1, count)
        ratios = (1 - self.gamma) * (k + self.eta) / (k + 1)
        first = (1 - self.gamma) / self._normaliser()
        return np.asarray(first * np.concatenate([[1.0], np.cumprod(ratios)]))

    def draw(self, source: RandomSource) -> int:
        """Draw `K`, exactly from its law for these two floats.

        A uniform number is compared with interval bounds of the cumulative law; bits
        are added until the comparison is decided.
        """
        head = int(source.words(1)[0])
        for bits, drawn in longer_prefixes(head, 64, source):
            found = self._place(drawn, bits)
            if found is not None:
                return found
        raise InternalError("a source of random bits ran dry.")

    def _place(self, drawn: int, bits: int) -> int | None:
        """Return `K` for a prefix of the uniform number; None if it needs more bits."""
        with MPMATH_LOCK:
            arithmetic = interval_arithmetic(bits + 64)
            try:
                mass = self._first(arithmetic)
            except TooWideError:
                return None
            low = arithmetic.real(exact(0.0) + drawn) / 2**bits
            high = low + arithmetic.real(1) / 2**bits
            total, k = mass, 1
            while not total.a >= high.b:
                if total.b > low.a:  # the number may be on either side of this sum
                    return None
                ratio = (1 - exact(self.gamma)) * (k + exact(self.eta)) / (k + 1)
                mass = mass * arithmetic.real(ratio)
                total = total + mass
                k += 1
            return k

    def _first(self, arithmetic: IntervalArithmetic) -> Any:
        """Return an interval around the probability of one run."""
        gamma, eta = exact(self.gamma), exact(self.eta)
        log = arithmetic.log(arithmetic.real(gamma))
        rest = arithmetic.real(1 - gamma)
        if eta == 0:
            return rest / -log
        power = arithmetic.exp(-log * arithmetic.real(eta)) - 1
        if power.a <= 0 <= power.b:
            raise TooWideError
        return rest * arithmetic.real(eta) / power

    def _normaliser(self) -> float:
        if self.eta == 0:
            return -math.log(self.gamma)
        return math.expm1(-self.eta * math.log(self.gamma)) / self.eta


def checked_eta(eta: float) -> float:
    """Return eta as a float, or refuse it."""
    eta = real("Repetitions", "eta", eta)
    if not (-1 < eta <= _LARGEST_ETA and (eta == 0 or abs(eta) >= _SMALLEST_ETA)):
        raise InvalidParameterError(
            f"eta={eta!r} must be above -1 and at most {_LARGEST_ETA:g}, and 0 or at "
            f"least {_SMALLEST_ETA:g} away from it."
        )
    return eta
