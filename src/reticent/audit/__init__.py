"""Privacy claims that anyone can check: exact verification and black-box bounds."""

from reticent.audit.bounds import (
    LowerBound,
    epsilon_at_least,
    lower_bound,
    trials_needed,
)
from reticent.audit.exact import Verification, verify

__all__ = [
    "LowerBound",
    "Verification",
    "epsilon_at_least",
    "lower_bound",
    "trials_needed",
    "verify",
]
