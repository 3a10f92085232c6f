"""Rounds of noisy sums under one individual account per unit (G24)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reticent._text import one_of
from reticent.errors import InvalidParameterError
from reticent.guarantees import (
    ApproxDP,
    Certificate,
    gaussian_epsilon,
    gaussian_ratio,
    gaussian_to_approx,
    individual_filter,
    individual_filter_replacing,
)
from reticent.mechanisms import RandomSource, UnitFilter, draw_rounded_gaussian

RELATIONS = ("replace-one", "zero-out")


@dataclass(frozen=True)
class RoundBudget:
    """What one unit may spend in total, and what a contribution costs."""

    mu: float  #: the whole transcript is `mu`-Gaussian DP
    #: "replace-one", or "zero-out": a unit contributes nothing.
    relation: str = "replace-one"

    @classmethod
    def of(cls, owner: str, epsilon: float, delta: float, relation: str) -> RoundBudget:
        """Return the largest `mu` that (epsilon, delta) allows."""
        one_of("relation", relation, *RELATIONS)
        if not 0 < delta < 1:
            raise InvalidParameterError(
                f"{owner} adds Gaussian noise, which needs 0 < delta < 1; got "
                f"delta={delta!r}."
            )
        mu = gaussian_ratio(epsilon, delta)
        while gaussian_epsilon(mu, delta) > epsilon:
            mu *= 1 - 2.0**-40  # what is printed must not exceed what was asked for
        return cls(mu, relation)

    @property
    def cap(self) -> float:
        """The sum of ``weight * (norm / scale)**2`` that a unit may reach."""
        square = self.mu * self.mu * (1 - 2.0**-50)
        return square / 2 if self.relation == "replace-one" else square

    def weight(self, acute: bool) -> int:
        """Return the price of a squared norm of one, for this kind of round.

        Parameters
        ----------
        acute : bool
            Whether no two contributions to the round can point apart, as with counts.
        """
        return 2 if self.relation == "replace-one" and not acute else 1

    def scale(self, norm: float, *, share: float, times: float, acute: bool) -> float:
        """Return a noise scale: `times` contributions of this norm then cost a share.

        Rounded up to a multiple of 2^-10, so that it is short to write down.
        """
        least = norm * math.sqrt(times * self.weight(acute) / (share * self.cap))
        return max(math.ceil(least * 1024) / 1024, 1 / 1024)

    def certificate(
        self, *, n: int, delta: float, scope: str, labels_from_data: bool, seeded: bool
    ) -> Certificate[ApproxDP]:
        """Certify all rounds together, as (epsilon, delta)."""
        rule = (
            individual_filter_replacing
            if self.relation == "replace-one"
            else individual_filter
        )
        whole = rule(
            n=n,
            mu=self.mu,
            scope=scope,
            labels_from_data=labels_from_data,
            seeded=seeded,
        )
        return gaussian_to_approx(whole, delta=delta)


class Rounds:
    """Releases noisy sums over the units that can still pay for them.

    Parameters
    ----------
    budget : RoundBudget
        What each unit may spend.
    account : UnitFilter
        What each unit has spent.
    source : RandomSource
        Where noise comes from.
    """

    def __init__(
        self, budget: RoundBudget, account: UnitFilter, source: RandomSource
    ) -> None:
        self.budget = budget
        self.account = account
        self.source = source

    def admit(
        self,
        units: NDArray[np.int64] | slice,
        squares: NDArray[np.float64],
        scale: float,
        *,
        acute: bool,
    ) -> NDArray[np.bool_]:
        """Charge units for contributions of these squared norms; return who can pay."""
        price = self.account.price(scale, self.budget.weight(acute))
        return self.account.admit(units, squares, price)

    def noisy(self, sums: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Add noise to sums of what the admitted units contribute."""
        return draw_rounded_gaussian(sums, scale, self.source)
