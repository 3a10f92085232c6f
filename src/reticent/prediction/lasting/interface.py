"""An interface for lasting predictors: one price for any number of answers (P10)."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from reticent._sklearn import MatrixLike
from reticent.errors import BudgetExhaustedError, InvalidParameterError
from reticent.guarantees import ApproxDP, Budget, Certificate
from reticent.ledger import AccountId, AccountScope, Charge, Ledger
from reticent.prediction.budgets import ledger_for, open_shared, remember_certificate
from reticent.prediction.lasting.answers import LastingAnswers, LastingReply
from reticent.prediction.lasting.histories import check_no_log, refuse_copies
from reticent.prediction.lasting.law import LastingLaw
from reticent.prediction.lasting.snapshots import SnapshotFile
from reticent.prediction.lasting.totals import (
    another_paid,
    charge_total,
    check_budget,
    counting,
    total_charges,
    total_key,
    total_payer,
)
from reticent.prediction.law import AnswerLaw, law_of

#: The capacity of an interface that never refuses.
UNLIMITED = math.inf


class LastingInterface:
    """Answer any number of queries of any number of clients under one total.

    Parameters
    ----------
    predictor : fitted PrivateNeighborsClassifier or PrivateNeighborsRegressor
        Its law is taken as it is now, whatever happens to the predictor later.
    ledger : Ledger, default=None
        Where the total is charged, and where every question is recorded before it is
        answered. Give one that lasts as long as the model is used, `SQLLedger`. None
        takes the one ledger in memory that this process keeps for the fitted model.
    budget : Budget, default=None
        Budget of the dataset's account: the one that it has, if it is open. It must
        cover the model's total. None takes the total if the account is new, and any
        budget of an account that has paid.
    dataset : str, default=None
        Whose account is charged the total, once. None takes the one that has paid, or
        "data" if nobody has.
    snapshots : SnapshotFile or None, default=None
        Where snapshots are kept, for quick restarts.

    Attributes
    ----------
    certificate : Certificate
        What all answers together promise.

    Guarantee
    ---------
    All answers together satisfy `certificate`, for every client and for all of them
    jointly, whatever is asked, however often, in however many processes on one ledger.
    Nobody is refused. A question that was asked before is answered from memory, with
    the same answer and evidence. See `LastingAnswers` for the proof. The ledger holds
    questions and answers, so it is as confidential as what clients ask.
    """

    def __init__(
        self,
        predictor: Any,
        ledger: Ledger | None = None,
        *,
        budget: Budget | None = None,
        dataset: str | None = None,
        snapshots: SnapshotFile | None = None,
    ) -> None:
        self.law: AnswerLaw = law_of(predictor)
        if not isinstance(self.law, LastingLaw):
            raise InvalidParameterError(
                f"answers of {type(predictor).__name__}(...) are paid for one by one; "
                "use PredictionInterface. LastingInterface takes a fitted "
                "PrivateNeighborsClassifier or PrivateNeighborsRegressor."
            )
        self._encode = self.law.encode
        self.predictor = predictor
        self.certificate: Certificate[Any] = self.law.certificate
        self.charge = Charge.of(self.certificate)
        self.budget = self._checked(budget)
        identity = self.law.identity
        if ledger is None:
            refuse_copies(identity)
        account = AccountId(
            AccountScope.DATASET, "data" if dataset is None else dataset
        )
        self.ledger = ledger_for(identity, account.name) if ledger is None else ledger
        if self.ledger.charged(total_key(identity)):
            self._check_paid(account, budget, any_account=dataset is None)
        else:
            check_no_log(identity)
            self._open(account)
            charge_total(self.ledger, account, identity, self.charge)
        remember_certificate(self.certificate)
        self._answers = LastingAnswers(
            self.law, self.ledger, paid=total_key(identity), snapshots=snapshots
        )

    def _checked(self, budget: Budget | None) -> Budget:
        """Return the budget, the total if there is none; refuse one that is too small.

        The interface prints it as what its answers cost at most, also where the total
        was charged before.
        """
        total = _total(self.certificate)
        if budget is None:
            return total
        if not (total.epsilon <= budget.epsilon and total.delta <= budget.delta):
            raise BudgetExhaustedError(
                f"a budget of {budget} does not cover this model, which promises "
                f"{total}. Give at least that, or fit the model with a smaller "
                "epsilon and delta."
            )
        return budget

    def _open(self, account: AccountId) -> None:
        """Open the dataset's account under the budget, unless it is open."""
        try:
            open_shared(self.ledger, account, self.budget, self.charge)
        except BudgetExhaustedError:
            # The total is the whole budget, to the last unit to which it is rounded.
            self.ledger.open_account(account, counting(self.charge))

    def _check_paid(
        self, account: AccountId, budget: Budget | None, *, any_account: bool
    ) -> None:
        """Check that a total that is charged was charged to what was asked for."""
        if any_account and budget is None:
            return
        forms = [self.charge, *total_charges(self.certificate)]
        payer = total_payer(self.ledger, account, self.law.identity, forms)
        if payer != account and not any_account:
            raise another_paid(account)
        if budget is not None:
            check_budget(self.ledger, payer, budget, self.charge)

    @property
    def capacity(self) -> float:
        """How many different queries may be asked in total: infinitely many."""
        return UNLIMITED

    def remaining(self, *, client: str | None = None) -> float:
        """Return how many new queries are left: infinitely many."""
        return UNLIMITED

    def spent(self, *, client: str | None = None) -> Certificate[Any]:
        """Return what all answers together promise: the total is paid in advance.

        All clients share it, so it is also what any one of them has seen.
        """
        return self.certificate

    def predict(
        self, X: MatrixLike, *, client: str = "anyone", key: str | None = None
    ) -> NDArray[Any]:
        """Return one private answer per row.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            The queries.
        client : str, default="anyone"
            Who asks. It matters only if the model gives clients shares.
        key : str, default=None
            As for `PredictionInterface`. The same rows again get the same answers, so
            it changes nothing.
        """
        return self.ask(X, client=client).answers

    def ask(self, X: MatrixLike, *, client: str = "anyone") -> LastingReply:
        """Return one private answer per row, with the evidence behind each.

        Parameters
        ----------
        X, client
            As for `predict`.
        """
        return self._answers.ask(self._encode(X), client)

    def close(self) -> None:
        """Write a snapshot, so that the next start is quick; the ledger stays open."""
        self._answers.close()


def _total(certificate: Certificate[Any]) -> Budget:
    loss = certificate.guarantee
    delta = loss.delta if isinstance(loss, ApproxDP) else 0.0
    return Budget(loss.epsilon, delta)
