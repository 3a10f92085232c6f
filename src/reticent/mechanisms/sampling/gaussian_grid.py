"""What discrete Gaussian noise on a grid is worth as continuous noise.

The curve of Balle and Wang (2018, Thm. 8) is about continuous noise. It carries over
to discrete Gaussian noise of variance s^2 on the whole numbers, in any dimension, at
the price of a continuous variance of s^2 - 16:

*Proof.* Add continuous noise of variance s^2 - 16 to a whole vector v, then round
each coordinate y at random to a whole number z with probability proportional to
exp(-(z - y)^2 / 32): post-processing. By Poisson's formula the normaliser of this
rounding is 4 sqrt(2 pi) times 1 +- h, h = 2 sum_j exp(-32 (pi j)^2) < 1e-136, whatever
y is. Integrating over y, the outcome z has the density of a Gaussian of variance s^2
at z - v, up to the same factor; and so has the discrete Gaussian around v. The two
laws differ by a factor within exp(+-3h) per coordinate. So (epsilon, delta) for
continuous noise is (epsilon + 6 d h, delta exp(3 d h)) for discrete noise on d
coordinates, which the margin of `gaussian_delta` covers for any d in use.
"""

from __future__ import annotations

import math

from reticent.errors import InvalidParameterError

# Variance, in squared grid steps, that random rounding takes (see the proof).
ROUNDING_VARIANCE = 16.0


def grid_scale_to_continuous(scale: float) -> float:
    """Return the continuous scale that discrete noise of `scale` grid steps is worth.

    Rounded down.
    """
    rest = scale * scale * (1 - 2.0**-50) - ROUNDING_VARIANCE
    if not rest > 0:
        raise InvalidParameterError(
            f"the analytic curve needs noise of more than 4 grid steps; got "
            f"{scale!r}. Use a finer grid."
        )
    return math.sqrt(rest) * (1 - 2.0**-50)
