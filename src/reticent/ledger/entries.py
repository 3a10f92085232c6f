"""The chain: entries that are only ever appended, each with a hash.

An entry's hash covers the hash before it and every field, so the last hash stands for
the whole history. Only entries hold facts; account rows are their running totals,
checked at each start.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple

from reticent.ledger.units import Spend

#: The hash before the first entry.
GENESIS = "0" * 64
#: Begins each mark in the text that is hashed.
MARK = "\x1e"
#: Stands between the fields in that text, six times, and twice in each mark.
FIELD = "\x1f"
#: How often it stands between the fields of an entry, and in each of its marks.
BETWEEN_FIELDS, IN_MARK = 6, 2

LEDGER, ACCOUNT, CAP, CHARGE, ANSWER, WRITE_OFF, ACT = (
    "ledger",
    "account",
    "cap",
    "charge",
    "answer",
    "write-off",
    "act",
)


class Mark(NamedTuple):
    """A query that an entry charged for.

    `account` is empty for a query drawn under this very entry (all its accounts
    paid); otherwise it names the account that paid for seeing the answer that was
    drawn under entry `release`.
    """

    query: str
    account: str
    release: int


class Entry(NamedTuple):
    """One line of the ledger.

    Parameters
    ----------
    sequence : int
        Its place, from 1 without gaps.
    kind : str
        ``ledger``, ``account``, ``cap``, ``charge``, ``answer``, ``write-off`` or
        ``act``.
    request : str or None
        The idempotency key, of a charge.
    settles : int or None
        The sequence of the charge that an answer belongs to.
    charges : str
        Cost per account as canonical JSON, of a charge.
    body : str
        The rest, as canonical JSON.
    hash : str
        Seal over the previous entry's hash and all of the above.
    marks : tuple of Mark
        Queries charged for, where answers are remembered.
    """

    sequence: int
    kind: str
    request: str | None
    settles: int | None
    charges: str
    body: str
    hash: str
    marks: tuple[Mark, ...] = ()

    @classmethod
    def from_row(cls, row: Iterable[Any], marks: Iterable[Sequence[Any]]) -> Entry:
        """Build an entry from its fields in order and its marks."""
        sequence, kind, request, settles, charges, body, sealed = row
        noted = tuple(Mark(*mark) for mark in marks)
        return cls(sequence, kind, request, settles, charges, body, sealed, noted)

    def content(self) -> dict[str, Any]:
        """Return the body as a dictionary."""
        return dict(json.loads(self.body))

    @property
    def is_charge(self) -> bool:
        """Whether this entry charges accounts."""
        return self.kind == CHARGE

    def costs(self) -> Mapping[str, Spend]:
        """Return what a charge cost each account."""
        return costs_of(self.charges)


def seal(
    previous: str,
    sequence: int,
    kind: str,
    request: str | None,
    settles: int | None,
    charges: str,
    body: str,
    marks: Iterable[Sequence[Any]] = (),
) -> str:
    """Return the hash of an entry."""
    noted = "".join([mark_text(*mark) for mark in marks])
    text = sealed_text(previous, sequence, kind, request, settles, charges, body, noted)
    return sha256(text.encode()).hexdigest()


def sealed_text(
    previous: str,
    sequence: int,
    kind: str,
    request: str | None,
    settles: int | None,
    charges: str,
    body: str,
    marks: str,
) -> str:
    """Return what the hash of an entry is of; `marks` as `mark_text` writes them.

    The fields that we write hold no control characters (JSON escapes them, names and
    keys exclude them), so joining with two of them loses nothing. Who reads fields that
    others may have written must count `FIELD`: if it stands between fields and in marks
    only, and each mark is in a row of its own, the text can be split in one way.
    """
    return (
        f"{previous}\x1f{sequence}\x1f{kind}\x1f"
        f"{'-' if request is None else '=' + request}\x1f"
        f"{'-' if settles is None else settles}\x1f{charges}\x1f{body}{marks}"
    )


def mark_text(query: str, account: str, release: int) -> str:
    """Return what a hash covers of a mark; `MARK` occurs once in it."""
    return f"{MARK}{query}\x1f{account}\x1f{release}"


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(data: Any) -> str:
    """Return canonical JSON: one text for equal data."""
    return _encode.encode(data)


def charges_text(costs: Mapping[str, Spend]) -> str:
    """Write costs per account, sorted by account."""
    return _charges_text(tuple(costs.items()))


@lru_cache(maxsize=1024)
def _charges_text(costs: tuple[tuple[str, Spend], ...]) -> str:
    return canonical(dict(costs))


def charge_body(
    answers: int, certificate: str, fingerprint: str, relation: str, moment: int
) -> str:
    """Write the rest of a charge, canonical: ids and hashes need no escapes."""
    return (
        f'{{"answers":{answers},"certificate":"{certificate}",'
        f'"fingerprint":"{fingerprint}","relation":"{relation}","time":{moment}}}'
    )


# The same few answers occur over and over.
@lru_cache(maxsize=1024)
def answer_body(answers: tuple[bytes, ...]) -> str:
    """Write answers, canonical: base64 needs no escapes."""
    return '{"answers":["' + '","'.join(pack_answers(answers)) + '"]}'


@lru_cache(maxsize=1024)
def costs_of(charges: str) -> Mapping[str, Spend]:
    """Read costs per account. The same few texts occur over and over."""
    costs = json.loads(charges or "{}")
    return MappingProxyType({name: Spend(*cost) for name, cost in costs.items()})


def pack_answers(answers: Sequence[bytes]) -> list[str]:
    """Make answers fit for JSON."""
    return [base64.b64encode(answer).decode("ascii") for answer in answers]


def unpack_answers(packed: Sequence[str]) -> list[bytes]:
    """Undo `pack_answers`."""
    return [base64.b64decode(text) for text in packed]
