"""Adaptive queries under one budget (P8)."""

from __future__ import annotations

import secrets
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._sklearn import MatrixLike, safe_indexing
from reticent.errors import BudgetExhaustedError
from reticent.guarantees import (
    Budget,
    Certificate,
    answers_within,
    repeat,
)
from reticent.ledger import (
    AccountId,
    AccountScope,
    Cap,
    Charge,
    Ledger,
    MemoryLedger,
    Outcome,
    Request,
)
from reticent.prediction.law import law_of
from reticent.prediction.queries import canonical_rows


class PredictionInterface:
    r"""Answer queries of any number of clients under one total budget.

    Parameters
    ----------
    predictor : fitted predictor of `reticent.prediction`
        Its law is taken as it is now: a later `set_params` or fit changes neither
        what this interface draws nor what it charges.
    budget : Budget
        The most that all answers to all clients together may cost. Clients may pool
        what they learn, so this is the promise that counts.
    ledger : Ledger, default=None
        Where spending is recorded; None keeps it in memory.
    client_budget : Budget, default=None
        The most that one client may see. None bounds clients by `budget` alone.
    name : str, default="model"
        Names the accounts in the ledger. Two predictors on the same data must share
        the dataset's budget: give both the same `dataset`.
    dataset : str, default="data"
        Names the dataset's account.

    Attributes
    ----------
    capacity : int
        How many different queries the budget covers in all.

    Guarantee
    ---------
    All answers together satisfy `budget`, for every client and for all of them
    jointly, however the queries are chosen. A query that was asked before is answered
    from memory with the same bytes: free for a client who has paid for it, charged to
    a client who sees it first. Refusal depends on counts alone, never on the data.
    *Proof.* Each answer has fresh randomness, so the answers are an adaptive
    composition of equal steps (G22), and `capacity` is the largest number of steps
    whose total is within the budget, fixed in advance.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from reticent import Budget
    >>> from reticent.prediction import PredictionInterface, PrivateVotingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    >>> model = PrivateVotingClassifier(pipeline, epsilon=0.5, classes=[0, 1])
    >>> interface = PredictionInterface(model.fit(X, y), Budget(epsilon=2.0))
    >>> interface.capacity
    4
    >>> len(interface.predict(X[:3], client="ward 7"))
    3
    >>> print(interface.spent().headline())
    1.5-DP for 3 answers, replace one unit of 569; proved
    """

    def __init__(
        self,
        predictor: Any,
        budget: Budget,
        ledger: Ledger | None = None,
        *,
        client_budget: Budget | None = None,
        name: str = "model",
        dataset: str = "data",
    ) -> None:
        # Bound here: what is drawn and what is charged stay one law, whatever happens
        # to the predictor.
        self.law = law_of(predictor)
        certificate = self.law.certificate
        self.predictor = predictor
        self.budget = budget
        self.client_budget = client_budget
        self.ledger = MemoryLedger() if ledger is None else ledger
        self.certificate = certificate
        self.charge = Charge.of(certificate)
        self.capacity = _capacity(certificate, budget)
        self._client_cap = (
            None if client_budget is None else _cap(certificate, client_budget)
        )
        self._dataset = AccountId(AccountScope.DATASET, dataset)
        self._memory = f"{dataset}/{name}/{certificate.id}"
        self._clients: set[str] = set()
        self._lock = threading.Lock()
        self.ledger.open_account(self._dataset, _cap(certificate, budget))

    def predict(
        self, X: MatrixLike, *, client: str = "anyone", key: str | None = None
    ) -> NDArray[Any]:
        """Return one private answer a row, or refuse them all.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            The queries.
        client : str, default="anyone"
            Who asks.
        key : str, default=None
            Idempotency key: the same key and queries again return the same answers
            and cost nothing more. None makes a fresh one.

        Raises
        ------
        BudgetExhaustedError
            If the budget does not cover every new row; nothing is spent then.
        """
        queries = canonical_rows(X)
        if not queries:
            return self._labels([])
        accounts = (self._dataset, *self._client_accounts(client))
        receipt = self.ledger.charge(
            Request(
                key=secrets.token_hex(16) if key is None else key,
                accounts=accounts,
                charge=self.charge,
                queries=tuple(queries),
                memory=self._memory,
            )
        )
        if receipt.outcome is Outcome.DRAW:
            rows = np.array(receipt.draw, dtype=np.int64)
            drawn = self.law.draw(safe_indexing(X, rows))
            receipt = self.ledger.settle(receipt, _encoded(drawn))
        if receipt.outcome is Outcome.SPENT:
            raise BudgetExhaustedError(
                f"key={receipt.key!r} was charged before, but its answer was lost; it "
                "is spent and cannot be drawn again. Ask with a new key."
            )
        return self._labels([answer or b"" for answer in receipt.answers])

    def spent(self, *, client: str | None = None) -> Certificate[Any] | None:
        """Return what was spent in all, or on one client, or None if nothing."""
        times = self.ledger.balance(self._account(client)).spent.answers
        budget = self.budget
        if client is not None and self.client_budget is not None:
            budget = self.client_budget
        return _total(self.certificate, times, budget) if times else None

    def remaining(self, *, client: str | None = None) -> int:
        """Return how many new queries are left, in all or for one client."""
        left = self.ledger.balance(self._dataset).answers_left(self.charge)
        if client is None or self._client_cap is None:
            return left
        (account,) = self._client_accounts(client)
        return min(left, self.ledger.balance(account).answers_left(self.charge))

    def _account(self, client: str | None) -> AccountId:
        if client is None:
            return self._dataset
        (account,) = self._client_accounts(client)
        return account

    def _client_accounts(self, client: str) -> tuple[AccountId, ...]:
        """Open the client's account when it is first heard of."""
        account = AccountId(AccountScope.CLIENT, client)
        with self._lock:
            if client not in self._clients:
                cap = self._client_cap or _cap(self.certificate, self.budget)
                self.ledger.open_account(account, cap)
                self._clients.add(client)
        return (account,)

    def _labels(self, answers: list[bytes]) -> NDArray[Any]:
        texts = [answer.decode() for answer in answers]
        classes = self.law.classes
        if classes is None:
            return np.array([float(text) for text in texts])
        names: dict[str, int] = {str(label): i for i, label in enumerate(classes)}
        indices = np.array([names[text] for text in texts], dtype=np.int64)
        return np.asarray(classes)[indices]


def _encoded(answers: NDArray[Any]) -> list[bytes]:
    if answers.dtype.kind == "f":
        return [repr(float(answer)).encode() for answer in answers]
    return [str(answer).encode() for answer in answers]


def _total(
    certificate: Certificate[Any], times: int, budget: Budget
) -> Certificate[Any]:
    """Compose `times` equal answers by the best closed form within a budget."""
    return repeat(
        certificate, times, delta=budget.delta, methods=("basic", "exact", "zcdp")
    )


def _capacity(certificate: Certificate[Any], budget: Budget) -> int:
    capacity = answers_within(certificate, budget)
    if capacity < 1:
        raise BudgetExhaustedError(
            f"one answer costs {certificate.guarantee}; the budget of {budget} covers "
            "none. Raise the budget or fit with a smaller epsilon."
        )
    return capacity


def _cap(certificate: Certificate[Any], budget: Budget) -> Cap:
    total = _total(certificate, _capacity(certificate, budget), budget)
    return Cap.count(total)
