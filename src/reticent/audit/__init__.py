"""Privacy claims that anyone can check: exact verification and black-box bounds."""

from reticent.audit.bounds import (
    LowerBound,
    epsilon_at_least,
    lower_bound,
    trials_needed,
)
from reticent.audit.enumerating import exact_law, verify_release
from reticent.audit.exact import Verification, verify
from reticent.audit.membership import membership_inference
from reticent.audit.membership_curve import TradeOff, trade_off
from reticent.audit.membership_result import AttackPoint, MembershipInference
from reticent.audit.noise_losses import verify_noise
from reticent.audit.one_run import (
    OneRun,
    canaries_needed,
    epsilon_of_guesses,
    one_run,
    one_run_p_value,
)
from reticent.audit.replaying import Replay, Violation, replay, replay_pairs
from reticent.audit.report import Check, Report, Status
from reticent.audit.report_model import examine

__all__ = [
    "AttackPoint",
    "Check",
    "LowerBound",
    "MembershipInference",
    "OneRun",
    "Replay",
    "Report",
    "Status",
    "TradeOff",
    "Verification",
    "Violation",
    "canaries_needed",
    "epsilon_at_least",
    "epsilon_of_guesses",
    "exact_law",
    "examine",
    "lower_bound",
    "membership_inference",
    "one_run",
    "one_run_p_value",
    "replay",
    "replay_pairs",
    "trade_off",
    "trials_needed",
    "verify",
    "verify_noise",
    "verify_release",
]
