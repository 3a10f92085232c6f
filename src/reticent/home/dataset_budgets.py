"""The budget of a dataset in a home: what ``fit`` prints is what is enforced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from reticent.errors import BudgetExhaustedError, InvalidParameterError
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Budget,
    Certificate,
    PureDP,
    ReplaceOne,
    Scope,
    ZeroOut,
    claim,
    gaussian_ratio,
    rho_within,
    stated,
)
from reticent.home.accounts import price_problem
from reticent.home.home import COMMAND_LINE, Home
from reticent.home.periods import reset_period
from reticent.home.served_models import dataset_account
from reticent.home.settings import Settings
from reticent.ledger import (
    NO_SPEND,
    RECORDS,
    AccountScope,
    Balance,
    Cap,
    Charge,
    SQLLedger,
)

#: The budget of a dataset that has none yet and for which none is given.
EPSILON, DELTA = 50.0, 1e-6


@dataclass(frozen=True)
class DatasetBudget:
    """What a dataset in a home may cost, and what it has cost.

    Parameters
    ----------
    home : Home
        The home.
    dataset : str
        The dataset.
    """

    home: Home
    dataset: str
    #: Whose account the command line charges, besides the dataset's.
    client: ClassVar[str] = "local"

    def balance(self) -> Balance | None:
        """Return what is enforced: the account in the ledger, else the settings."""
        if not self.home.config.exists():
            return None
        settings = self.home.settings()
        with settings.open_ledger() as ledger:
            return self._known(ledger, settings)

    def _known(self, ledger: SQLLedger, settings: Settings) -> Balance | None:
        account = dataset_account(self.dataset)
        for balance in ledger.balances():
            if balance.account == account:
                return balance
        noted = settings.datasets.get(self.dataset)
        return None if noted is None else Balance(account, noted.cap())

    def settle(
        self, epsilon: float | None, delta: float | None, *, change: bool
    ) -> Budget:
        """Return the dataset's budget; refuse another one unless it is to be changed.

        Parameters
        ----------
        epsilon, delta : float or None
            What was asked for; None keeps what there is.
        change : bool
            Whether the budget may be changed, for all models on the dataset.
        """
        known = self.balance()
        there = Budget(EPSILON, DELTA) if known is None else known.cap.budget
        asked = Budget(
            there.epsilon if epsilon is None else epsilon,
            there.delta if delta is None else delta,
        )
        if known is None or Cap.within(asked).promise == known.cap.promise:
            return asked
        if not change:
            raise InvalidParameterError(
                f"the dataset {self.dataset!r} has a budget of {there} already, not "
                f"{asked}. Leave --budget and --delta out, or change it for all models "
                "on the dataset with --change-budget."
            )
        self._change(known, asked)
        return asked

    def _change(self, known: Balance, budget: Budget) -> None:
        """Set the caps of the dataset and of clients that had the same one."""
        cap = Cap.within(budget, relation=known.cap.relation)
        with self.ledger() as ledger:
            ledger.record(
                "budget changed",
                COMMAND_LINE,
                {"dataset": self.dataset, "budget": str(budget)},
            )
            for balance in ledger.balances():
                same = balance.cap.promise == known.cap.promise
                client = balance.account.scope is AccountScope.CLIENT
                if balance.account == known.account or (client and same):
                    ledger.set_cap(balance.account, cap)
        self.home.set_budget(self.dataset, budget)
        with self.ledger() as ledger:
            reset_period(self.home, ledger, self.dataset)

    def check(self, certificate: Certificate[Any], budget: Budget) -> None:
        """Refuse a model that the dataset's budget can never pay for.

        Parameters
        ----------
        certificate : Certificate
            What an answer, or the release, promises. budget : Budget The dataset's, if
            it has none yet.
        """
        charge = Charge.of(certificate)
        account = dataset_account(self.dataset)
        known = self.balance() or Balance(account, Cap.within(budget))
        problem = price_problem(known.cap, charge)
        if problem is None and known.answers_left(charge) < 1:
            problem = f"what is left of it does not cover one ({known})."
        if problem is not None:
            raise BudgetExhaustedError(
                f"the budget of the dataset {self.dataset!r} can never pay for this "
                f"model: {problem}"
            )

    def check_clients(self, certificate: Certificate[Any]) -> None:
        """Refuse a model of which no client could ever pay for one answer.

        Parameters
        ----------
        certificate : Certificate
            What an answer promises.
        """
        if not self.home.config.exists():
            return
        settings = self.home.settings()
        with settings.open_ledger() as ledger:
            caps = {
                balance.account.name: balance.cap
                for balance in ledger.balances()
                if balance.account.scope is AccountScope.CLIENT
                and balance.cap.relation != RECORDS
            }
        opened = self.client in caps
        if settings.client_budget is not None:
            new = settings.client_budget.cap()
            caps = {self.client: new, **caps, "": new}
        charge = Charge.of(certificate)
        if not caps or any(price_problem(cap, charge) is None for cap in caps.values()):
            return
        name = self.client if self.client in caps else min(caps)
        raised = (
            f"'reticent accounts cap client:{name} --epsilon NUMBER'"
            if opened or name != self.client
            else f"client_budget in {self.home.config}"
        )
        raise BudgetExhaustedError(
            f"one answer costs {stated(certificate)}, more than client {name!r} may "
            f"spend in all ({caps[name].budget}), and no other client may spend more. "
            f"Fit with a smaller epsilon, or raise the cap first: {raised}."
        )

    def open(self, budget: Budget, relation: str) -> Balance:
        """Write the budget into the settings and open the account, if they are new."""
        self.home.open_dataset(self.dataset, budget)
        settings = self.home.settings()
        with settings.open_ledger() as ledger:
            known = self._known(ledger, settings)
            cap = Cap.within(budget, relation=relation) if known is None else known.cap
            return ledger.open_account(dataset_account(self.dataset), cap)

    def check_total(
        self, epsilon: float, delta: float, relation: str, budget: Budget
    ) -> None:
        """Refuse a total that the dataset cannot pay, before anything is trained.

        Parameters
        ----------
        epsilon, delta : float
            The total of all answers.
        relation : {"replace-one", "zero-out"}
            What it is about.
        budget : Budget
            What the dataset gets, if it has no budget yet.
        """
        if not delta > 0:
            raise InvalidParameterError(
                f"lasting answers need a budget with delta > 0; got delta={delta:g}. "
                "Give --delta 1e-6, or another number below one divided by the "
                "number of people."
            )
        neighbours = ZeroOut(1) if relation == ZeroOut.name else ReplaceOne(1)
        losses: tuple[Any, ...] = (
            ZCDP(gaussian_ratio(epsilon, delta) ** 2 / 2),
            ApproxDP(epsilon, delta),
        )
        charges = [
            Charge.of(claim(loss, neighbours, Scope.INTERFACE, statement="planned"))
            for loss in losses
        ]
        account = dataset_account(self.dataset)
        known = self._opened()
        caps = (
            [Cap.within(budget, relation=relation, charge=charge) for charge in charges]
            if known is None
            else [known.cap] * len(charges)
        )
        spent = NO_SPEND if known is None else known.spent
        for cap, charge in zip(caps, charges, strict=True):
            if (
                price_problem(cap, charge) is None
                and Balance(account, cap, spent).answers_left(charge) >= 1
            ):
                return
        problem = price_problem(caps[-1], charges[-1]) or "too little is left of it."
        raise BudgetExhaustedError(
            f"the budget of the dataset {self.dataset!r} can never pay for all answers "
            f"of this model: {problem}"
        )

    def open_total(self, budget: Budget, charges: Sequence[Charge]) -> Balance:
        """Open the account, if it is new, so that it can pay one of these charges."""
        self.home.open_dataset(self.dataset, budget)
        known = self._opened()
        if known is not None:
            return known
        caps = [
            Cap.within(budget, relation=charge.relation, charge=charge)
            for charge in charges
        ]
        fitting = [
            cap
            for cap, charge in zip(caps, charges, strict=True)
            if cap.answers_left(charge) >= 1
        ]
        with self.ledger() as ledger:
            return ledger.open_account(
                dataset_account(self.dataset), (fitting or caps)[0]
            )

    def _opened(self) -> Balance | None:
        """Return the account in the ledger; None if it is not open."""
        if not self.home.config.exists():
            return None
        account = dataset_account(self.dataset)
        with self.ledger() as ledger:
            found = [each for each in ledger.balances() if each.account == account]
        return found[0] if found else None

    @contextmanager
    def ledger(self) -> Iterator[SQLLedger]:
        """Hold the ledger of the home."""
        with self.home.settings().open_ledger() as ledger:
            yield ledger


def planned(
    epsilon: float, cap: Cap, *, release: bool, number: bool
) -> Certificate[Any]:
    """Return what a model will promise, before it is trained.

    Parameters
    ----------
    epsilon : float
        Epsilon of an answer, or of the release.
    cap : Cap The dataset's.
    release : bool
        Whether the model itself is released.
    number : bool
        Whether it answers with numbers.
    """
    loss: Any = PureDP(epsilon)
    if release and cap.rho:
        delta = release_delta(epsilon, cap)
        loss = ZCDP(rho_within(epsilon, delta) * (1 - 1e-6))
    elif not release and not number and cap.rho:
        loss = BoundedRange(epsilon)
    scope = Scope.MODEL if release else Scope.ANSWER
    return claim(loss, ReplaceOne(1), scope, statement="before it is trained")


def release_delta(epsilon: float, cap: Cap) -> float:
    """Return the delta of a release: the budget's, or what its cap can convert.

    A release that takes the whole budget has to leave out what the cap sets aside.
    """
    whole = cap.budget.delta
    if not cap.rho:
        return 0.0
    charge = Charge.loss(rho=rho_within(epsilon, whole), certificate="release")
    fits = (charge.rho or 0) <= cap.rho
    return whole if fits else cap.filter.conversion * (1 - 1e-9)
