"""One installation on disk: its models, its ledger, its keys and its settings.

The command line and the service are two ways to use it. `train_and_store` makes a model
in a `Home`, `charge_release` pays for a released one, and `answer_rows` answers rows.
"""

from reticent.home.accounts import (
    cap_of,
    charge_release,
    check_prices,
    open_accounts,
    open_client,
    price_problem,
)
from reticent.home.api_keys import KeyRecord, Keyring, KeyStore, MemoryKeys, Role
from reticent.home.consensus_sessions import ConsensusSession
from reticent.home.dataset_budgets import DatasetBudget
from reticent.home.erasure import Erasure, erase_unit
from reticent.home.evaluations import METRICS, evaluate_model, evaluation_history
from reticent.home.fit_options import LEARNERS, LOCAL, RELATIONS, FitOptions
from reticent.home.home import COMMAND_LINE, DEFAULT_HOME, Home
from reticent.home.key_tables import SQLKeys
from reticent.home.lasting_sessions import LastingSession
from reticent.home.model_settings import (
    CALLBACK,
    BudgetSettings,
    ConsensusSettings,
    DatasetSettings,
    ModelSettings,
    OidcSettings,
)
from reticent.home.on_disk.ledger_copies import back_up_ledger, restore_ledger
from reticent.home.on_disk.versions import (
    ModelVersion,
    model_versions,
    remove_model,
    roll_back,
)
from reticent.home.periods import (
    LEAST_NEW,
    PeriodTotal,
    renew_budget,
    reset_period,
    split_budget,
    total_over_periods,
)
from reticent.home.rehearsal import rehearse
from reticent.home.served_models import (
    Registry,
    ServedModel,
    answer_rows,
    client_account,
    dataset_account,
    open_registry,
    registry_of,
    request_key,
)
from reticent.home.settings import Settings
from reticent.home.train_and_store import train_and_store
from reticent.home.tune_and_store import Tuning, tune_and_store

__all__ = [
    "CALLBACK",
    "COMMAND_LINE",
    "DEFAULT_HOME",
    "LEARNERS",
    "LEAST_NEW",
    "LOCAL",
    "METRICS",
    "RELATIONS",
    "BudgetSettings",
    "ConsensusSession",
    "ConsensusSettings",
    "DatasetBudget",
    "DatasetSettings",
    "Erasure",
    "FitOptions",
    "Home",
    "KeyRecord",
    "KeyStore",
    "Keyring",
    "LastingSession",
    "MemoryKeys",
    "ModelSettings",
    "ModelVersion",
    "OidcSettings",
    "PeriodTotal",
    "Registry",
    "Role",
    "SQLKeys",
    "ServedModel",
    "Settings",
    "Tuning",
    "answer_rows",
    "back_up_ledger",
    "cap_of",
    "charge_release",
    "check_prices",
    "client_account",
    "dataset_account",
    "erase_unit",
    "evaluate_model",
    "evaluation_history",
    "model_versions",
    "open_accounts",
    "open_client",
    "open_registry",
    "price_problem",
    "registry_of",
    "rehearse",
    "remove_model",
    "renew_budget",
    "request_key",
    "reset_period",
    "restore_ledger",
    "roll_back",
    "split_budget",
    "total_over_periods",
    "train_and_store",
    "tune_and_store",
]
