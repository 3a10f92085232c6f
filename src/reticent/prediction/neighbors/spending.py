"""What each unit has spent on local answers, and what answers have taught so far."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidParameterError, NotDeployableError
from reticent.mechanisms import UnitFilter
from reticent.prediction.neighbors.votes import MEAN_WEIGHT


class Spending:
    """The state of a fitted local predictor: it changes with every question.

    As secret as the records: who has spent how much tells who they are.

    Parameters
    ----------
    spent : ndarray of shape (n_units,), dtype uint32
        What each unit has spent, in steps of `UnitFilter`.
    cap : float
        What a unit may spend.
    lessons : Lessons
        What released numbers have taught.
    """

    def __init__(self, spent: NDArray[np.uint32], cap: float, lessons: Lessons) -> None:
        self.account = UnitFilter(len(spent), cap, spent)
        self.lessons = lessons
        self.clients: dict[str, UnitFilter] = {}
        self._process = os.getpid()

    @property
    def spent(self) -> NDArray[np.uint32]:
        """What each unit has spent."""
        return self.account.spent

    def check(self) -> None:
        """Refuse to go on in a copy of the process: two copies would spend twice."""
        if os.getpid() != self._process:
            raise NotDeployableError(
                "this predictor was fitted or loaded in another process. Each process "
                "would spend its records' budget again: answer through a ledger that "
                "all processes share."
            )

    def copy(self) -> Spending:
        """Return an independent copy, for a question whose answer may be discarded."""
        found = Spending(self.spent.copy(), self.account.cap, self.lessons.copy())
        for name, own in self.clients.items():
            found.clients[name] = UnitFilter(own.n_units, own.cap, own.spent.copy())
        return found

    def to_bytes(self) -> bytes:
        """Return the state as bytes: as secret as the state."""
        head = {
            "n_units": self.account.n_units,
            "cap": self.account.cap,
            "lessons": self.lessons.as_list(),
            "clients": [[name, own.cap] for name, own in self.clients.items()],
        }
        accounts = (self.account, *self.clients.values())
        spent = b"".join(each.spent.astype("<u4").tobytes() for each in accounts)
        return json.dumps(head).encode() + b"\n" + spent

    @classmethod
    def from_bytes(cls, content: bytes) -> Spending:
        """Undo `to_bytes`, to the bit."""
        text, _, rest = content.partition(b"\n")
        head = json.loads(text)
        spent = np.frombuffer(rest, "<u4").astype(np.uint32)
        rows = spent.reshape(-1, head["n_units"])
        found = cls(rows[0].copy(), head["cap"], Lessons(*head["lessons"]))
        for (name, cap), own in zip(head["clients"], rows[1:], strict=True):
            found.clients[name] = UnitFilter(head["n_units"], cap, own.copy())
        return found

    def client(self, name: str, share: float) -> UnitFilter:
        """Return what one client's questions have cost each unit."""
        if name not in self.clients:
            cap = self.account.cap * share
            self.clients[name] = UnitFilter(self.account.n_units, cap)
        return self.clients[name]

    def __reduce__(self) -> Any:
        raise InvalidParameterError(
            "what units have spent is not pickled or copied: a second copy would spend "
            "their budget again. Store the model with reticent.storage."
        )


class Lessons:
    """What the noisy numbers of earlier questions say about later ones.

    Only released numbers enter, so nothing here costs anything.

    Attributes
    ----------
    asked : float
        How many questions found enough units.
    start : float
        Logarithm of the square of the radius that suits a usual question.
    seen, expected, fourth : float
        Sums over questions, by weight: of one, of squares of what the model expects,
        and of squares of these.
    said, both, product : float
        Sums of squares of rates, less what noise adds to them; of those times the
        squares of what is expected; and of rates times what is expected.
    error : float
        Variance of the noise in `said`.
    counted, spoke : float
        How many units were counted, and the weight of those who spoke.
    """

    _ORDER = (
        "asked",
        "start",
        "seen",
        "expected",
        "fourth",
        "said",
        "both",
        "product",
        "error",
        "counted",
        "spoke",
    )
    asked: float
    start: float
    seen: float
    expected: float
    fourth: float
    said: float
    both: float
    product: float
    error: float
    counted: float
    spoke: float

    def __init__(self, *numbers: float) -> None:
        given = numbers or (0.0, _FIRST_START) + (0.0,) * 9
        for name, number in zip(self._ORDER, given, strict=True):
            setattr(self, name, float(number))

    def copy(self) -> Lessons:
        """Return an independent copy."""
        return Lessons(*self.as_list())

    def as_list(self) -> list[float]:
        """Return plain data for JSON."""
        return [float(getattr(self, name)) for name in self._ORDER]

    @property
    def slope(self) -> float:
        """What a rate is on average, for one that the model expects of one."""
        guess = 0.05 * _GUESSES
        return min(max((self.product + guess) / (self.expected + guess), 0.05), 20.0)

    @property
    def strength(self) -> float:
        """A cautious estimate of the variance of local rates around the model.

        The weight of who speaks varies, by which rates vary the more the larger they
        are expected to be. So the variance is that where the model expects nothing:
        the intercept of a line through squares of rates.
        """
        seen = max(self.seen, 1e-9)
        spread = self.fourth - self.expected**2 / seen
        incline = 0.0
        if spread > 1e-6 * seen:
            incline = (self.both - self.expected * self.said / seen) / spread
        wider = math.sqrt(max(self.fourth, 1e-12) / max(spread, 1e-12))
        error = math.sqrt(self.error) * (min(wider, 10.0) if incline else 1.0)
        rest = self.said - incline * self.expected - error
        return min(max(rest / (seen + _GUESSES), _LEAST_STRENGTH), 4.0)

    def usual_weight(self, wanted: float) -> float:
        """Return the weight of a counted unit, at first a guess."""
        guess = 8 * wanted
        found = (self.spoke + MEAN_WEIGHT * guess) / (self.counted + guess)
        return min(max(found, 0.05), 1.0)

    def saw_radius(self, radius: int, *, enough: bool) -> None:
        """Learn from the radius of one more question.

        Questions that no unit is near say nothing about others, except at first.
        """
        if not enough:
            self.start += 0.7 if self.asked < 8 else 0.0
            return
        self.asked += 1
        pace = max(1 / (self.asked + 1), 0.02)
        self.start += pace * (math.log(max(radius, 1)) - self.start)

    def saw_rates(
        self, said: float, expected: float, product: float, noise: float
    ) -> None:
        """Learn from squares of rates, of which `noise` is noise."""
        weight = 1 / (1 + noise) ** 2
        self.seen += weight
        self.expected += weight * expected
        self.fourth += weight * expected**2
        self.said += weight * (said - noise)
        self.both += weight * (said - noise) * expected
        self.product += weight * product
        self.error += weight**2 * (2 * noise**2 + 4 * noise * expected)

    def saw_weight(self, counted: float, spoke: float) -> None:
        """Learn how much weight counted units have."""
        self.counted += counted
        self.spoke += spoke


_LEAST_STRENGTH = 1e-4
# Before questions teach more, this many are guessed at.
_GUESSES = 20
# Logarithm of the square of a radius that reaches hardly anybody.
_FIRST_START = math.log(1 << 13)
