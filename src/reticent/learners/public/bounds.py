"""Bounds on the accuracy of learning with public points (M3)."""

from __future__ import annotations

import math

from reticent._numbers import positive
from reticent.errors import InvalidParameterError


def regularized_excess_at_most(
    *,
    n: int,
    m: int,
    dimension: int,
    eta: float,
    noise_scale: float,
    reach: float,
    slope: float,
    smoothness: float,
) -> float:
    r"""Bound the expected excess loss of regularised minimisation with public points.

    Parameters
    ----------
    n, m, dimension : int
        Private units, public points, and features (constant included).
    eta, noise_scale : float
        Strength of the penalty, and standard deviation of the noise on one value.
    reach, slope : float
        Bounds on predictions and on the derivative of the loss (in [0, 1]).
    smoothness : float
        :math:`\sigma \le 1`: private rows have a density of at most
        :math:`1/\sigma` relative to the public rows' distribution. It affects this
        bound and never the privacy.

    Returns
    -------
    float
        At most the range of the loss, 1.

    Notes
    -----
    The sum of :math:`\eta\,reach^2`, the penalty of the best function; of
    :math:`2\,slope\,reach/\sqrt n`, for the private sample (Rademacher complexity);
    and of :math:`slope\sqrt{(2 s^2 d/m + 4\,reach^2/\sqrt m)/\sigma}` for the noise.
    *Proof of the last.* The projection minimises :math:`|f - v|_m^2 + \lambda |w|^2`
    with :math:`\lambda R^2 = s^2 d/m`, which grows by the squared distance at least
    from its minimiser. At the exact function it is the noise's part in the span,
    :math:`s^2 d/m` in the mean, plus at most :math:`\lambda R^2`; the mean square of
    the move over the public points is no more. Over their distribution it is more by
    at most the largest eigenvalue of the error of their second moments, whose mean
    square is at most the fourth power of the norm over `m`; differences have norms of
    at most twice the radius. The density ratio and Jensen's inequality do the rest.

    Examples
    --------
    >>> regularized_excess_at_most(
    ...     n=10**7, m=10**5, dimension=3, eta=0.01, noise_scale=0.1, reach=1.0,
    ...     slope=0.5, smoothness=0.5,
    ... ) < 0.15
    True
    """
    sigma = positive("the bound of M3", "smoothness", smoothness)
    if not sigma <= 1:
        raise InvalidParameterError(
            f"smoothness={sigma!r} must be in (0, 1]; 1 says that both distributions "
            "are the same."
        )
    noise = 2 * noise_scale**2 * dimension / m
    spread = 4 * reach**2 / math.sqrt(m)
    total = (
        eta * reach**2
        + 2 * slope * reach / math.sqrt(n)
        + slope * math.sqrt((noise + spread) / sigma)
    )
    return min(1.0, total)
