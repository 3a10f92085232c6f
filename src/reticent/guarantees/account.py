"""A running account: a privacy filter whose charges cost microseconds."""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import Any, Literal

from reticent._numbers import below_one, ceil_float, exact, whole
from reticent.errors import (
    BudgetExhaustedError,
    InvalidParameterError,
    RelationMismatchError,
    RuleError,
)
from reticent.guarantees.budget import Budget
from reticent.guarantees.certificate import Certificate
from reticent.guarantees.concentrated import rho_within, step_rho
from reticent.guarantees.convert import NEIGHBOURS, epsilon_delta
from reticent.guarantees.totals import Filter, spent_total
from reticent.guarantees.types import ZCDP, ApproxDP

# Losses are whole numbers of these units, rounded up, so that a million additions
# are exact and no rounding can lower a total.
LOSS_UNITS = 10**24
SLACK_UNITS = 10**30

# Certificates whose price is remembered; beyond, their counts are merged by value.
_REMEMBERED = 256


def _units(value: Fraction, scale: int) -> int:
    return -((-value.numerator * scale) // value.denominator)


class _Price:
    """What one step of a certificate costs, and how many were charged.

    Of the `granted` steps that fit when the account turned to this certificate, so
    many are `left`; `count` is what was charged before.
    """

    __slots__ = ("certificate", "count", "granted", "left", "loss", "slack")

    def __init__(self, certificate: Any, loss: int, slack: int) -> None:
        self.certificate = certificate
        self.loss = loss
        self.slack = slack
        self.count = self.granted = self.left = 0


class Account:
    """Spend a budget step by step, choosing each step after seeing earlier answers.

    Parameters
    ----------
    budget : Budget
        The most that all steps together may cost.
    method : {"basic", "zcdp", "auto"}, default="auto"
        How losses are added; both hold for parameters chosen adaptively. "auto" is
        "zcdp" when the budget has a delta, else "basic". The accounts of a ledger
        count both ways at once, see `reticent.guarantees.totals`.
    reserve : float or None, default=None
        Share of the budget's delta that "zcdp" keeps for steps with a delta of their
        own; the rest pays for the conversion. It is settled before the first answer:
        None takes half if the first step charged has a delta, nothing otherwise.

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
        self,
        budget: Budget,
        *,
        method: Literal["basic", "zcdp", "auto"] = "auto",
        reserve: float | None = None,
    ) -> None:
        if not isinstance(budget, Budget):
            raise InvalidParameterError(
                f"an account needs a Budget; got {type(budget).__name__}."
            )
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
        self._reserve = (
            None if reserve is None else below_one("Account", "reserve", reserve)
        )
        self._caps: dict[float, tuple[int, int]] = {}
        self._loss_cap, self._slack_cap = self._caps_at(self._reserve or 0.0)
        self._loss = 0
        self._slack = 0
        self._prices: dict[int, _Price] = {}
        self._counts: dict[Certificate[Any], int] = {}
        self._current = _Price(None, 0, 0)
        self._relation: Any = None
        self._started = False
        self._lock = threading.Lock()

    def charge(self, certificate: Certificate[Any], times: int = 1) -> None:
        """Spend `certificate` `times` times, or raise and spend nothing.

        Raises
        ------
        BudgetExhaustedError
            If the budget does not cover it.
        """
        with self._lock:
            price = self._current
            if price.certificate is not certificate:
                price = self._turn_to(certificate)
            if times.__class__ is not int or times < 1:
                times = whole("charge", "times", times)
            if times > price.left:
                raise BudgetExhaustedError(
                    f"{times} x {certificate.guarantee} does not fit: "
                    f"{self._share()} of the budget ({self.budget}) is spent. Ask for "
                    f"at most {price.left} more, or raise the budget."
                )
            price.left -= times  # all that a charge costs, however many came before

    def affords(self, certificate: Certificate[Any]) -> int:
        """Return how many more steps with this certificate fit."""
        with self._lock:
            return self._turn_to(certificate).left

    def spent(self) -> Certificate[Any] | None:
        """Return what everything charged so far costs, or None if nothing was.

        It is true although you choose the moment by looking at answers: the sum of
        epsilons, or the budget itself; see `reticent.guarantees.totals`.
        """
        with self._lock:
            self._settle()
            counts = dict(self._counts)
            slack = ceil_float(Fraction(self._slack_cap, SLACK_UNITS))
        if not counts:
            return None
        cap = Filter(self.budget.epsilon, self.budget.delta, slack)
        return spent_total(counts, cap)

    def _caps_at(self, reserve: float) -> tuple[int, int]:
        """Return how many units of loss and of slack the budget holds."""
        if reserve not in self._caps:
            loss, slack = exact(self.budget.epsilon), exact(self.budget.delta)
            if self.method == "zcdp":
                conversion = self.budget.delta * (1 - reserve)
                # A hair below, so that `spent` stays within the budget although its
                # own conversion rounds up.
                loss = exact(rho_within(self.budget.epsilon, conversion) * (1 - 1e-12))
                slack -= exact(conversion)
            self._caps[reserve] = (
                int(loss * LOSS_UNITS),
                max(0, int(slack * SLACK_UNITS)),
            )
        return self._caps[reserve]

    def _affords(self, price: _Price) -> int:
        most = 10**18
        if price.loss:
            most = (self._loss_cap - self._loss) // price.loss
        if price.slack:
            most = min(most, (self._slack_cap - self._slack) // price.slack)
        return most

    def _share(self) -> str:
        self._bank()
        spent = max(
            self._loss / max(1, self._loss_cap), self._slack / max(1, self._slack_cap)
        )
        return f"{100 * spent:.3g} %"

    def _bank(self) -> None:
        """Add up what was charged since the account turned to its certificate."""
        price = self._current
        used = price.granted - price.left
        if used:
            self._loss += used * price.loss
            self._slack += used * price.slack
            self._started = True
            price.count += used
            price.granted = price.left

    def _settle(self) -> None:
        """Write the counts into the tally, where equal certificates are one."""
        self._bank()
        for price in self._prices.values():
            if price.count:
                known = self._counts.get(price.certificate, 0)
                self._counts[price.certificate] = known + price.count
                price.count = 0

    def _turn_to(self, certificate: Certificate[Any]) -> _Price:
        """Return the price of a certificate, worked out if it is new."""
        self._bank()
        price = self._prices.get(id(certificate))
        if price is None or not self._started:
            price = self._priced(certificate)
        price.granted = price.left = self._affords(price)
        self._current = price
        return price

    def _priced(self, certificate: Certificate[Any]) -> _Price:
        if not isinstance(certificate, Certificate):
            raise RuleError(
                f"an account takes certificates; got {type(certificate).__name__}."
            )
        if not isinstance(certificate.relation, NEIGHBOURS) or (
            self._started and certificate.relation != self._relation
        ):
            raise RelationMismatchError(
                f"this account is about '{self._relation or 'neighbours'}'; got a "
                f"certificate about '{certificate.relation}'. Keep one account a "
                "dataset."
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
        if not self._started and self._reserve is None and self.method == "zcdp":
            self._loss_cap, self._slack_cap = self._caps_at(0.5 if slack > 0 else 0.0)
        if len(self._prices) >= _REMEMBERED:
            self._settle()
            self._prices.clear()
        self._relation = certificate.relation
        price = _Price(
            certificate, _units(loss, LOSS_UNITS), _units(exact(slack), SLACK_UNITS)
        )
        self._prices[id(certificate)] = price
        return price
