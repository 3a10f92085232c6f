"""Accounts, caps, charges and receipts: who may spend how much privacy loss.

A ledger charges before anything is answered, in one durable transaction over all the
accounts of a request. It knows certificates and numbers, nothing about learning.
"""

from reticent.ledger.accounts import AccountId, AccountScope, Balance
from reticent.ledger.cap_changes import check_cap
from reticent.ledger.caps import Cap, Method
from reticent.ledger.charges import Charge
from reticent.ledger.checkpoint_file import FileCheckpoints
from reticent.ledger.checkpoints import Checkpoint, CheckpointStore
from reticent.ledger.databases import LedgerDatabase
from reticent.ledger.entries import Entry
from reticent.ledger.memory import MemoryLedger
from reticent.ledger.operations import Draw
from reticent.ledger.protocol import Ledger, newest_first
from reticent.ledger.record_log import RECORDS, RecordLog
from reticent.ledger.requests import Outcome, Receipt, Request, RequestForm
from reticent.ledger.sql.group_commit import end_process
from reticent.ledger.sql.ledger import SQLLedger
from reticent.ledger.units import (
    DELTA_UNITS,
    EPSILON_UNITS,
    MAX_UNITS,
    NO_SPEND,
    RHO_UNITS,
    Spend,
    units_to_float,
)
from reticent.ledger.verification import ChainVerification

__all__ = [
    "DELTA_UNITS",
    "EPSILON_UNITS",
    "MAX_UNITS",
    "NO_SPEND",
    "RECORDS",
    "RHO_UNITS",
    "AccountId",
    "AccountScope",
    "Balance",
    "Cap",
    "ChainVerification",
    "Charge",
    "Checkpoint",
    "CheckpointStore",
    "Draw",
    "Entry",
    "FileCheckpoints",
    "Ledger",
    "LedgerDatabase",
    "MemoryLedger",
    "Method",
    "Outcome",
    "Receipt",
    "RecordLog",
    "Request",
    "RequestForm",
    "SQLLedger",
    "Spend",
    "check_cap",
    "end_process",
    "newest_first",
    "units_to_float",
]
