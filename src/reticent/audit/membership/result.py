"""The result of a membership attack, compared with what is allowed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from scipy import stats

from reticent.audit.bounds import epsilon_at_least
from reticent.audit.membership.curve import TradeOff
from reticent.guarantees import Certificate


@dataclass(frozen=True)
class AttackPoint:
    """The attack at one threshold, chosen on games that are not counted here."""

    aim: float  #: the false positive rate that the threshold was chosen for
    #: Games in which the attack named the target, without and with it, of `games` each.
    false_positives: int
    true_positives: int
    games: int
    #: Estimate, lower and upper end of the exact interval.
    false_positive_rate: tuple[float, float, float]
    true_positive_rate: tuple[float, float, float]
    #: The largest number of true positives that the certificate allows at the upper end
    #: of the false positive rate; None if there is no certificate.
    allowed: float | None

    @property
    def refutes(self) -> bool:
        """Whether the attack does significantly better than the certificate allows."""
        return self.allowed is not None and self.true_positive_rate[1] > self.allowed


@dataclass(frozen=True)
class MembershipInference:
    """The outcome of `membership_inference`."""

    points: tuple[AttackPoint, ...]  #: true positives at low false positive rates
    #: What one answer promised; None for a model that promises nothing.
    certificate: Certificate[Any] | None
    #: What the promise allows for all answers of a game together.
    allowed: TradeOff | None
    #: Sizes of the experiment; `games` counts those of each world.
    answers: int
    poison: int
    games: int
    shadows: int
    targets: int
    n: int
    confidence: float  #: probability that every interval of `points` holds
    #: Every threshold, without intervals, for plots.
    curve: tuple[tuple[float, float], ...]

    @property
    def refuted(self) -> bool:
        """Whether some point lies significantly above what the certificate allows."""
        return any(point.refutes for point in self.points)

    @property
    def epsilon(self) -> float:
        """A lower bound on the epsilon of any pure promise about all answers."""
        level = (1 - self.confidence) / len(self.points)
        return max(
            epsilon_at_least(p.true_positives, p.false_positives, p.games, level=level)
            for p in self.points
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "points": [{**asdict(p), "refutes": p.refutes} for p in self.points],
            "certificate": None if self.certificate is None else self.certificate.id,
            "answers": self.answers,
            "poison": self.poison,
            "games": self.games,
            "shadows": self.shadows,
            "targets": self.targets,
            "n": self.n,
            "confidence": self.confidence,
            "epsilon": self.epsilon,
            "refuted": self.refuted,
            "curve": [list(point) for point in self.curve],
        }

    def __str__(self) -> str:
        lines = [
            f"membership inference by {self.answers} answers: {self.games} games each "
            f"way, confidence {self.confidence:g}"
        ]
        for p in self.points:
            (fpr, _, most), (tpr, least, _) = (
                p.false_positive_rate,
                p.true_positive_rate,
            )
            allowed = "" if p.allowed is None else f", allowed {p.allowed:.3f}"
            lines.append(
                f"  FPR {fpr:.3f} (<= {most:.3f}): TPR {tpr:.3f} (>= {least:.3f})"
                f"{allowed}{'  REFUTED' if p.refutes else ''}"
            )
        return "\n".join(lines)


def exact_rate(hits: int, trials: int, tail: float) -> tuple[float, float, float]:
    """Return a rate with its Clopper-Pearson interval, `tail` on either side."""
    low = float(stats.beta.ppf(tail, hits, trials - hits + 1)) if hits else 0.0
    high = 1.0
    if hits < trials:
        high = float(stats.beta.isf(tail, hits + 1, trials - hits))
    return hits / trials, low, high
