"""Adaptive queries under one budget (P8)."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import threading
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._html import box, paragraph, table
from reticent._sklearn import MatrixLike, safe_indexing
from reticent.errors import AccountOpenError, InvalidParameterError
from reticent.guarantees import Budget, Certificate, guess_in_words
from reticent.ledger import (
    AccountId,
    AccountScope,
    Charge,
    Ledger,
    Request,
)
from reticent.prediction.answering import answer
from reticent.prediction.budgets import (
    ChargesByCertificate,
    cap_for,
    check_process,
    ledger_for,
    open_shared,
    remember_certificate,
    total_of,
)
from reticent.prediction.lasting.interface import LastingInterface
from reticent.prediction.lasting.law import LastingLaw
from reticent.prediction.law import law_of, no_probabilities
from reticent.prediction.queries import canonical_rows


class PredictionInterface:
    r"""Answer queries of any number of clients under one total budget.

    Parameters
    ----------
    predictor : fitted predictor of `reticent.prediction`
        Its law is taken as it is now: a later `set_params` or fit changes neither
        what this interface draws nor what it charges. A predictor whose answers last
        (`PrivateNeighborsClassifier`) is charged once, for any number of answers: see
        `LastingInterface`.
    budget : Budget
        The most that everything charged to the dataset's account may cost together,
        whatever models and clients it is for. Clients may pool what they learn, so
        this is the promise that counts.
    ledger : Ledger, default=None
        Where spending is recorded. None takes the one ledger in memory that this
        process keeps for this fitted model and dataset: a second interface on the same
        model shares it, so that the budget is not spent twice; a process that was
        forked later is refused. It knows nothing of *other* models on the same data,
        nor of other processes: a model that is fitted again has a budget of its own,
        with a `SeparateBudgetsWarning`. Give all of them one ledger.
    client_budget : Budget, default=None
        The most that one client may see. None bounds clients by `budget` alone.
    name : str, default="model"
        Part of the name under which answers are remembered.
    dataset : str, default="data"
        Names the dataset's account. Predictors on the same data share its budget,
        whatever their epsilons, deltas and kinds of guarantee: give them one ledger,
        the same `dataset` and the same `budget`.

    Guarantee
    ---------
    All answers together satisfy the cap of the dataset's account, for every client and
    for all of them jointly, however the queries are chosen, and whatever else is
    charged to that account. A query that this fitted model was asked before is answered
    from memory with the same bytes: free for a client who has paid for it, charged to
    a client who sees it first. No other model, and no other fit, shares that memory.
    Refusal depends on counts and on the form of a query, never on the data. *Proof.*
    Each answer has fresh randomness, so the answers are an adaptive composition (G22),
    which the account stops like a filter; see `reticent.guarantees.totals`.

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
    >>> print(interface.spent())  # before the first answer there is no certificate
    None
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
        _check_budget("budget", budget)
        if client_budget is not None:
            _check_budget("client_budget", client_budget)
        # Bound here: what is drawn and what is charged stay one law, whatever happens
        # to the predictor.
        self.law = law_of(predictor)
        certificate = self.law.certificate
        self.predictor = predictor
        self.budget = budget
        self.client_budget = client_budget
        self.certificate = certificate
        self.charge = Charge.of(certificate)
        identity = self.law.identity
        self._lasting: LastingInterface | None = None
        if isinstance(self.law, LastingLaw):
            self._lasting = _lasting(
                predictor, ledger, budget, dataset, client_budget=client_budget
            )
            self.ledger = self._lasting.ledger
            return
        self.ledger = ledger_for(identity, dataset) if ledger is None else ledger
        self._dataset = AccountId(AccountScope.DATASET, dataset)
        self._memory = f"{dataset}/{name}/{identity}"
        self._charges = ChargesByCertificate(self.ledger)
        self._clients: set[str] = set()
        self._lock = threading.Lock()
        # Nothing else is charged to a ledger that was made for this model alone.
        self._alone = certificate if ledger is None else None
        self._process = os.getpid()
        if client_budget is not None:
            cap_for(client_budget, self.charge, self._alone)
        open_shared(self.ledger, self._dataset, budget, self.charge, self._alone)
        remember_certificate(certificate)

    @property
    def capacity(self) -> float:
        """How many different queries the account's cap covers in total, if alone."""
        if self._lasting is not None:
            return self._lasting.capacity
        cap = self.ledger.balance(self._dataset).cap
        return cap.answers_left(self.charge)

    def predict(
        self, X: MatrixLike, *, client: str = "anyone", key: str | None = None
    ) -> NDArray[Any]:
        """Return one private answer per row, or refuse them all.

        Queries that cannot be answered are refused before anything is charged: those
        with other columns than the fit saw; with missing values where the estimator
        does not take them; and with text where every model would refuse it, as far as
        the classes of a pipeline say that. A column's type at fit decides nothing: one
        record could change it. What a pipeline of yours makes of text is its own
        matter, and is charged.

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
        InvalidDataError or ValueError
            If a query cannot be answered, as above; nothing is spent then.
        BudgetExhaustedError
            If the budget does not cover every new row; nothing is spent then.
        AnswerLostError
            If the key was charged before and its answer was lost.
        """
        if self._lasting is not None:
            return self._lasting.predict(X, client=client, key=key)
        if self._alone is not None:
            check_process(self._process)
        queries = canonical_rows(X)
        if not queries:
            return self._labels([])
        self.law.check(X)
        accounts = (self._dataset, *self._client_accounts(client))
        request = Request(
            key=secrets.token_hex(16) if key is None else key,
            accounts=accounts,
            charge=self.charge,
            queries=tuple(queries),
            memory=self._memory,
            record=key is not None,
        )

        def draw(places: tuple[int, ...]) -> list[bytes]:
            rows = np.array(places, dtype=np.int64)
            return _encoded(self.law.draw(safe_indexing(X, rows)))

        receipt = answer(self.ledger, request, draw)
        return self._labels([given or b"" for given in receipt.answers])

    @property
    def predict_proba(self) -> Any:
        """Not there, for `hasattr` either: probabilities are not answered here."""
        raise AttributeError(no_probabilities(self), name="predict_proba", obj=self)

    def spent(self, *, client: str | None = None) -> Certificate[Any] | None:
        """Return what the dataset's account was charged in total, or None if nothing.

        That includes other models on this account. It holds even if you choose the
        moment by looking at answers; the certificate's `rule` says which total it is:
        "G22-basic", the sum of epsilons; "G22-odometer", a bound that holds at every
        moment; "G22-filter", the cap itself.

        Parameters
        ----------
        client : str, default=None
            Return what this client was charged instead.
        """
        if self._lasting is not None:
            return self._lasting.spent(client=client)
        account = self._dataset
        if client is not None:
            account = AccountId(AccountScope.CLIENT, client)
        charged = self._charges.of(account)  # first, so that the balance covers it
        if not charged and client is not None:
            return None  # nobody of that name has asked
        return total_of(self.ledger.balance(account), charged, self.certificate)

    def remaining(self, *, client: str | None = None) -> float:
        """Return how many new queries are left, in total or for one client."""
        if self._lasting is not None:
            return self._lasting.remaining(client=client)
        accounts = [self._dataset]
        accounts += [] if client is None else self._client_accounts(client)
        balances = [self.ledger.balance(account) for account in accounts]
        return min(balance.answers_left(self.charge) for balance in balances)

    def _repr_html_(self) -> str:
        spent = self.spent()
        left = self.remaining()
        told = "no limit" if left == math.inf else f"{left:,.0f}"
        return box(
            paragraph(f"Answers under {self.budget}", strong=True),
            paragraph(guess_in_words(self.budget, relation=self.charge.relation)),
            table(
                ("", ""),
                (
                    ("spent so far", "nothing" if spent is None else spent.headline()),
                    ("answers left", told),
                    ("one answer", self.certificate.headline()),
                ),
            ),
        )

    def _client_accounts(self, client: str) -> tuple[AccountId, ...]:
        """Return the client's account, opened if it is new to this interface."""
        account = AccountId(AccountScope.CLIENT, client)
        with self._lock:
            if client not in self._clients:
                self._open_client(account)
                self._clients.add(client)
        return (account,)

    def _open_client(self, account: AccountId) -> None:
        if self.client_budget is not None:
            open_shared(
                self.ledger, account, self.client_budget, self.charge, self._alone
            )
            return
        cap = cap_for(self.budget, self.charge, self._alone)
        with contextlib.suppress(AccountOpenError):  # any cap will do
            self.ledger.open_account(account, cap)

    def _labels(self, answers: list[bytes]) -> NDArray[Any]:
        texts = [given.decode() for given in answers]
        classes = self.law.classes
        if classes is None:
            return np.array([float(text) for text in texts])
        names: dict[str, int] = {str(label): i for i, label in enumerate(classes)}
        indices = np.array([names[text] for text in texts], dtype=np.int64)
        return np.asarray(classes)[indices]


def _check_budget(name: str, budget: Any) -> None:
    """Refuse what is not a budget; a number is likely meant as its epsilon."""
    if isinstance(budget, Budget):
        return
    number = isinstance(budget, Real) and not isinstance(budget, bool)
    meant = f"Budget(epsilon={budget!r})" if number else "Budget(epsilon=...)"
    raise InvalidParameterError(
        f"{name}={budget!r} must be a Budget: write {meant}, with a delta if there is "
        "one."
    )


def _lasting(
    predictor: Any,
    ledger: Ledger | None,
    budget: Budget,
    dataset: str,
    *,
    client_budget: Budget | None,
) -> LastingInterface:
    if client_budget is not None:
        raise InvalidParameterError(
            f"client_budget={client_budget} cannot be kept: all clients share one "
            "total of a model whose answers last. Leave it out, or give clients "
            "shares when the model is fitted."
        )
    return LastingInterface(predictor, ledger, budget=budget, dataset=dataset)


def _encoded(answers: NDArray[Any]) -> list[bytes]:
    if answers.dtype.kind == "f":
        return [repr(float(given)).encode() for given in answers]
    return [str(given).encode() for given in answers]
