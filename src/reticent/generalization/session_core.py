"""The budget of a session, its bounds, and what a failed step costs (R2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from reticent.errors import BudgetExhaustedError, SolverError
from reticent.generalization.confidence import failure_of
from reticent.generalization.costs import Purse, SessionCost
from reticent.generalization.failures import NO_FAILURE_BITS, SET_ASIDE, failure_bits
from reticent.generalization.notebook import Notebook, open_notebook
from reticent.generalization.session_rules import assumption_texts, session_to_robust
from reticent.generalization.single import SingleState
from reticent.generalization.tables import Table
from reticent.guarantees import Certificate, RobustGeneralization
from reticent.ledger import Ledger, MemoryLedger
from reticent.mechanisms import RandomSource, noise_source

T = TypeVar("T")

# Bounds for half of the budgets, a quarter, ... hold beside the promise, so that a
# session which spent little can say so. They share a sixteenth of the failure
# probability; a session that a failure closes has its own bound, with SET_ASIDE of
# the promise's share. Chosen, not derived: a larger part would widen the promise.
_STAGES = 8
_STAGE_SHARE = 1 / 16 / (_STAGES - 1)
_PROMISE_SHARE = 15 / 16 / (1 + SET_ASIDE)


class SessionCore(SingleState):
    """What all steps of a session have in common."""

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        budget: SessionCost,
        confidence: float,
        units: ArrayLike | None,
        random_state: Any,
        ledger: Ledger | None,
        name: str | None,
    ) -> None:
        super().__init__()
        self.budget = budget
        self._table = Table(X, y, units)
        self._units = None if units is None else np.asarray(units)
        self._failure = failure_of(confidence)
        self._source: RandomSource = noise_source(random_state)
        self._assuming: set[str] = set()
        self._overrun = 0.0
        durable = ledger is not None or name is not None
        if not durable:
            ledger, name = MemoryLedger(), "session"
        self._notes: Notebook = open_notebook(
            ledger, name, self._opening(), seeded=durable and self._source.seeded
        )
        self._purse = Purse(ledger, name, budget)  # type: ignore[arg-type]
        for note in self._notes.read():
            self._assuming |= set(note.get("assuming", ()))
            self._overrun = max(self._overrun, note.get("overrun", 0.0))

    @property
    def spent(self) -> SessionCost:
        """What was spent so far."""
        return self._purse.spent

    @property
    def closed(self) -> bool:
        """Whether a failure ended the session."""
        return self._overrun > 0

    @property
    def promise(self) -> Certificate[RobustGeneralization]:
        """The bound for the whole budget."""
        return self._bounded(self.budget, _PROMISE_SHARE)

    @property
    def certificate(self) -> Certificate[RobustGeneralization]:
        """The best bound that holds for what has been spent so far."""
        spent = self.spent
        found = [self.promise]
        for stage in range(1, _STAGES):
            part = self.budget.halved(stage)
            if spent.within(part) and not self.closed:
                found.append(self._bounded(part, _STAGE_SHARE))
        return min(found, key=lambda each: each.guarantee.epsilon)

    @property
    def bound(self) -> float:
        """The bound on ``|h(S) - h(D)|`` for anything computed so far."""
        return self.certificate.guarantee.epsilon

    def _bounded(
        self, part: SessionCost, share: float
    ) -> Certificate[RobustGeneralization]:
        return session_to_robust(
            n=self._table.n_units,
            beta=self._failure,
            epsilon=part.epsilon,
            delta=part.delta,
            kept=part.kept,
            bits=part.bits + NO_FAILURE_BITS + self._overrun,
            share=share,
            assuming=tuple(sorted(self._assuming)),
        )

    def _assume(self, certificate: Certificate[Any]) -> None:
        texts = set(assumption_texts(certificate.assumptions)) - self._assuming
        if texts:
            self._notes.append({"assuming": sorted(texts)})
            self._assuming |= texts

    def _pay(self, cost: SessionCost) -> None:
        if self.closed:
            raise BudgetExhaustedError(
                "the session is closed: a step failed on the data and the bits did not "
                "cover that. What was returned before keeps its bound."
            )
        with self._alone():
            self._purse.pay(cost)

    def _paid(self, cost: SessionCost, compute: Callable[[], T]) -> T:
        """Pay, then run something on the data; a failure is an answer that costs.

        Each run has its own number, the count of payments, on which the price of a
        failure depends.
        """
        with self._alone():
            self._pay(cost)
            try:
                return compute()
            except Exception:  # noqa: BLE001 - any failure may tell about a record
                self._fail()

    def _fail(self) -> NoReturn:
        bits = failure_bits(self._purse.steps)
        if self._purse.affords(SessionCost(bits=bits)):
            self._purse.pay(SessionCost(bits=bits))
        else:
            self._notes.append({"overrun": bits})
            self._overrun = bits
        raise SolverError(
            f"the step failed on the data. What it said is withheld, because it may "
            f"describe a record, and {bits:.3g} bits were charged"
            f"{'; the session is closed' if self.closed else ''}. Try steps on other "
            "data first."
        ) from None

    def _opening(self) -> dict[str, Any]:
        return {
            "kind": "session",
            "data": self._table.fingerprint(),
            "budget": [
                self.budget.epsilon,
                self.budget.delta,
                self.budget.kept,
                self.budget.bits,
            ],
            "failure": self._failure,
        }
