"""Select one of many candidates by whole-number scores (G2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent._arrays import Ints
from reticent._numbers import whole
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.guarantees import (
    BoundedRange,
    Conclusion,
    PureDP,
    ReplaceOne,
    Scope,
    noise_assumptions,
    rule,
)
from reticent.mechanisms.permute_and_flip import PermuteAndFlipResponse
from reticent.mechanisms.response import Response, SoftmaxResponse
from reticent.mechanisms.sampling.inputs import (
    checked_epsilon,
    exact_products,
    exact_rate,
    whole_numbers,
)
from reticent.mechanisms.sampling.listening import reach


def exponential_mechanism(
    scores: ArrayLike, epsilon: float, *, bound: int, sensitivity: int = 1
) -> Response:
    r"""Return the law :math:`\Pr[j] \propto e^{\varepsilon s_j/(2\Delta)}`, `s` scores.

    Parameters
    ----------
    scores : array-like of int, shape (n_candidates,) or (n, n_candidates)
        Larger is better; one selection per row. Sums of losses in fixed point are
        whole numbers, too.
    epsilon : float
        Privacy cost of one selection.
    bound : int
        Public bound on the size of a score.
    sensitivity : int, default=1
        Public bound :math:`\Delta` on the move of a score when a unit is replaced.

    Guarantee
    ---------
    ``BoundedRange(epsilon)`` for one selection. *Proof.* Log-weights move by at most
    :math:`\varepsilon/2`, so log-odds of any event by at most :math:`\varepsilon`.

    Examples
    --------
    >>> law = exponential_mechanism([0, 1, 2], 2.0, bound=2)
    >>> law.probabilities.round(4).tolist()
    [[0.09, 0.2447, 0.6652]]
    """
    epsilon = checked_epsilon("exponential mechanism", epsilon)
    values = _scores(scores, bound)
    settings = (epsilon, bound, sensitivity)
    reach("exponential mechanism", values, largest=sensitivity, settings=settings)
    return SoftmaxResponse(exact_products(values, _rate(epsilon, bound, sensitivity)))


def permute_and_flip(
    scores: ArrayLike, epsilon: float, *, bound: int, sensitivity: int = 1
) -> Response:
    r"""Return the law of permute-and-flip on scores.

    Candidates are in random order; `j` is accepted with probability
    :math:`e^{-\varepsilon(\max - \mathrm{score}_j)/(2\Delta)}`.

    Parameters
    ----------
    scores, epsilon, bound, sensitivity
        As for `exponential_mechanism`.

    Guarantee
    ---------
    ``PureDP(epsilon)`` for one selection; not of bounded range. Its expected score is
    never below the exponential mechanism's. :cite:`McKennaSheldon2020`.
    """
    epsilon = checked_epsilon("permute-and-flip", epsilon)
    values = _scores(scores, bound)
    settings = (epsilon, bound, sensitivity)
    reach("permute-and-flip", values, largest=sensitivity, settings=settings)
    gaps = values.max(axis=1, keepdims=True) - values
    return PermuteAndFlipResponse(
        exact_products(gaps, _rate(epsilon, bound, sensitivity))
    )


def _rate(epsilon: float, bound: Any, sensitivity: Any) -> float:
    sensitivity = whole("selection", "sensitivity", sensitivity)
    if not sensitivity <= 2**53:
        raise InvalidParameterError("selection needs a sensitivity of at most 2^53.")
    bound = whole("selection", "bound", bound, least=0)
    return exact_rate(epsilon, divisor=2 * sensitivity, bound=bound)


def _scores(scores: ArrayLike, bound: Any) -> Ints:
    bound = whole("selection", "bound", bound, least=0)
    values = np.atleast_2d(whole_numbers("scores", scores))
    if values.ndim != 2 or not values.shape[1]:
        raise InvalidDataError(
            "scores must have shape (n_candidates,) or (n, n_candidates) with at least "
            f"one candidate; got shape {values.shape}."
        )
    if not (np.abs(values) <= bound).all():
        raise InvalidDataError(f"scores must stay within the public bound={bound}.")
    return values


@rule(
    "G2",
    name="exponential mechanism",
    statement="Pr[j] ~ exp(eps score_j / (2 sensitivity)) has bounded range eps",
    source="McSherryTalwar2007; DongDurfeeRogers2020",
    paper="2 eps (S2)",
    gives=BoundedRange,
)
def exponential_mechanism_certificate(
    *,
    n: int,
    epsilon: float,
    scope: str = "answer",
    sensitivity: int = 1,
    seeded: bool = False,
) -> Conclusion[BoundedRange]:
    """Certify one selection from scores of whole numbers."""
    epsilon = checked_epsilon("rule G2", epsilon)
    whole("rule G2", "sensitivity", sensitivity)
    return Conclusion(
        BoundedRange(epsilon), ReplaceOne(n), Scope(scope), noise_assumptions(seeded)
    )


@rule(
    "G2-permute-and-flip",
    name="permute-and-flip",
    statement="accept w.p. exp(-eps (max - score_j) / (2 sensitivity)), random order",
    source="McKennaSheldon2020, Thm. 1",
    gives=PureDP,
)
def permute_and_flip_certificate(
    *,
    n: int,
    epsilon: float,
    scope: str = "answer",
    sensitivity: int = 1,
    seeded: bool = False,
) -> Conclusion[PureDP]:
    """Certify one selection by permute-and-flip."""
    epsilon = checked_epsilon("rule G2-permute-and-flip", epsilon)
    whole("rule G2-permute-and-flip", "sensitivity", sensitivity)
    return Conclusion(
        PureDP(epsilon), ReplaceOne(n), Scope(scope), noise_assumptions(seeded)
    )
