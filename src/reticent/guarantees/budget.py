"""A budget: what may be spent in total."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reticent._numbers import below_one, positive, shown
from reticent.guarantees.types import (
    ApproxDP,
    BoundedRange,
    Guarantee,
    PureDP,
)


@dataclass(frozen=True)
class Budget:
    """The most that all answers together may cost: ``(epsilon, delta)``-DP.

    Parameters
    ----------
    epsilon : float
        Largest total privacy loss, above 0.
    delta : float, default=0.0
        Largest total slack. With ``delta > 0`` more answers fit, because losses of
        many small steps partly cancel.

    Examples
    --------
    >>> print(Budget(epsilon=4.0, delta=1e-6))
    ε = 4, δ = 1e-6 in total
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        for name, check in (("epsilon", positive), ("delta", below_one)):
            asked = getattr(self, name)
            number = check("Budget", name, asked)
            if number > asked:  # a fraction that no float holds: allow less, not more
                number = check("Budget", name, math.nextafter(number, 0.0))
            object.__setattr__(self, name, number)

    def covers(self, guarantee: Guarantee) -> bool:
        """Return whether a total of `guarantee` stays within this budget."""
        if isinstance(guarantee, (PureDP, BoundedRange)):
            return guarantee.epsilon <= self.epsilon
        if isinstance(guarantee, ApproxDP):
            return guarantee.epsilon <= self.epsilon and guarantee.delta <= self.delta
        return False

    def __str__(self) -> str:
        epsilon = short_exponent(shown(self.epsilon))
        if self.delta == 0:
            return f"ε = {epsilon} in total"
        return f"ε = {epsilon}, δ = {short_exponent(shown(self.delta))} in total"


def short_exponent(text: str) -> str:
    """Write ``1e-6`` for ``1e-06``."""
    return text.replace("e-0", "e-").replace("e+0", "e")
