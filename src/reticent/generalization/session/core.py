"""The budget of a session, its bounds, and what a failed step costs (R2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from reticent.errors import BudgetExhaustedError, SolverError
from reticent.generalization.caller_code import (
    QUIET_QUERIES,
    Failed,
    run_withholding_errors,
)
from reticent.generalization.confidence import failure_of
from reticent.generalization.guarded_rows import GuardedRows
from reticent.generalization.session.costs import SessionAccounts, SessionCost
from reticent.generalization.session.failures import (
    NO_FAILURE_BITS,
    SET_ASIDE,
    failure_bits,
)
from reticent.generalization.session.rules import assumption_texts, session_to_robust
from reticent.generalization.shared_state import SharedState, State, open_state_log
from reticent.generalization.single_process import SingleProcessObject
from reticent.guarantees import ROWWISE_QUERIES, Certificate, RobustGeneralization
from reticent.ledger import Ledger, MemoryLedger
from reticent.mechanisms import RandomSource, noise_source

T = TypeVar("T")

# Besides the promise, bounds hold for half of the budgets, a quarter, ..., so that a
# session that spent little has a smaller bound. They share a sixteenth of the failure
# probability; this is chosen, not derived: a larger part would widen the promise. A
# session that failures close has its own bound for each sequence of them. The guesses
# of one failure have SET_ASIDE of all guesses, those of two (of steps that ran at the
# same time) its square, and so on: together with no failure, 1 / (1 - SET_ASIDE).
_STAGES = 8
_STAGE_SHARE = 1 / 16 / (_STAGES - 1)
_PROMISE_SHARE = 15 / 16 * (1 - SET_ASIDE)


class SessionCore(SingleProcessObject):
    """What all steps of a session have in common."""

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        epsilon: float = 0.0,
        delta: float = 0.0,
        kept: int = 0,
        bits: float = 0.0,
        confidence: float = 0.95,
        units: ArrayLike | None = None,
        random_state: Any = None,
        ledger: Ledger | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        budget = SessionCost(epsilon=epsilon, delta=delta, kept=kept, bits=bits)
        self.budget = budget
        self._table = GuardedRows(X, y, units)
        self._units = None if units is None else np.asarray(units)
        self._failure = failure_of(confidence)
        self._source: RandomSource = noise_source(random_state)
        always = {QUIET_QUERIES} | ({ROWWISE_QUERIES} if budget.epsilon > 0 else set())
        durable = ledger is not None or name is not None
        if not durable:
            ledger, name = MemoryLedger(), "session"
        log = open_state_log(
            ledger, name, self._opening(), seeded=durable and self._source.seeded
        )
        start = {"assuming": sorted(assumption_texts(always)), "overrun": 0.0}
        self._state = SharedState(start, log)
        # A failed step whose price is not stored yet, so that nothing may follow it.
        self._owing = False
        self._accounts = SessionAccounts(ledger, name, budget)  # type: ignore[arg-type]

    @property
    def spent(self) -> SessionCost:
        """What was spent so far."""
        return self._accounts.spent

    @property
    def closed(self) -> bool:
        """Whether a failure ended the session, for everybody or for this object.

        A failure whose charge could not be stored ends it for this object alone.
        """
        return self._owing or _closed(self._state.read())

    @property
    def promise(self) -> Certificate[RobustGeneralization]:
        """The bound for the whole budget."""
        return self._bounded(self.budget, _PROMISE_SHARE, self._state.read())

    @property
    def certificate(self) -> Certificate[RobustGeneralization]:
        """The best bound that holds for what has been spent so far."""
        # Assumptions and failures are written before a step returns, so reading the
        # spend first covers everything that was returned before this call.
        spent = self.spent
        state = self._state.read()
        found = [self._bounded(self.budget, _PROMISE_SHARE, state)]
        for stage in range(1, _STAGES):
            part = self.budget.halved(stage)
            if spent.within(part) and not _closed(state):
                found.append(self._bounded(part, _STAGE_SHARE, state))
        return min(found, key=lambda each: each.guarantee.epsilon)

    @property
    def bound(self) -> float:
        """The bound on ``|h(S) - h(D)|`` for anything computed so far."""
        return self.certificate.guarantee.epsilon

    def _bounded(
        self, part: SessionCost, share: float, state: State
    ) -> Certificate[RobustGeneralization]:
        return session_to_robust(
            n=self._table.n_units,
            beta=self._failure,
            epsilon=part.epsilon,
            delta=part.delta,
            kept=part.kept,
            bits=part.bits + NO_FAILURE_BITS + state["overrun"],
            share=share,
            assuming=tuple(state["assuming"]),
        )

    def _assume(self, certificate: Certificate[Any]) -> None:
        """Record what a step assumed, before it returns."""
        texts = set(assumption_texts(certificate.assumptions))
        if not texts <= set(self._state.read()["assuming"]):
            self._state.change(
                lambda state: (
                    {**state, "assuming": sorted({*state["assuming"], *texts})},
                    None,
                )
            )

    def _pay(self, cost: SessionCost) -> int:
        """Pay for a step and return its number, or raise and pay nothing."""
        with self._exclusively():
            if self.closed:
                raise BudgetExhaustedError(
                    "the session is closed: a step failed on the data and the bits did "
                    "not cover that, or could not be charged. What was returned before "
                    "keeps its bound."
                )
            return self._accounts.pay(cost)

    def _paid(self, cost: SessionCost, compute: Callable[[], T]) -> T:
        """Pay, then run something on the data; a failure is an answer and is charged.

        The price of a failure depends on the number of the step, which is the count of
        payments.
        """
        with self._exclusively():
            step = self._pay(cost)
            found = run_withholding_errors(compute)
            if isinstance(found, Failed):
                raise self._failed(step)
            # A ledger that is gone says so in both cases, and so of neither.
            _ = self.spent, self._state.read()
            return found

    def _failed(self, step: int) -> SolverError:
        """Charge for a failure, or close the session for everybody."""
        self._owing = True
        bits = failure_bits(step)
        try:
            self._accounts.pay(SessionCost(bits=bits))
            closed = ""
        except BudgetExhaustedError:
            closed = "; the session is closed"
            self._state.change(
                lambda state: ({**state, "overrun": state["overrun"] + bits}, None)
            )
        self._owing = False
        return SolverError(
            f"the step failed on the data. Its message is withheld, because it may "
            f"describe a record, and {bits:.3g} bits were charged{closed}. Try steps "
            "on other data first."
        )

    def _opening(self) -> dict[str, Any]:
        return {
            "kind": "session",
            "format": 2,
            "data": self._table.fingerprint(),
            "budget": [
                self.budget.epsilon,
                self.budget.delta,
                self.budget.kept,
                self.budget.bits,
            ],
            "failure": self._failure,
        }


def _closed(state: State) -> bool:
    """Return whether a failure that the bits did not cover ended the session."""
    return bool(state["overrun"] > 0)
