"""The report of an audit: its checks, their findings and the verdict."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from reticent.audit.membership.curve import TradeOff, trade_off
from reticent.audit.membership.result import MembershipInference
from reticent.errors import ReticentError
from reticent.guarantees import QUICK_METHODS, Certificate, Scope, repeat

FORMAT = 1
#: Numbers of answers for which the report bounds how often a guess is right.
_COUNTS = (1, 3, 10, 30, 100, 300, 1000)


class Status(Enum):
    """How a check ended."""

    KEPT = "kept"
    REFUTED = "refuted"
    NOTED = "noted"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Check:
    """One question that the audit asked, and its answer in plain words."""

    name: str  #: a short name for programs
    question: str  #: what was asked, for people
    status: Status  #: kept, refuted, noted (for a person to judge) or not run
    finding: str  #: the answer, in a sentence or two
    #: The numbers behind the finding.
    numbers: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**asdict(self), "status": self.status.value}


@dataclass(frozen=True)
class Report:
    """What an audit of one model found.

    Made by `examine`; readable by a data-protection officer as one page of HTML, and by
    programs as JSON.
    """

    model: dict[str, Any]  #: public facts: name, kind, id, dataset, units, shards
    #: The promise as the model states it; None if it could not be read.
    certificate: Certificate[Any] | None
    checks: tuple[Check, ...]  #: in the order they were made
    answers: int  #: the number of answers whose joint promise the report states
    delta: float  #: slack of the promise about these answers
    made: str  #: time of the audit, in UTC
    #: The attack on copies of the model, and on the same learner without protection.
    attack: MembershipInference | None = None
    unprotected: MembershipInference | None = None
    #: Whether findings depend on records; then the page is as sensitive as they are.
    uses_records: bool = False

    @property
    def refuted(self) -> bool:
        """Whether any check found the promise broken."""
        return any(check.status is Status.REFUTED for check in self.checks)

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        count = {
            status: sum(c.status is status for c in self.checks) for status in Status
        }
        if self.refuted:
            return (
                f"Refuted: {count[Status.REFUTED]} of {len(self.checks)} checks found "
                "that this model does not keep what it promises. Do not use it."
            )
        rest = ""
        if count[Status.NOTED]:
            rest += f" {count[Status.NOTED]} need a person's judgement."
        if count[Status.NOT_RUN]:
            rest += f" {count[Status.NOT_RUN]} could not be run here."
        return (
            f"Nothing refuted: {count[Status.KEPT]} of {len(self.checks)} checks "
            f"found the promise kept.{rest}"
        )

    def promise(self, answers: int) -> Certificate[Any] | None:
        """Return what this many answers promise together, or None if unknown."""
        if self.certificate is None or self.certificate.scope is not Scope.ANSWER:
            return self.certificate
        try:
            return repeat(
                self.certificate,
                answers,
                delta=self.delta,
                methods=QUICK_METHODS,
            )
        except ReticentError:
            return None

    def curve(self, answers: int) -> TradeOff | None:
        """Return what this many answers allow an attacker, or None if unknown."""
        if self.certificate is None:
            return None
        try:
            return trade_off(self.certificate, answers)
        except ReticentError:
            return None

    def guesses(self) -> list[tuple[int, float]]:
        """Return how often a guess about membership can be right, by answers seen.

        For a coin toss between "in the data" and "not in the data", which a blind
        guess wins half of the time.
        """
        found = []
        for answers in sorted({*_COUNTS, self.answers}):
            curve = self.curve(answers)
            if curve is not None:
                found.append((answers, best_guess(curve)))
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        total = self.promise(self.answers)
        return {
            "format": FORMAT,
            "made": self.made,
            "refuted": self.refuted,
            "verdict": self.verdict,
            "model": self.model,
            "certificate": None
            if self.certificate is None
            else self.certificate.as_dict(),
            "answers": self.answers,
            "delta": self.delta,
            "together": None if total is None else total.guarantee.as_dict(),
            "guesses": [
                {"answers": answers, "right_at_most": share}
                for answers, share in self.guesses()
            ],
            "checks": [check.as_dict() for check in self.checks],
            "attack": None if self.attack is None else self.attack.as_dict(),
            "unprotected": None
            if self.unprotected is None
            else self.unprotected.as_dict(),
            "uses_records": self.uses_records,
        }

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(self.as_dict(), indent=1, allow_nan=False) + "\n"

    def to_html(self) -> str:
        """Return the report as one self-contained HTML page."""
        from reticent.audit.report.html import report_page

        return report_page(self)

    def write(self, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
        """Write ``audit.html`` and ``audit.json``, readable by their owner alone."""
        place = Path(folder)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        written = []
        for name, text in (
            ("audit.html", self.to_html()),
            ("audit.json", self.to_json()),
        ):
            path = place / name
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")
            written.append(path)
        return written[0], written[1]

    def __str__(self) -> str:
        width = max(len(check.status.value) for check in self.checks)
        lines = [
            f"{check.status.value.ljust(width)}  {check.question} {check.finding}"
            for check in self.checks
        ]
        return "\n".join([self.verdict, *lines])


def best_guess(curve: TradeOff) -> float:
    """Return an upper bound on the share of fair membership games that anybody can win.

    It is the largest value on a grid plus what can lie between two of its points; both
    rates are monotone.
    """
    import numpy as np

    rates = np.concatenate([np.geomspace(1e-9, 1e-3, 200), np.linspace(1e-3, 1, 4000)])
    found = curve.true_positives_at_most(rates)
    # Between two points the gain is below the later true less the earlier false rate.
    gains = np.concatenate([[found[0]], found[1:] - rates[:-1]])
    return float(min(1.0, (1 + gains.max()) / 2))
