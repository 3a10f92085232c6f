"""What each unit has spent on local answers, and what answers have taught so far."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats
from reticent.errors import InvalidParameterError, NotDeployableError
from reticent.mechanisms import UnitFilter
from reticent.prediction.neighbors.votes import MEAN_WEIGHT, SHELLS


class Spending:
    """The state of a fitted local predictor: it changes with every question.

    As secret as the records: what units have spent can reveal who they are.

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
        # Clients whose accounts another copy uses too; see `client`.
        self._shared: set[str] = set()
        self._process = os.getpid()

    @property
    def spent(self) -> NDArray[np.uint32]:
        """What each unit has spent."""
        return self.account.spent

    def check(self) -> None:
        """Refuse to continue in a copy of the process: two copies would spend twice."""
        if os.getpid() != self._process:
            raise NotDeployableError(
                "this predictor was fitted or loaded in another process. Each process "
                "would spend its records' budget again: answer through a ledger that "
                "all processes share."
            )

    def copy(self) -> Spending:
        """Return an independent copy, for a question whose answer may be discarded."""
        found = Spending(self.spent.copy(), self.account.cap, self.lessons.copy())
        # Most clients do not ask this time, so their accounts are copied when they do.
        found.clients = dict(self.clients)
        found._shared, self._shared = set(self.clients), set(self.clients)
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
        """Undo `to_bytes` exactly."""
        text, _, rest = content.partition(b"\n")
        head = json.loads(text)
        spent = np.frombuffer(rest, "<u4").astype(np.uint32)
        rows = spent.reshape(-1, head["n_units"])
        found = cls(rows[0].copy(), head["cap"], Lessons(*head["lessons"]))
        for (name, cap), own in zip(head["clients"], rows[1:], strict=True):
            found.clients[name] = UnitFilter(head["n_units"], cap, own.copy())
        return found

    def client(self, name: str, share: float) -> UnitFilter:
        """Return what one client's questions have cost each unit, to be charged."""
        known = self.clients.get(name)
        if known is None:
            cap = self.account.cap * share
            self.clients[name] = UnitFilter(self.account.n_units, cap)
        elif name in self._shared:
            own = known.spent.copy()
            self.clients[name] = UnitFilter(known.n_units, known.cap, own)
        self._shared.discard(name)
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
    seen, said, error : float
        Sums over questions, by weight: of one, of squares of rates less what noise
        adds to them, and of the variance of that.
    counted, spoke : float
        How many units were counted, and the weight of those that voted.
    expected, product : ndarray of float
        By the number of shells that were searched, sums of squares of what the model
        expects, and of rates times that.
    fits : ndarray of float, of shape (spreads, strengths)
        How well each explains by how much votes differ from the model.
    """

    _ORDER = ("asked", "start", "seen", "said", "error", "counted", "spoke")
    asked: float
    start: float
    seen: float
    said: float
    error: float
    counted: float
    spoke: float

    def __init__(self, *numbers: float) -> None:
        count = len(self._ORDER)
        numbers = numbers or (0.0, _FIRST_START) + (0.0,) * (self.length() - 2)
        if len(numbers) != self.length():
            raise InvalidParameterError(
                f"lessons are {self.length()} numbers; got {len(numbers)}."
            )
        for name, number in zip(self._ORDER, numbers[:count], strict=True):
            setattr(self, name, float(number))
        rest = np.array(numbers[count:], dtype=np.float64)
        self.expected, self.product, fits = np.split(rest, [_SHELLS, 2 * _SHELLS])
        self.fits = fits.reshape(len(_SPREADS), len(_STRENGTHS))

    @classmethod
    def length(cls) -> int:
        """Return how many numbers they are."""
        return len(cls._ORDER) + 2 * _SHELLS + len(_SPREADS) * len(_STRENGTHS)

    def copy(self) -> Lessons:
        """Return an independent copy."""
        return Lessons(*self.as_list())

    def as_list(self) -> list[float]:
        """Return plain data for JSON."""
        own = [float(getattr(self, name)) for name in self._ORDER]
        arrays = (self.expected, self.product, self.fits.ravel())
        return own + np.concatenate(arrays).tolist()

    def slope(self, shells: int) -> float:
        """Return the mean rate where the model expects a rate of one.

        A search that ended early often did so because of the noise of its count, and
        then fewer units speak than were counted. So it depends on where it ended.
        """
        guess = 0.05 * _GUESSES
        usual = (self.product.sum() + guess) / (self.expected.sum() + guess)
        own = self.product[shells - 1] + guess * usual
        return min(max(float(own / (self.expected[shells - 1] + guess)), 0.05), 20.0)

    @property
    def strength(self) -> float:
        """A cautious estimate of the variance of rates where the model expects none."""
        rest = self.said - math.sqrt(self.error)
        return min(max(rest / (self.seen + _GUESSES), _LEAST_STRENGTH), 4.0)

    @property
    def difference(self) -> float:
        """How much votes are trusted: a variance of rates around the model's.

        It is the most likely variance where the model is least sure, made smaller if it
        is small and larger if it is large. What little is left when all else is
        explained is mostly not local. And where rates do differ few of them differ by
        much, so votes against the model are right more often than a normal law says.
        """
        best = int(np.argmax(self.fits - _DOUBT))
        found = float(_STRENGTHS[best % len(_STRENGTHS)])
        return found * min(found / _CLEAR_DIFFERENCE, _MOST_TRUST)

    def usual_weight(self, wanted: float) -> float:
        """Return the weight of a counted unit, at first a guess."""
        guess = 8 * wanted
        found = (self.spoke + MEAN_WEIGHT * guess) / (self.counted + guess)
        return min(max(found, 0.05), 1.0)

    def saw_radius(self, radius: int, *, enough: bool) -> None:
        """Learn from the radius of one more question.

        Questions without units near them say nothing about others, except at first.
        """
        if not enough:
            self.start += 0.7 if self.asked < 8 else 0.0
            return
        self.asked += 1
        pace = max(1 / (self.asked + 1), 0.02)
        self.start += pace * (math.log(max(radius, 1)) - self.start)

    def saw_rates(
        self, rates: Floats, expected: Floats, noise: float, shells: int
    ) -> None:
        """Learn from rates, each with noise of this variance."""
        weight = 1 / (1 + noise * len(rates)) ** 2
        squares, noise = float(expected @ expected), noise * len(rates)
        self.seen += weight
        self.said += weight * (float(rates @ rates) - noise)
        self.error += weight**2 * (2 * noise**2 + 4 * noise * squares)
        self.expected[shells - 1] += weight * squares
        self.product[shells - 1] += weight * float(rates @ expected)

    def saw_lead(
        self, said: float, expected: float, noise: float, doubt: float, shells: int
    ) -> None:
        """Learn from by how much votes differ from the model.

        There are three reasons: noise; rates that differ where the model is in doubt;
        and the weight of those that speak, which varies and moves a rate in proportion
        to what is expected. Only the second is a reason to trust votes.
        """
        slope = self.slope(shells)
        known = slope * expected
        variance = noise + _STRENGTHS * (doubt * slope**2) + _SPREADS * known**2
        surprise = np.minimum((said - known) ** 2 / variance, _MOST_SURPRISE)
        self.fits -= (np.log(variance) + surprise) / 2
        self.fits -= self.fits.max()

    def saw_weight(self, counted: float, spoke: float) -> None:
        """Learn how much weight counted units have."""
        self.counted += counted
        self.spoke += spoke


_SHELLS = len(SHELLS)
_LEAST_STRENGTH = 1e-4
_STRENGTHS = np.geomspace(1e-4, 1.0, 25)
# Variances of the weight of those that speak, relative to the usual one.
_SPREADS = np.array([0.0, 0.05, 0.1, 0.2, 0.4, 0.8])[:, None]
# The first guess: rates differ from the model by about a tenth.
_DOUBT = 0.5 * np.abs(np.arange(25) - 12)
_CLEAR_DIFFERENCE, _MOST_TRUST = 0.02, 2.0
# No single question says more than a difference of five standard deviations does.
_MOST_SURPRISE = 25.0
# The first guess counts as much as this many questions.
_GUESSES = 20
# Logarithm of the square of a radius that reaches hardly anybody.
_FIRST_START = math.log(1 << 13)
