"""Signed checkpoints in separate storage: they reveal a restored older copy.

A chain of hashes cannot tell that its end was cut off, or that yesterday's file was
put back. A checkpoint can: it states, under a signature, how far the ledger had come.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from reticent.errors import LedgerError
from reticent.ledger.accounts import AccountId, Balance
from reticent.ledger.caps import Cap
from reticent.ledger.checkpoint_file import FileCheckpoints, complete_lines
from reticent.ledger.entries import canonical
from reticent.ledger.units import Spend
from reticent.signing import Signer


@dataclass(frozen=True, slots=True)
class Head:
    """The last entry of a ledger.

    `epoch` counts how often the budget was written off: a ledger that was written off
    is ahead of every earlier copy, whatever their lengths.
    """

    ledger: str
    epoch: int
    sequence: int
    head: str

    @property
    def progress(self) -> tuple[int, int]:
        """Epoch and sequence; they grow from one checkpoint to the next."""
        return self.epoch, self.sequence

    def to_line(self, signer: Signer) -> bytes:
        """Return signed JSON in one line."""
        # As `canonical` writes it: ids and hashes need no escapes.
        payload = (
            f'{{"epoch":{self.epoch},"head":"{self.head}","ledger":"{self.ledger}",'
            f'"sequence":{self.sequence}}}'
        )
        return _signed_line(payload, signer)


def _signed_line(payload: str, signer: Signer) -> bytes:
    signature = signer.sign(payload.encode()).hex()
    # As `canonical` writes the whole, in a third of the time.
    line = (
        f'{{"algorithm":{canonical(signer.algorithm)},'
        f'"checkpoint":{canonical(payload)},"signature":"{signature}"}}\n'
    )
    return line.encode()


@dataclass(frozen=True, slots=True)
class Checkpoint(Head):
    """How far a ledger had come, with what was spent by then.

    `latest` is the head when the ledger had come further than that.
    """

    accounts: Mapping[str, Balance]
    latest: Head | None = None

    @property
    def reached(self) -> Head:
        """The last place that the ledger had reached."""
        return self if self.latest is None else self.latest

    def to_bytes(self, signer: Signer) -> bytes:
        """Return a signed line."""
        accounts = {
            name: {"cap": balance.cap.to_json(), "spent": balance.spent}
            for name, balance in self.accounts.items()
        }
        payload = canonical(
            {
                "ledger": self.ledger,
                "epoch": self.epoch,
                "sequence": self.sequence,
                "head": self.head,
                "accounts": accounts,
            }
        )
        return _signed_line(payload, signer)

    @classmethod
    def from_bytes(cls, data: bytes, signer: Signer) -> Checkpoint:
        """Read what `to_bytes` wrote, and the heads after it; refuse anything else.

        A last line without its end was being written when the machine stopped: nobody
        has seen what it stands for.
        """
        first, *others = complete_lines(data) or [data]
        content = _opened(first, signer)
        latest = _head_of(_opened(others[-1], signer)) if others else None
        begun = _head_of(content)
        if latest is not None and latest.ledger != begun.ledger:
            raise _damaged()
        accounts = {
            name: Balance(
                AccountId.parse(name),
                Cap.from_json(state["cap"]),
                Spend(*state["spent"]),
            )
            for name, state in content["accounts"].items()
        }
        return cls(
            begun.ledger, begun.epoch, begun.sequence, begun.head, accounts, latest
        )


def _opened(line: bytes, signer: Signer) -> dict[str, Any]:
    """Return what a line says, if its signature is right."""
    try:
        signed = json.loads(line)
        payload = signed["checkpoint"]
        genuine = signed["algorithm"] == signer.algorithm and signer.verify(
            payload.encode(), bytes.fromhex(signed["signature"])
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        genuine = False
    if not genuine:
        raise _damaged()
    content: dict[str, Any] = json.loads(payload)
    return content


def _head_of(content: Mapping[str, Any]) -> Head:
    names = ("ledger", "epoch", "sequence", "head")
    return Head(*(content[name] for name in names))


def _damaged() -> LedgerError:
    return LedgerError(
        "the checkpoint is damaged or signed with another key. Use the key it was "
        "signed with, or write the budget off."
    )


class CheckpointStore(Protocol):
    """Separate storage for checkpoints: another disk or machine, an object store."""

    def read(self) -> bytes | None:
        """Return the checkpoint, or None if there never was one."""
        ...

    def write(self, data: bytes, *, progress: tuple[int, int], force: bool) -> None:
        """Keep a checkpoint durably, unless one with more progress is there.

        With `force`, keep it in any case. Return only when it is durable.
        """
        ...


@dataclass(frozen=True, slots=True)
class SignedCheckpoints:
    """A store of checkpoints and the key that signs them."""

    store: CheckpointStore
    signer: Signer

    def read(self) -> Checkpoint | None:
        """Return the checkpoint after checking its signature."""
        data = self.store.read()
        return None if data is None else Checkpoint.from_bytes(data, self.signer)

    def keep(self, checkpoint: Checkpoint, *, force: bool = False) -> None:
        """Sign a checkpoint and store it."""
        data = checkpoint.to_bytes(self.signer)
        self.store.write(data, progress=checkpoint.progress, force=force)

    @property
    def takes_heads(self) -> bool:
        """Whether the store has room for a head after its checkpoint."""
        return isinstance(self.store, FileCheckpoints) and self.store.has_room

    def keep_head(self, head: Head) -> None:
        """Sign a head and store it; only where `takes_heads` says so."""
        if isinstance(self.store, FileCheckpoints):
            self.store.append(head.to_line(self.signer), progress=head.progress)
