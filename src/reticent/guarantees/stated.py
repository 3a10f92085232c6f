"""A promise as epsilon and delta, written the same way wherever a person reads it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from reticent.guarantees.budget import Budget, short_exponent
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.compose import QUICK_METHODS, repeat
from reticent.guarantees.concentrated import zcdp_epsilon
from reticent.guarantees.convert import epsilon_delta
from reticent.guarantees.gaussian_curve import gaussian_epsilon
from reticent.guarantees.types import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    GaussianDP,
    Guarantee,
    PureDP,
)

#: The delta of a promise that leaves the choice, if nobody names another one.
USUAL_DELTA = 1e-6
# Rules whose conclusion costs what their premise costs, said in other words.
_IN_OTHER_WORDS = {"G2-zcdp", "G22-pure-zcdp", "G24-pure", "G24-zcdp", "M6"}


class Stated(NamedTuple):
    """Epsilon and delta, as text with three digits, rounded up.

    Examples
    --------
    >>> print(Stated(0.99999, 1e-6))
    ε = 1, δ = 1e-6
    """

    epsilon: float
    delta: float = 0.0

    def __str__(self) -> str:
        if not self.delta:
            return f"ε = {rounded_up(self.epsilon)}"
        return f"ε = {rounded_up(self.epsilon)}, δ = {rounded_up(self.delta)}"

    def as_dict(self) -> dict[str, Any]:
        """Return both numbers and the text, for JSON."""
        return {"epsilon": self.epsilon, "delta": self.delta, "text": str(self)}


def rounded_up(value: float) -> str:
    """Return a loss with three digits, rounded up.

    Examples
    --------
    >>> rounded_up(1.0801)
    '1.09'
    """
    if not 0 < value < math.inf:
        return f"{value:g}"
    digits = 2 - math.floor(math.log10(value))
    # What is exact with three digits stays what it is.
    near = round(value, digits)
    if near < value * (1 - 1e-12):
        near += 10.0**-digits
    return short_exponent(f"{near:.3g}")


def stated(
    promise: Guarantee | Budget | Certificate[Any], *, delta: float = 0.0
) -> Stated | None:
    """Return a promise as epsilon and delta; None if it is not about privacy.

    Parameters
    ----------
    promise : Guarantee, Budget or Certificate
        What is promised.
    delta : float, default=0.0
        The delta where the promise leaves the choice, as zCDP and Gaussian DP do; 0
        for the usual one, `USUAL_DELTA`.

    Guarantee
    ---------
    What is promised implies ``(epsilon, delta)``-DP with the numbers returned. A
    certificate may say in other words what its premise says, or add up equal answers
    as zCDP. Then the premise bounds the same loss, and the smaller epsilon counts.

    Examples
    --------
    >>> from reticent.guarantees import BoundedRange
    >>> print(stated(BoundedRange(0.5)))
    ε = 0.5
    """
    chosen = delta or USUAL_DELTA
    if isinstance(promise, Certificate):
        found = [_stated(each, chosen) for each in _same_loss(promise, chosen)]
        return min((each for each in found if each is not None), default=None)
    if isinstance(promise, Budget):
        return Stated(promise.epsilon, promise.delta)
    return _stated(promise, chosen)


def _same_loss(node: Certificate[Any], delta: float) -> Iterator[Guarantee]:
    """Yield bounds on the loss of one release: as it is certified, and as before."""
    yield node.guarantee
    if node.rule in _IN_OTHER_WORDS:
        (premise,) = node.premises
        yield from _same_loss(premise, delta)
    elif node.rule == "G22-zcdp" and isinstance(node.guarantee, ZCDP):
        counts: Any = node.parameter("counts")
        if len(counts) == 1:
            (one,), (times,) = node.premises, counts
            yield repeat(one, int(times), delta=delta, methods=QUICK_METHODS).guarantee


def _stated(kind: Guarantee, delta: float) -> Stated | None:
    if isinstance(kind, PureDP | BoundedRange | ApproxDP):
        return Stated(*epsilon_delta(kind))
    if isinstance(kind, ZCDP):
        return Stated(zcdp_epsilon(kind.rho, delta), delta)
    if isinstance(kind, GaussianDP):
        return Stated(gaussian_epsilon(kind.mu, delta), delta)
    return None
