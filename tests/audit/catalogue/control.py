"""What a control is: a mechanism with a known mistake, and its right twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from reticent.audit.bounds import lower_bound
from reticent.audit.verification.exact import Verification
from reticent.audit.verification.replaying import Replay

Method = Literal["exact", "replay", "statistical"]

# Enough for every control: the least obvious, noise in floating point, would slip
# through once in 10^29 audits.
TRIALS = 1600
CONFIDENCE = 0.999


@dataclass(frozen=True)
class Finding:
    """What an audit said about a mechanism.

    Attributes
    ----------
    flagged : bool
        Whether the promise is refuted.
    said : str
        The audit's own words.
    observed, promised : float
        A loss, and what was promised; for replays the largest move as a share of what
        was declared, and 1.
    """

    flagged: bool
    said: str
    observed: float
    promised: float


@dataclass(frozen=True)
class Control:
    """A mistake that has been made, as a mechanism that an audit must flag.

    Attributes
    ----------
    name : str
        A short name.
    mistake : str
        What is wrong, in a sentence.
    seen : str
        Where it was made or is warned of.
    method : {"exact", "replay", "statistical"}
        How it is audited. Only a statistical audit can err, with the stated level.
    audit : callable
        ``audit(broken, **settings)`` audits the broken mechanism or its right twin;
        statistical ones take `trials` and `confidence`.
    """

    name: str
    mistake: str
    seen: str
    method: Method
    audit: Callable[..., Finding]

    def broken(self, **settings: Any) -> Finding:
        """Audit the mechanism with the mistake; it must be flagged."""
        return self.audit(True, **settings)

    def right(self, **settings: Any) -> Finding:
        """Audit the mechanism without it; it must not be flagged."""
        return self.audit(False, **settings)


def verified(report: Verification) -> Finding:
    """Turn an exact verification into a finding."""
    return Finding(not report.holds, str(report), report.worst, report.allowed)


def replayed(report: Replay) -> Finding:
    """Turn a replay into a finding."""
    return Finding(not report.holds, str(report), report.share, 1.0)


def sampled(
    mechanism: Callable[[Any], Any],
    data: Any,
    neighbour: Any,
    epsilon: float,
    *,
    trials: int = TRIALS,
    confidence: float = CONFIDENCE,
) -> Finding:
    """Audit a claim of `epsilon` by samples alone."""
    found = lower_bound(
        mechanism, data, neighbour, trials=trials, confidence=confidence
    )
    said = f"{found}; claimed epsilon = {epsilon:g}"
    return Finding(found.refutes(epsilon), said, found.epsilon, epsilon)
