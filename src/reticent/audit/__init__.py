"""Checks of privacy claims: exact verification, black-box bounds and attacks."""

from reticent.audit.bounds import (
    LowerBound,
    epsilon_at_least,
    lower_bound,
    trials_needed,
)
from reticent.audit.membership.curve import TradeOff, trade_off
from reticent.audit.membership.inference import membership_inference
from reticent.audit.membership.result import AttackPoint, MembershipInference
from reticent.audit.one_run import (
    OneRun,
    canaries_needed,
    epsilon_of_guesses,
    one_run,
    one_run_p_value,
)
from reticent.audit.report.examine import examine
from reticent.audit.report.report import Check, Report, Status
from reticent.audit.verification.enumerating import exact_law, verify_release
from reticent.audit.verification.exact import Verification, verify
from reticent.audit.verification.noise_losses import verify_noise
from reticent.audit.verification.replaying import (
    Replay,
    Violation,
    replay,
    replay_pairs,
)

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
