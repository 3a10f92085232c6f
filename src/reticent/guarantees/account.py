"""A running account: a privacy filter whose charges cost microseconds."""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import Any, Literal

from reticent.errors import BudgetExhaustedError, InvalidParameterError, RuleError
from reticent.guarantees.budget import Budget
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.compose import (
    basic_composition,
    step_rho,
    zcdp_composition,
)
from reticent.guarantees.convert import epsilon_delta, rho_within
from reticent.guarantees.numbers import exact, whole
from reticent.guarantees.types import ZCDP, ApproxDP

# Losses are whole numbers of these units, rounded up, so that a million additions
# are exact and no rounding can lower a total.
LOSS_UNITS = 10**15
SLACK_UNITS = 10**30


def _units(value: Fraction, scale: int) -> int:
    return -((-value.numerator * scale) // value.denominator)


class Account:
    """Spend a budget step by step, choosing each step after seeing earlier answers.

    Parameters
    ----------
    budget : Budget
        The most that all steps together may cost.
    method : {"basic", "zcdp", "auto"}, default="auto"
        How losses are added. Both hold for parameters chosen adaptively, but one has
        to be chosen in advance: taking the better of the two afterwards is not
        covered. "auto" is "zcdp" when the budget has a delta, else "basic".

    Guarantee
    ---------
    Whatever is charged, and however the choice of the next step depends on earlier
    answers, all answers together satisfy the budget. A refused step is not charged,
    and refusal depends on the charges alone.

    Examples
    --------
    >>> from reticent.guarantees import PureDP, ReplaceOne, Scope, claim
    >>> step = claim(PureDP(0.1), ReplaceOne(100), Scope.ANSWER, statement="example")
    >>> account = Account(Budget(1.0))
    >>> for _ in range(10):
    ...     account.charge(step)
    >>> account.affords(step)
    0
    >>> print(account.spent().guarantee)
    1-DP
    """

    def __init__(
        self, budget: Budget, *, method: Literal["basic", "zcdp", "auto"] = "auto"
    ) -> None:
        if method not in ("basic", "zcdp", "auto"):
            raise InvalidParameterError(
                f"method must be 'basic', 'zcdp' or 'auto'; got method={method!r}."
            )
        if method == "auto":
            method = "zcdp" if budget.delta > 0 else "basic"
        if method == "zcdp" and not budget.delta > 0:
            raise InvalidParameterError(
                f"method='zcdp' needs a budget with delta > 0; got {budget}."
            )
        self.budget = budget
        self.method = method
        # zCDP needs part of delta for its conversion; the rest is for steps' own.
        self._conversion = budget.delta / 2 if method == "zcdp" else 0.0
        loss_cap = (
            rho_within(budget.epsilon, self._conversion)
            if method == "zcdp"
            else budget.epsilon
        )
        self._loss_cap = int(exact(loss_cap) * LOSS_UNITS)
        self._slack_cap = int(
            (exact(budget.delta) - exact(self._conversion)) * SLACK_UNITS
        )
        self._loss = 0
        self._slack = 0
        self._counts: dict[Certificate[Any], int] = {}
        self._current: Certificate[Any] | None = None
        self._run = 0
        self._step_loss = 0
        self._step_slack = 0
        self._relation: Any = None
        self._lock = threading.Lock()

    def charge(self, certificate: Certificate[Any], times: int = 1) -> None:
        """Spend `certificate` `times` times, or raise and spend nothing.

        Raises
        ------
        BudgetExhaustedError
            If the budget does not cover it.
        """
        with self._lock:
            if certificate is not self._current:
                self._turn_to(certificate)
            if times != 1:
                times = whole("charge", "times", times)
            loss = self._loss + self._step_loss * times
            slack = self._slack + self._step_slack * times
            if loss > self._loss_cap or slack > self._slack_cap:
                raise BudgetExhaustedError(
                    f"{times} x {certificate.guarantee} does not fit: "
                    f"{self._share()} of the budget ({self.budget}) is spent. Ask for "
                    f"at most {self._affords()} more, or raise the budget."
                )
            self._loss = loss
            self._slack = slack
            self._run += times

    def affords(self, certificate: Certificate[Any]) -> int:
        """Return how many more steps with this certificate fit."""
        with self._lock:
            if certificate is not self._current:
                self._turn_to(certificate)
            return self._affords()

    def spent(self) -> Certificate[Any] | None:
        """Return what everything charged so far costs, or None if nothing was."""
        with self._lock:
            self._settle()
            counts = {c: k for c, k in self._counts.items() if k}
        if not counts:
            return None
        premises, numbers = tuple(counts), tuple(counts.values())
        if self.method == "basic":
            return basic_composition(*premises, counts=numbers, answers=sum(numbers))
        return zcdp_composition(
            *premises, counts=numbers, delta=self.budget.delta, answers=sum(numbers)
        )

    def _affords(self) -> int:
        most = 10**18
        if self._step_loss:
            most = (self._loss_cap - self._loss) // self._step_loss
        if self._step_slack:
            most = min(most, (self._slack_cap - self._slack) // self._step_slack)
        return most

    def _share(self) -> str:
        return f"{100 * self._loss / max(1, self._loss_cap):.3g} %"

    def _settle(self) -> None:
        """Write the current run of equal charges into the tally."""
        if self._current is not None and self._run:
            known = self._counts.get(self._current, 0)
            self._counts[self._current] = known + self._run
            self._run = 0

    def _turn_to(self, certificate: Certificate[Any]) -> None:
        """Work out what one step of another certificate costs."""
        if self._relation is not None and certificate.relation != self._relation:
            raise RuleError(
                f"this account is about '{self._relation}'; got a certificate about "
                f"'{certificate.relation}'. Keep one account a dataset."
            )
        guarantee = certificate.guarantee
        slack = guarantee.delta if isinstance(guarantee, ApproxDP) else 0.0
        if self.method == "zcdp":
            loss = exact(step_rho(guarantee))
        elif isinstance(guarantee, ZCDP):
            raise RuleError(
                f"an account with method='basic' cannot add {guarantee}; use a budget "
                "with delta > 0 and method='zcdp'."
            )
        else:
            loss = exact(epsilon_delta(guarantee)[0])
        self._settle()
        self._relation = certificate.relation
        self._step_loss = _units(loss, LOSS_UNITS)
        self._step_slack = _units(exact(slack), SLACK_UNITS)
        self._current = certificate
