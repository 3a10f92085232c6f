"""The cost of a session's steps, and the accounts that pay for them."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, fields
from typing import Any

from reticent._numbers import below_one, nonnegative, whole
from reticent._text import checked_name
from reticent.errors import BudgetExhaustedError
from reticent.generalization.compression.rules import log_choose
from reticent.ledger import (
    DELTA_UNITS,
    EPSILON_UNITS,
    AccountId,
    AccountScope,
    Cap,
    Charge,
    Ledger,
    Request,
)

_EXACT_SUMS = 1000


@dataclass(frozen=True, kw_only=True)
class SessionCost:
    """What was, or may be, spent in a session."""

    #: Privacy loss of private steps.
    epsilon: float = 0.0
    delta: float = 0.0
    kept: int = 0  #: kept examples of compression steps
    bits: float = 0.0  #: bits of few-bit answers, side information and failures

    def __post_init__(self) -> None:
        checks: dict[str, Any] = {"epsilon": nonnegative, "bits": nonnegative}
        for name, check in {**checks, "delta": below_one}.items():
            object.__setattr__(
                self, name, check("a session", name, getattr(self, name))
            )
        kept = whole("a session", "kept", self.kept, least=0)
        object.__setattr__(self, "kept", kept)

    def within(self, other: SessionCost) -> bool:
        """Return whether no part exceeds that of `other`."""
        return all(
            getattr(self, part.name) <= getattr(other, part.name)
            for part in fields(self)
        )

    def halved(self, times: int) -> SessionCost:
        """Return this divided by ``2**times``, rounded down."""
        share = 2.0**-times
        return SessionCost(
            epsilon=self.epsilon * share,
            delta=self.delta * share,
            kept=self.kept >> times,
            bits=self.bits * share,
        )

    def __str__(self) -> str:
        parts = [f"epsilon {self.epsilon:.6g}", f"{self.kept} kept examples"]
        if self.delta > 0:
            parts.insert(1, f"delta {self.delta:.3g}")
        return ", ".join([*parts, f"{self.bits:.6g} bits"])


def subset_bits(n: int, rows: int, most: int) -> float:
    """Return the bits that a set of 1 to `most` rows costs beyond ``n**most``.

    R2 pays `ln n` for each kept example. A guess among all these sets of `rows` rows
    is right with probability one in their number, which is at most ``n**most`` unless
    units have several rows. So the number of kept examples may depend on the data.
    """
    if most <= _EXACT_SUMS:
        log_sets = math.log(sum(math.comb(rows, size + 1) for size in range(most)))
    else:
        log_sets = log_choose(rows, min(most, rows // 2)) + math.log(most + 1)
    extra = (log_sets - most * math.log(n)) / math.log(2)
    return extra + 1e-9 if extra > 1e-9 else 0.0


class SessionAccounts:
    """The budgets of a session, as accounts of a ledger that counts them as epsilons.

    Every step is charged to the account of bits, possibly for 0 bits, so that this
    account counts the steps. The ledger holds each account to its budget, however many
    handles pay at once. A step that costs several kinds pays one after the other, bits
    last; if it is interrupted in between, budget is spent for nothing, but no budget is
    exceeded.

    Parameters
    ----------
    ledger : Ledger
        Where the accounts are.
    name : str
        Name of the session.
    budget : SessionCost
        What may be spent.
    """

    def __init__(self, ledger: Ledger, name: str, budget: SessionCost) -> None:
        self._ledger = ledger
        self._name = checked_name(f"name={name!r}", name, longest=80)
        self.budget = budget
        caps = {
            "epsilon": Cap.basic(
                epsilon=budget.epsilon, delta=budget.delta, relation="private-steps"
            ),
            "kept": Cap.basic(epsilon=float(budget.kept), relation="kept-examples"),
            "bits": Cap.basic(epsilon=budget.bits, relation="bits"),
        }
        self._relations = {kind: cap.relation for kind, cap in caps.items()}
        for kind, cap in caps.items():
            ledger.open_account(self._account(kind), cap)

    @property
    def spent(self) -> SessionCost:
        """What was paid so far."""
        loss, kept, bits = (
            self._ledger.balance(self._account(kind)).spent
            for kind in ("epsilon", "kept", "bits")
        )
        return SessionCost(
            # A kept example, and a bit, count as an epsilon of one.
            epsilon=loss.epsilon / EPSILON_UNITS,
            delta=loss.delta / DELTA_UNITS,
            kept=kept.epsilon // EPSILON_UNITS,
            bits=bits.epsilon / EPSILON_UNITS,
        )

    def pay(self, cost: SessionCost) -> int:
        """Pay for one step, or raise; return the step's number, from 1."""
        self._check(cost)
        if cost.epsilon > 0 or cost.delta > 0:
            self._charge("epsilon", cost.epsilon, cost.delta)
        if cost.kept > 0:
            self._charge("kept", float(cost.kept))
        return self._charge("bits", cost.bits)

    def _check(self, cost: SessionCost) -> None:
        amounts = {"epsilon": cost.epsilon, "kept": cost.kept, "bits": cost.bits}
        for kind, amount in amounts.items():
            delta = cost.delta if kind == "epsilon" else 0.0
            charge = self._loss(kind, float(amount), delta)
            balance = self._ledger.balance(self._account(kind))
            if (
                not balance.cap.cost(charge, 1)
                .plus(balance.spent)
                .within(balance.cap.limits)
            ):
                raise BudgetExhaustedError(
                    f"the step costs {cost}; the session has spent {self.spent} of "
                    f"{self.budget}. A larger step would break the promised bound."
                )

    def _charge(self, kind: str, amount: float, delta: float = 0.0) -> int:
        """Charge an account; return how often it has been charged with this."""
        request = Request(
            key=f"{self._name}/{kind}/{secrets.token_hex(16)}",
            accounts=(self._account(kind),),
            charge=self._loss(kind, amount, delta),
            queries=(b"step",),
        )
        (balance,) = self._ledger.post(request, [b"paid"]).remaining
        return balance.spent.answers

    def _loss(self, kind: str, amount: float, delta: float) -> Charge:
        return Charge.loss(
            epsilon=amount,
            delta=delta,
            certificate="session-step",
            relation=self._relations[kind],
        )

    def _account(self, kind: str) -> AccountId:
        return AccountId(AccountScope.DATASET, f"{self._name} {kind}")
