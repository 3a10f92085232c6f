"""One budget for many models: accounts that interfaces open, share and add up."""

from __future__ import annotations

import math
import os
import threading
import warnings
from contextlib import suppress
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

from reticent._numbers import ceil_float, exact
from reticent.errors import (
    AccountOpenError,
    BudgetExhaustedError,
    InvalidParameterError,
    NotDeployableError,
    RuleError,
    SeparateBudgetsWarning,
)
from reticent.guarantees import (
    QUICK_METHODS,
    TOTALS_OF_DELTA,
    ZCDP,
    AddRemove,
    ApproxDP,
    BoundedRange,
    Budget,
    Certificate,
    Others,
    PureDP,
    ReplaceOne,
    Scope,
    ZeroOut,
    answers_within,
    claim,
    epsilon_delta,
    range_running_total,
    repeat,
    spent_total,
)
from reticent.ledger import (
    DELTA_UNITS,
    EPSILON_UNITS,
    MAX_UNITS,
    NO_SPEND,
    RHO_UNITS,
    AccountId,
    Balance,
    Cap,
    Charge,
    Ledger,
    MemoryLedger,
    Method,
    Spend,
    units_to_float,
)

_lock = threading.Lock()
# The ledgers of interfaces that were given none, by fitted model and dataset. They
# live as long as the process: a ledger that is forgotten is a budget spent again. With
# each is the process that made it.
_ledgers: dict[tuple[str, str], tuple[int, MemoryLedger]] = {}
# Certificates that interfaces of this process charged for, by id.
_certificates: WeakValueDictionary[str, Certificate[Any]] = WeakValueDictionary()


def ledger_for(identity: str, dataset: str) -> MemoryLedger:
    """Return the one ledger in memory of a fitted model and a dataset.

    The first time that a model gets one, it warns if other models of this process have
    ledgers of their own for the dataset: together they may spend more than a budget.
    """
    with _lock:
        known = (identity, dataset) in _ledgers
        new = os.getpid(), MemoryLedger()
        process, found = _ledgers.setdefault((identity, dataset), new)
        others = 0 if known else _others(identity, dataset)
    check_process(process)
    if others:
        whose = "another model has" if others == 1 else f"{others} other models have"
        warnings.warn(
            SeparateBudgetsWarning(
                f"in this process {whose} a budget of its own for dataset {dataset!r}, "
                "and this model gets one more: together they may spend all of them. "
                "Pass one ledger, such as MemoryLedger() or SQLLedger(...), to every "
                "interface on the same records; name other records with dataset=."
            ),
            stacklevel=3,
        )
    return found


def _others(identity: str, dataset: str) -> int:
    """Count the other models that opened a budget for a dataset without a ledger."""
    process = os.getpid()
    return sum(
        bool(model != identity and data == dataset and ledger.balances())
        for (model, data), (made, ledger) in _ledgers.items()
        if made == process
    )


def check_process(process: int) -> None:
    """Refuse a ledger in memory that was copied with the process that made it.

    Each copy would spend the budget again, and none would know of the others.
    """
    if os.getpid() != process:
        raise NotDeployableError(
            "this process was forked from the one whose memory holds what was spent. "
            "Give the interface a ledger that all processes share, such as SQLLedger."
        )


def cap_for(
    budget: Budget, charge: Charge, alone: Certificate[Any] | None = None
) -> Cap:
    """Return the cap of a budget that covers at least one answer, or refuse it.

    A certificate that is `alone` on its ledger may be counted (G25).
    """
    cap = Cap.within(budget, relation=charge.relation, charge=charge)
    counted = None if alone is None else _counted(budget, alone)
    if counted is not None and counted.answers_left(charge) > cap.answers_left(charge):
        return counted
    if cap.answers_left(charge) < 1:
        raise BudgetExhaustedError(
            f"one answer costs {charge}; the budget of {budget} covers none. "
            "Raise the budget or fit with a smaller epsilon."
        )
    return cap


@lru_cache(maxsize=256)  # every new client opens an account under the same cap
def _counted(budget: Budget, certificate: Certificate[Any]) -> Cap | None:
    """Return the cap that counts answers of bounded range, if it covers any (G25)."""
    if not (isinstance(certificate.guarantee, BoundedRange) and budget.delta > 0):
        return None
    totals = ceil_float(exact(budget.delta) * TOTALS_OF_DELTA)
    rest = math.nextafter(float(exact(budget.delta) - exact(totals)), 0.0)
    answers = answers_within(certificate, Budget(budget.epsilon, rest))
    if answers < 1:
        return None
    total = repeat(certificate, answers, delta=rest, methods=QUICK_METHODS)
    return Cap.count(total, totals=totals)


def open_shared(
    ledger: Ledger,
    account: AccountId,
    budget: Budget,
    charge: Charge,
    alone: Certificate[Any] | None = None,
) -> Cap:
    """Open an account under a budget, or check that it is open under the same one.

    Raises
    ------
    BudgetExhaustedError
        If the budget does not cover a single answer; nothing is opened then.
    InvalidParameterError
        If the account is open under another budget, or cannot count the charge.
    """
    cap = cap_for(budget, charge, alone)
    try:
        return ledger.open_account(account, cap).cap
    except AccountOpenError:
        known = ledger.balance(account).cap
    if not keeps(known, cap, charge):
        raise other_budget(account, known, budget)
    if known.answers_left(charge) < 1:
        raise BudgetExhaustedError(
            f"one answer costs {charge}, and {account}, whose cap is "
            f"{known.budget}, can never pay for it: {_why(known, charge)}. Fit with a "
            "smaller epsilon or delta, or open an account for it."
        )
    return known


def other_budget(
    account: AccountId, known: Cap, budget: Budget
) -> InvalidParameterError:
    """Return the error that says that an account has another budget."""
    return InvalidParameterError(
        f"{account} has a budget already: {known.budget}, not {budget}. One "
        "dataset has one budget, whatever models spend it: give this one the same, "
        "or change the cap with ledger.set_cap first."
    )


def keeps(known: Cap, cap: Cap, charge: Charge) -> bool:
    """Return whether an open account keeps the promise that is asked for."""
    if cap.method is Method.COUNT:
        return known == cap
    if known.method is Method.COUNT and known.certificate == charge.certificate:
        return (known.epsilon or 0) <= (cap.epsilon or 0) and (
            (known.delta or 0) <= (cap.delta or 0)
        )
    return known.promise == cap.promise


def _why(known: Cap, charge: Charge) -> str:
    if charge.delta > known.limits.delta:
        kept = units_to_float(known.limits.delta, DELTA_UNITS)
        return f"it keeps {kept:.3g} of its delta for answers with a delta of their own"
    return "one answer costs more than all of it"


def remember_certificate(certificate: Certificate[Any]) -> None:
    """Let totals of this process name a certificate that is charged for."""
    _certificates[certificate.id] = certificate


class ChargesByCertificate:
    """What was charged to each account for each certificate, read from a ledger.

    It reads the entries that are new each time it is asked.

    Parameters
    ----------
    ledger : Ledger
        The ledger.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._after = 0
        self._spent: dict[str, dict[str, Spend]] = {}
        self._lock = threading.Lock()

    def of(self, account: AccountId) -> dict[str, Spend]:
        """Return what was charged to an account, by the id of the certificate."""
        with self._lock:
            for entry in self._ledger.entries(after=self._after):
                self._after = entry.sequence
                if not entry.is_charge:
                    continue
                certificate = str(entry.content()["certificate"])
                for name, cost in entry.costs().items():
                    sums = self._spent.setdefault(name, {})
                    sums[certificate] = sums.get(certificate, NO_SPEND).plus(cost)
            return dict(self._spent.get(str(account), {}))


def total_of(
    balance: Balance, charged: dict[str, Spend], own: Certificate[Any]
) -> Certificate[Any] | None:
    """Return the total of an account at this moment; None if nothing is spent.

    The total holds at every moment. `charged` says what was charged to the account
    under each certificate, by id, and is read before the balance. `own` is the
    certificate of the asking interface, for its relation.
    """
    cap = balance.cap
    if balance.spent == NO_SPEND:
        return None
    known = {**dict(_certificates.items()), own.id: own}
    named = {
        known[name]: spent
        for name, spent in charged.items()
        if name in known and known[name].relation == own.relation
    }
    counts = {certificate: spent.answers for certificate, spent in named.items()}
    if cap.method is Method.COUNT and counts:
        ((certificate, count),) = counts.items()
        return _counted_total(certificate, count, cap)
    rest = balance.spent
    for spent in named.values():
        rest = rest.minus(spent)
    others = _unnamed(rest, cap) if rest != NO_SPEND else None
    if not counts and others is not None:
        record = _recorded(others, own)
        counted = isinstance(record.guarantee, ApproxDP)
        deltas = Others() if counted else Others(delta=others.delta)
        return spent_total({record: 1}, cap.filter, deltas)
    return spent_total(counts, cap.filter, others)


def spent_so_far(balance: Balance) -> Certificate[Any] | None:
    """Return the total of an account in epsilon and delta; None if it is not known.

    It is derived from the sums that the ledger keeps, and holds at every moment. It is
    None if nothing was spent, and if what was spent is not known.

    Parameters
    ----------
    balance : Balance
        The account.
    """
    cap = balance.cap
    if balance.spent == NO_SPEND or cap.method is Method.COUNT:
        return None
    sums = _unnamed(balance.spent, cap)
    relation = _neighbours(cap.relation)
    # What was charged in one way, and the deltas that go with it.
    losses: list[tuple[Any, Others]] = []
    if sums.epsilon is not None:
        loss: Any = PureDP(sums.epsilon)
        if sums.delta:
            loss = ApproxDP(sums.epsilon, sums.delta)
        losses.append((loss, Others()))
    if sums.rho is not None:
        losses.append((ZCDP(sums.rho), Others(delta=sums.delta)))
    statement = "the ledger's record of what was charged"
    totals = []
    for loss, deltas in losses:
        charged = claim(loss, relation, Scope.INTERFACE, statement=statement)
        with suppress(RuleError):  # no level is above so large a sum of rhos
            totals.append(spent_total({charged: 1}, cap.filter, deltas))
    return min(totals, key=lambda total: epsilon_delta(total.guarantee), default=None)


def promised_by(balance: Balance) -> Budget:
    """Return what everything that is charged to an account stays within.

    That is its cap; but if the cap was lowered below what is spent, it is what is
    spent.

    Parameters
    ----------
    balance : Balance
        The account.

    Raises
    ------
    BudgetExhaustedError
        If more than the cap is spent, and nobody knows how much.
    """
    cap = balance.cap
    if cap.allows(balance.spent):
        return cap.budget
    total = spent_so_far(balance)
    if total is None:
        raise BudgetExhaustedError(
            f"{balance.account} has spent more than {cap.budget}, and nobody knows how "
            "much. 'reticent accounts cap' raises the cap again."
        )
    return Budget(*epsilon_delta(total.guarantee))


def _neighbours(relation: str) -> ReplaceOne | AddRemove | ZeroOut:
    """Return the relation of an account, which does not record the number of units."""
    name, _, several = relation.partition("/")
    group = int(several) if several.isdecimal() else 1
    if name == AddRemove.name:
        return AddRemove(group)
    return ZeroOut(group, group) if name == ZeroOut.name else ReplaceOne(group, group)


def _counted_total(
    certificate: Certificate[Any], count: int, cap: Cap
) -> Certificate[Any]:
    """Return the total of an account that counts answers under one certificate."""
    most, delta = cap.answers or 1, units_to_float(cap.delta or 0, DELTA_UNITS)
    if not cap.totals:
        return repeat(certificate, most, delta=delta, methods=QUICK_METHODS)
    total: Certificate[Any] = range_running_total(
        certificate,
        counts=(count,),
        most=most,
        delta=delta,
        totals=units_to_float(cap.totals, DELTA_UNITS),
        answers=count,
    )
    if isinstance(total.guarantee, PureDP):
        return repeat(certificate, count)
    return total


def _unnamed(rest: Spend, cap: Cap) -> Others:
    """Return the charges whose certificates this process does not have."""
    counts_epsilon = cap.method is not Method.ZCDP and rest.epsilon < MAX_UNITS // 2
    counts_rho = cap.method is not Method.BASIC and rest.rho < MAX_UNITS // 2
    return Others(
        units_to_float(rest.epsilon, EPSILON_UNITS) if counts_epsilon else None,
        units_to_float(rest.delta, DELTA_UNITS),
        units_to_float(rest.rho, RHO_UNITS) if counts_rho else None,
        rest.answers,
    )


def _recorded(others: Others, own: Certificate[Any]) -> Certificate[Any]:
    """Return the ledger's record of other charges as a claim."""
    loss: Any = ZCDP(others.rho or 0.0)
    if others.epsilon is not None:
        loss = PureDP(others.epsilon)
        if others.delta > 0:
            loss = ApproxDP(others.epsilon, others.delta)
    return claim(
        loss,
        own.relation,
        Scope.INTERFACE,
        statement="the ledger's record of what other models were charged",
    )
