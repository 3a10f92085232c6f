"""Who may spend how much: accounts, caps, charges, receipts.

A ledger charges before anything is answered, in one durable transaction over all the
accounts that a request touches. It knows certificates and numbers, nothing about
learning.
"""

from reticent.ledger.accounts import AccountId, AccountScope, Balance
from reticent.ledger.caps import Cap, Method
from reticent.ledger.charges import Charge
from reticent.ledger.checkpoints import Checkpoint, CheckpointStore, FileCheckpoints
from reticent.ledger.entries import CHARGE, Entry
from reticent.ledger.memory import MemoryLedger
from reticent.ledger.operations import Draw
from reticent.ledger.protocol import Ledger
from reticent.ledger.requests import Outcome, Receipt, Request
from reticent.ledger.sql.engines import WRITES, fault_of, open_engine
from reticent.ledger.sql.group_commit import end_process
from reticent.ledger.sql.ledger import SQLLedger
from reticent.ledger.units import (
    DELTA_UNITS,
    EPSILON_UNITS,
    LARGEST,
    NOTHING,
    RHO_UNITS,
    Spend,
    as_float,
)
from reticent.ledger.verification import Verification

__all__ = [
    "CHARGE",
    "DELTA_UNITS",
    "EPSILON_UNITS",
    "LARGEST",
    "NOTHING",
    "RHO_UNITS",
    "WRITES",
    "AccountId",
    "AccountScope",
    "Balance",
    "Cap",
    "Charge",
    "Checkpoint",
    "CheckpointStore",
    "Draw",
    "Entry",
    "FileCheckpoints",
    "Ledger",
    "MemoryLedger",
    "Method",
    "Outcome",
    "Receipt",
    "Request",
    "SQLLedger",
    "Spend",
    "Verification",
    "as_float",
    "end_process",
    "fault_of",
    "open_engine",
]
