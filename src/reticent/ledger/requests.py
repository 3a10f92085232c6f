"""Requests to the ledger, and the receipts that it returns."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from reticent.errors import IdempotencyKeyError, InvalidParameterError
from reticent.ledger.accounts import AccountId, Balance
from reticent.ledger.charges import Charge
from reticent.ledger.units import Spend

#: More answers than this in one request are refused before anything is charged.
MOST_QUERIES = 100_000
#: The largest number of accounts one request touches.
MOST_ACCOUNTS = 16

_KEY = re.compile(r"[!-~]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request for answers, with the idempotency key that makes a retry safe.

    Parameters
    ----------
    key : str
        1 to 200 visible ASCII characters, chosen by the caller and never used for
        anything else. A service puts the client's name in front, so that two clients
        never share a key.
    accounts : tuple of AccountId
        All of them are charged in one transaction, or none.
    charge : Charge
        The loss of each answer.
    queries : tuple of bytes
        One canonical form per answer. Only hashes are kept.
    memory : str or None, default=None
        Dataset version and model version whose answers are remembered: a query asked
        before gets the same bytes again. None draws a new answer each time.
    record : bool, default=True
        Whether the key is recorded even if all answers are free, so that it cannot be
        used for another request later. Unnecessary for a random key, used once.
    """

    key: str
    accounts: tuple[AccountId, ...]
    charge: Charge
    queries: tuple[bytes, ...] = field(repr=False)
    memory: str | None = None
    record: bool = True
    names: tuple[str, ...] = field(init=False, repr=False)
    hashes: tuple[str, ...] = field(init=False, repr=False)
    fingerprint: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_key(self.key)
        object.__setattr__(self, "accounts", tuple(self.accounts))
        object.__setattr__(self, "queries", tuple(self.queries))
        object.__setattr__(self, "names", tuple(map(str, self.accounts)))
        self._check()
        kind, start = _kind_of(self.memory, self.charge)
        hashes = _hashes(start, self.queries)
        object.__setattr__(self, "hashes", hashes)
        digest = _fingerprint(f"[{_names_json(self.names)}, {kind}", hashes)
        object.__setattr__(self, "fingerprint", digest)

    def _check(self) -> None:
        if not 1 <= len(set(self.names)) == len(self.names) <= MOST_ACCOUNTS:
            raise InvalidParameterError(
                f"accounts={list(self.names)} must be 1 to {MOST_ACCOUNTS} different "
                "accounts."
            )
        if not 1 <= len(self.queries) <= MOST_QUERIES:
            raise InvalidParameterError(
                f"n_queries={len(self.queries)} must lie between 1 and "
                f"{MOST_QUERIES}; split the batch."
            )
        if not all(isinstance(query, bytes) for query in self.queries):
            raise InvalidParameterError(
                "queries must be bytes, one canonical form each."
            )
        if self.memory is not None and not (
            isinstance(self.memory, str) and _KEY.fullmatch(self.memory)
        ):
            raise InvalidParameterError(
                "memory must name dataset and model version in 1 to 200 visible ASCII "
                "characters, or be None."
            )


class RequestForm:
    """What many requests have in common; it is checked once for all of them.

    Parameters
    ----------
    accounts, charge, memory
        As for `Request`.
    """

    __slots__ = ("_accounts", "_beginning", "_charge", "_memory", "_names", "_start")

    def __init__(
        self, accounts: tuple[AccountId, ...], charge: Charge, memory: str | None
    ) -> None:
        # Refuses what no request may have.
        first = Request(
            key="-", accounts=accounts, charge=charge, queries=(b"",), memory=memory
        )
        self._accounts, self._names = first.accounts, first.names
        self._charge, self._memory = charge, memory
        kind, self._start = _kind_of(memory, charge)
        self._beginning = f"[{_names_json(self._names)}, {kind}"

    def filled(self, key: str, queries: list[bytes], *, record: bool) -> Request:
        """Return the request that `Request` makes of the same; queries are bytes."""
        if not 1 <= len(queries) <= MOST_QUERIES:
            return Request(
                key=key,
                accounts=self._accounts,
                charge=self._charge,
                queries=tuple(queries),
                memory=self._memory,
                record=record,
            )
        request, put = object.__new__(Request), object.__setattr__
        put(request, "key", check_key(key))
        put(request, "accounts", self._accounts)
        put(request, "charge", self._charge)
        put(request, "queries", tuple(queries))
        put(request, "memory", self._memory)
        put(request, "record", record)
        put(request, "names", self._names)
        hashes = _hashes(self._start, queries)
        put(request, "hashes", hashes)
        put(request, "fingerprint", _fingerprint(self._beginning, hashes))
        return request


def _hashes(start: Any, queries: Iterable[bytes]) -> tuple[str, ...]:
    """Return the hash of each query, going on from what they have in common."""
    hashes = []
    for query in queries:
        named = start.copy()
        named.update(query)
        hashes.append(named.hexdigest())
    return tuple(hashes)


def _fingerprint(beginning: str, hashes: tuple[str, ...]) -> str:
    """Hash what `json.dumps` makes of the list of names, kind and hashes."""
    listed = '", "'.join(hashes)
    return hashlib.sha256(f'{beginning}, ["{listed}"]]'.encode()).hexdigest()


# Requests come with the same few charges and accounts over and over.
@lru_cache(maxsize=1024)
def _kind_of(memory: str | None, charge: Charge) -> tuple[str, Any]:
    """Return what a request asks for as JSON, and the hash that its queries extend.

    The charge is part of a query's hash, so a remembered answer was drawn at the same
    loss that a later viewer is charged.
    """
    cost = (charge.epsilon, charge.delta, charge.rho)
    text = json.dumps([memory, charge.certificate, charge.relation, *cost])
    return text, hashlib.sha256(text.encode() + b"\n")


class _Left:
    """How many answers were left the last time; receipts of one commit share it."""

    known: tuple[Any, Any, int] = (None, None, 0)


def _fewest_left(remaining: tuple[Balance, ...], charge: Charge) -> int:
    balances, price, left = _Left.known
    if balances is not remaining or price is not charge:
        left = min(balance.answers_left(charge) for balance in remaining)
        _Left.known = remaining, charge, left
    return left


@lru_cache(maxsize=1024)
def _names_json(names: tuple[str, ...]) -> str:
    return json.dumps(names)


def check_key(key: Any) -> str:
    """Return an idempotency key or refuse it."""
    if not (isinstance(key, str) and _KEY.fullmatch(key)):
        raise IdempotencyKeyError(
            "an idempotency key must be 1 to 200 visible ASCII characters."
        )
    return key


class Outcome(Enum):
    """What a receipt asks its holder to do."""

    #: Compute the answers at `draw`, hand them to `settle`, reply with what it returns.
    DRAW = "draw"
    #: All answers are there, stored durably: reply.
    ANSWERED = "answered"
    #: The charge is durable, its answer is not: reply "spent, no result". Never draw.
    SPENT = "spent"


class Receipt(NamedTuple):
    """Proof of a charge, and what follows from it.

    Parameters
    ----------
    key : str
        The request's idempotency key.
    outcome : Outcome
        What to do next.
    sequence, entry_hash : int and str, or None
        The entry in the chain; None if nothing was written because every account had
        paid for these answers before.
    charge : Charge
        The loss of one answer.
    accounts : mapping of str to Spend
        What this request cost each account, by name.
    remaining : tuple of Balance
        The request's accounts after it.
    draw : tuple of int
        Positions among the queries to be computed now.
    answers : tuple of bytes or None
        One per query; None where there is no answer (yet).
    places : tuple of int
        For each query, the position that is drawn for it; equal queries share one.
    """

    key: str
    outcome: Outcome
    sequence: int | None
    entry_hash: str | None
    charge: Charge
    accounts: Mapping[str, Spend]
    remaining: tuple[Balance, ...]
    draw: tuple[int, ...]
    answers: tuple[bytes | None, ...]
    places: tuple[int, ...] = ()

    def __repr__(self) -> str:
        # Answers are for the client alone, not for logs.
        return (
            f"Receipt(key={self.key!r}, outcome={self.outcome}, "
            f"sequence={self.sequence}, draw={self.draw})"
        )

    @property
    def answers_left(self) -> int:
        """How many more answers at this charge every account could pay for."""
        return _fewest_left(self.remaining, self.charge)

    def answered(self, answers: tuple[bytes, ...]) -> Receipt:
        """Return the receipt with all of its answers."""
        key, _, sequence, sealed, charge, accounts, remaining, *_ = self
        done = Outcome.ANSWERED
        fields = (key, done, sequence, sealed, charge, accounts, remaining, ())
        return tuple.__new__(Receipt, (*fields, answers, ()))

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, without the answers."""
        return {
            "key": self.key,
            "outcome": self.outcome.value,
            "sequence": self.sequence,
            "entry_hash": self.entry_hash,
            "certificate": self.charge.certificate,
            "accounts": {name: cost._asdict() for name, cost in self.accounts.items()},
            "remaining": [balance.as_dict() for balance in self.remaining],
        }
