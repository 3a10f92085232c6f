"""Answers from the position of a whole-number walk (P4)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from reticent._arrays import Ints
from reticent._numbers import up, whole
from reticent.errors import InvalidDataError
from reticent.guarantees import (
    AddRemove,
    BoundedRange,
    Conclusion,
    PureDP,
    ReplaceOne,
    Scope,
    noise_assumptions,
    rule,
)
from reticent.mechanisms.response import Response, SoftmaxResponse
from reticent.mechanisms.sampling.inputs import (
    checked_epsilon,
    exact_products,
    exact_rate,
    whole_numbers,
)
from reticent.mechanisms.sampling.listening import reach
from reticent.mechanisms.two_sided import TwoSidedResponse


def sigmoid_response(positions: ArrayLike, epsilon: float, *, bound: int) -> Response:
    r"""Return the law with label 1 of probability :math:`\sigma(\varepsilon v/2)`.

    Parameters
    ----------
    positions : array-like of int, shape (n,)
        Positions `v` of the walk, one per query, that one replaced unit moves by at
        most 2.
    epsilon : float
        Privacy cost of one answer under replacement of a unit.
    bound : int
        Public bound on the size of a position (the walk is clipped there).

    Guarantee
    ---------
    ``BoundedRange(epsilon)``: the log-odds are :math:`\varepsilon v / 2`. If adding or
    removing a unit moves `v` by at most 1, it costs half of that.
    """
    epsilon = checked_epsilon("sigmoid response", epsilon)
    walk = _positions(positions, bound)
    reach("sigmoid response", walk[:, None], largest=2, settings=(epsilon, bound))
    odds = np.zeros((len(walk), 2))
    odds[:, 1] = exact_products(walk, exact_rate(epsilon, divisor=2, bound=bound))
    return SoftmaxResponse(odds)


def two_step_response(positions: ArrayLike, epsilon: float, *, bound: int) -> Response:
    r"""Return the law whose minority falls by :math:`e^{-\varepsilon}` in two steps.

    The label against the sign of `v` has probability :math:`e^{-\varepsilon|v|/2}/2`
    for even `v` and :math:`e^{-\varepsilon(|v|-1)/2}/(1+e^{\varepsilon})` for odd `v`.

    Parameters
    ----------
    positions, epsilon, bound
        As for `sigmoid_response`.

    Guarantee
    ---------
    ``PureDP(epsilon)`` if replacing a unit moves `v` by at most 2, attained. Never errs
    more often than the sigmoid, and far from zero about half as often. Not of bounded
    range.
    """
    epsilon = checked_epsilon("two-step response", epsilon)
    walk = _positions(positions, bound)
    reach("two-step response", walk[:, None], largest=2, settings=(epsilon, bound))
    rate = exact_rate(epsilon, divisor=2, bound=bound)
    far = np.abs(walk)
    return TwoSidedResponse(
        minority=(walk < 0).astype(np.int64),
        exponents=exact_products(far - far % 2, rate),
        between=far % 2 == 1,
        step=2 * rate,
    )


def _positions(positions: ArrayLike, bound: int) -> Ints:
    bound = whole("walk", "bound", bound, least=0)
    walk = whole_numbers("positions", positions)
    if walk.ndim != 1:
        raise InvalidDataError(f"positions must have shape (n,); got {walk.shape}.")
    if not (np.abs(walk) <= bound).all():
        raise InvalidDataError(f"positions must stay within the bound={bound}.")
    return walk


@rule(
    "P4-sigmoid",
    name="sigmoid of a walk",
    statement="log-odds eps v / 2; v moves by 2 (replace-one) or 1 (add/remove)",
    source="S1 Lemma 5.2",
    gives=BoundedRange,
)
def sigmoid_certificate(
    *, epsilon: float, n: int | None, seeded: bool = False
) -> Conclusion[BoundedRange]:
    """Certify `sigmoid_response`; `n` None is for adding or removing a unit."""
    epsilon = checked_epsilon("rule P4-sigmoid", epsilon)
    if n is None:
        return Conclusion(
            BoundedRange(epsilon / 2),
            AddRemove(),
            Scope.ANSWER,
            noise_assumptions(seeded),
        )
    return Conclusion(
        BoundedRange(epsilon), ReplaceOne(n), Scope.ANSWER, noise_assumptions(seeded)
    )


@rule(
    "P4-two-step",
    name="two-step response of a walk",
    statement="a staircase of ratio e^eps; v moves by 2 (replace-one); by 1 "
    "(add/remove) it costs ln((1 + e^eps)/2)",
    source="S1 Lemma 5.2 with the optimal response",
    paper="the sigmoid",
    gives=PureDP,
)
def two_step_certificate(
    *, epsilon: float, n: int | None, seeded: bool = False
) -> Conclusion[PureDP]:
    """Certify `two_step_response`; `n` None is for adding or removing a unit."""
    epsilon = checked_epsilon("rule P4-two-step", epsilon)
    if n is None:
        # From a tie to the first stair: (1/2) / (1/(1 + e^eps)).
        half = math.log1p(math.expm1(epsilon) / 2) if epsilon < 700 else epsilon
        return Conclusion(
            PureDP(min(epsilon, up(half))),
            AddRemove(),
            Scope.ANSWER,
            noise_assumptions(seeded),
        )
    return Conclusion(
        PureDP(epsilon), ReplaceOne(n), Scope.ANSWER, noise_assumptions(seeded)
    )
