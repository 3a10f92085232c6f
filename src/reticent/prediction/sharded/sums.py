"""Sums over shards in whole steps, and the noise that makes them private (P2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reticent._numbers import below_one, positive, whole
from reticent.ensembles import OUTPUT_STEPS
from reticent.guarantees import (
    Certificate,
    Conclusion,
    ReplaceOne,
    Scope,
    Sensitivity,
    gaussian_noise,
    rule,
)
from reticent.mechanisms import GridNoise, calibrate_gaussian, calibrate_laplace


@rule(
    "P2-sums",
    name="sum of bounded outputs in whole steps",
    statement="one retrained model moves a sum of outputs in 0..s by s, and a sum of "
    "points of the simplex by 2s in l1",
    source="S1 Lemma 4.6",
    gives=Sensitivity,
)
def sums_sensitivity(*, n: int, steps: int, dimension: int) -> Conclusion[Sensitivity]:
    """Bound how far one replaced unit moves a sum over shards of `n` units."""
    steps = whole("rule P2-sums", "steps", steps)
    if whole("rule P2-sums", "dimension", dimension) == 1:
        moved = Sensitivity(float(steps))
    else:
        # Two points of the simplex are at most 2 apart in l1 and sqrt 2 in l2.
        moved = Sensitivity(2.0 * steps, 1.4142135623730952 * steps)
    return Conclusion(moved, ReplaceOne(n), Scope.ANSWER)


@dataclass(frozen=True)
class SumNoise:
    """Noise for one answer's sums."""

    #: What it was calibrated to.
    epsilon: float
    delta: float
    noise: GridNoise
    #: What one noisy answer promises. With a delta the noise is Gaussian and the
    #: certificate states its zCDP, because many answers compose best by it.
    certificate: Certificate[Any]

    @classmethod
    def calibrated(
        cls, n: int, dimension: int, *, epsilon: float, delta: float, seeded: bool
    ) -> SumNoise:
        """Calibrate noise for `dimension` sums over the shards of `n` units."""
        premise = sums_sensitivity(n=n, steps=OUTPUT_STEPS, dimension=dimension)
        settings: dict[str, Any] = {
            "dimension": dimension,
            "grid": 1.0,
            "on_grid": True,
            "seeded": seeded,
        }
        epsilon = positive("averaging", "epsilon", epsilon)
        delta = below_one("averaging", "delta", delta)
        if delta == 0:
            noise = calibrate_laplace(premise, epsilon=epsilon, **settings)
            return cls(epsilon, delta, noise, noise.certificate)
        noise = calibrate_gaussian(premise, epsilon=epsilon, delta=delta, **settings)
        rounded = noise.certificate.premises[0]
        return cls(epsilon, delta, noise, gaussian_noise(rounded, scale=noise.scale))
