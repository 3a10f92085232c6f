"""A tiny lasting law: units on a line that vote on questions near them (P10)."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from reticent.guarantees import gaussian_to_approx, individual_filter_replacing
from reticent.mechanisms import (
    RandomSource,
    SystemSource,
    UnitFilter,
    draw_rounded_gaussian,
)
from reticent.prediction import AnswerLaw

NEAR, FAR = 3, 9
AROUND = 61
MU, SCALE = 1.0, 40.0


@dataclass
class ToySpending:
    """What each unit has spent; with a share, also what each client caused."""

    spent: np.ndarray

    def copy(self):
        return ToySpending(self.spent.copy())

    def to_bytes(self):
        return self.spent.tobytes()

    @classmethod
    def from_bytes(cls, content):
        return cls(np.frombuffer(content, np.uint32).copy())


@dataclass(frozen=True)
class ToyAnswers:
    """As `LocalAnswers`."""

    answers: np.ndarray
    evidence: np.ndarray
    trace: np.ndarray


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ToyLaw(AnswerLaw):
    """Units with a place and a label; a question is a place on a circle.

    Different numbers may be one place, and are then two questions about it.
    """

    places: np.ndarray
    labels: np.ndarray
    source: RandomSource = field(default_factory=SystemSource)
    constant_time: bool = True

    def response(self, X):
        raise NotImplementedError

    def encode(self, X):
        return np.asarray(X, dtype=np.int16).reshape(len(X), 1)

    def start(self):
        return ToySpending(np.zeros(len(self.places), np.uint32))

    def ask(self, codes, spending, client=None):
        rows = []
        for code in codes[:, 0]:
            counted = self._admitted(code, FAR, spending)
            count = len(counted) + self._noise()
            radius = NEAR if count > 60 else FAR
            voters = self._admitted(code, radius, spending)
            votes = int(self.labels[voters].sum() * 2 - len(voters)) + self._noise()
            rows.append((int(votes > 0), float(count), [radius, votes]))
        answers, evidence, trace = zip(*rows, strict=True)
        return ToyAnswers(
            self.classes[list(answers)], np.array(evidence), np.array(trace, np.int64)
        )

    def replay(self, codes, trace, spending, client=None):
        for code, radius in zip(codes[:, 0], trace[:, 0], strict=True):
            self._admitted(code, FAR, spending)
            self._admitted(code, int(radius), spending)

    def _admitted(self, code, radius, spending):
        near = np.flatnonzero(np.abs(self.places - int(code) % AROUND) <= radius)
        filtered = UnitFilter(len(self.places), MU**2 / 2, spending.spent)
        price = filtered.price(SCALE, 2)
        return near[filtered.admit(near, np.ones(len(near)), price)]

    def _noise(self) -> int:
        return int(draw_rounded_gaussian(np.zeros(1, np.int64), SCALE, self.source)[0])


def toy_law(n_units: int = 200, *, identity: str | None = None, **changes: Any):
    """Return a law over units that fill a line of places."""
    places = np.arange(n_units) % 50
    certificate = gaussian_to_approx(
        individual_filter_replacing(n=n_units, mu=MU, scope="interface"), delta=1e-6
    )
    known = {} if identity is None else {"identity": identity}
    facts = {
        "certificate": certificate,
        "classes": np.array(["no", "yes"]),
        "places": places,
        "labels": (places > 25).astype(np.int64),
    }
    return ToyLaw(**{**facts, **known, **changes})


def toy_predictor(n_units: int = 200, **changes: Any):
    """Return something fitted with this law."""
    return SimpleNamespace(law_=toy_law(n_units, **changes))
