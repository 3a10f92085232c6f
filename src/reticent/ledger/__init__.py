"""Who may spend how much: accounts, caps, charges, receipts.

A ledger charges before anything is answered, in one durable transaction over all the
accounts that a request touches. It knows certificates and numbers, nothing about
learning.
"""

from reticent.ledger.accounts import AccountId, AccountScope, Balance
from reticent.ledger.caps import Cap, Method
from reticent.ledger.charges import Charge
from reticent.ledger.checkpoints import (
    Checkpoint,
    CheckpointStore,
    Ed25519Signer,
    FileCheckpoints,
    HMACSigner,
    Signer,
)
from reticent.ledger.commits import end_process
from reticent.ledger.entries import Entry
from reticent.ledger.memory import MemoryLedger
from reticent.ledger.operations import Draw
from reticent.ledger.protocol import Ledger
from reticent.ledger.requests import Outcome, Receipt, Request
from reticent.ledger.sql import SQLLedger
from reticent.ledger.units import Spend
from reticent.ledger.verification import Verification

__all__ = [
    "AccountId",
    "AccountScope",
    "Balance",
    "Cap",
    "Charge",
    "Checkpoint",
    "CheckpointStore",
    "Draw",
    "Ed25519Signer",
    "Entry",
    "FileCheckpoints",
    "HMACSigner",
    "Ledger",
    "MemoryLedger",
    "Method",
    "Outcome",
    "Receipt",
    "Request",
    "SQLLedger",
    "Signer",
    "Spend",
    "Verification",
    "end_process",
]
