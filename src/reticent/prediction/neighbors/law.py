"""Questions to the units near them, under one account per unit (P10, G24)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._sklearn import MatrixLike
from reticent.errors import InvalidParameterError
from reticent.estimators import CodedColumns, Codes, PartitionModel
from reticent.mechanisms import draw_rounded_gaussian
from reticent.prediction.law import AnswerLaw
from reticent.prediction.neighbors.local_units import LocalUnits, Near
from reticent.prediction.neighbors.spending import Lessons, Spending
from reticent.prediction.neighbors.votes import SHELLS, Trust

Int = NDArray[np.int64]

# Rows are taken to fill a space of this many dimensions; a first guess is enough.
_DIMENSION = 4.0
# A noisy count may be negative; the released model then answers alone.
_LEAST_SEEN = 0.125
# Usual questions have no larger radius than this.
_LARGEST_START = (1 << 30) // (SHELLS[-1] // 64)


@dataclass(frozen=True, eq=False)
class LocalAnswers:
    """Answers to questions, row after row.

    Attributes
    ----------
    answers : ndarray
        Labels or numbers.
    evidence : ndarray of float
        A noisy count of the units that can still pay, in the shells that were searched;
        at most the number that a question looks for. It may be negative.
    trace : ndarray of int, of shape (n_queries, width)
        Released numbers from which `LocalLaw.replay` repeats the same charges.
    """

    answers: NDArray[Any]
    evidence: NDArray[np.float64]
    trace: Int


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LocalLaw(LocalUnits, AnswerLaw):
    """What answers questions locally, with the certificate of all answers together.

    Attributes
    ----------
    columns : CodedColumns
        How rows become whole numbers.
    model : PartitionModel or None
        The released model, if there is one.
    """

    columns: CodedColumns
    model: PartitionModel | None

    def encode(self, X: MatrixLike) -> Codes:
        """Return the codes of queries: rows with equal codes are the same question."""
        return self.columns.encode(X)

    def response(self, X: MatrixLike) -> Any:
        """Refuse: an answer's law depends on what was asked before."""
        raise InvalidParameterError(
            "a local predictor has no law of single answers: each answer depends on "
            "what units have spent. predict answers, and charges them."
        )

    def draw(self, X: MatrixLike) -> NDArray[Any]:
        """Refuse: questions change what units have spent."""
        raise InvalidParameterError(
            "a local predictor answers through predict, or through an interface, which "
            "keep what units have spent."
        )

    def ask(
        self, codes: Codes, spending: Spending, client: str | None = None
    ) -> LocalAnswers:
        """Answer questions one after the other; `spending` changes.

        The certificate is about one state that nobody forgets, as `predict` and
        `LastingInterface` keep it. Answers from any other state, such as a second
        `start()`, are for studies of public or invented rows: nothing covers them.

        Parameters
        ----------
        codes : ndarray of shape (n_queries, n_columns)
            From `encode`.
        spending : Spending
            What units have spent so far.
        client : str or None, default=None
            Who asks, if clients have shares.
        """
        spending.check()
        prior = self._prior(codes)
        answers, evidence, traces = [], [], []
        for query, own in zip(codes, prior, strict=True):
            answer, seen, trace = self._ask_one(query, own, spending, client)
            answers.append(answer)
            evidence.append(seen)
            traces.append(trace)
        width = 5 + self.votes.width
        return LocalAnswers(
            self.votes.named(np.array(answers, dtype=np.float64), self.classes),
            np.array(evidence, dtype=np.float64),
            np.array(traces, dtype=np.int64).reshape(-1, width),
        )

    def replay(
        self,
        codes: Codes,
        trace: Int,
        spending: Spending,
        client: str | None = None,
    ) -> None:
        """Charge for questions exactly as `ask` did; nothing is drawn."""
        if not self.plan.wanted:
            return
        prior = self._prior(codes)
        for query, own, row in zip(codes, prior, trace, strict=True):
            start, shells, radius, seen, here = (int(number) for number in row[:5])
            around = self.around(query)
            near = self.near(around, start * SHELLS[shells - 1] // 64)
            for shell in range(shells):
                self.count(near, start, shell, here, spending, client)
            self.speak(near, radius, here, spending, client)
            self._learn(spending.lessons, shells, radius, seen / 16, row[5:], own)

    def _noisy_count(
        self,
        near: Near,
        start: int,
        shell: int,
        here: int,
        spending: Spending,
        client: str | None,
    ) -> float:
        count = self.count(near, start, shell, here, spending, client)
        scale = self.plan.count_scale
        return float(draw_rounded_gaussian([count], scale, self.source)[0])

    def _ask_one(
        self,
        query: NDArray[np.int16],
        prior: NDArray[np.float64],
        spending: Spending,
        client: str | None,
    ) -> tuple[float, float, list[int]]:
        if not self.plan.wanted:  # Nobody is asked, nobody pays.
            return self.votes.alone(prior), 0.0, [0] * (5 + self.votes.width)
        start = self.start_radius(spending.lessons)
        wanted, before, total = self.plan.wanted, 0.0, 0.0
        around, here = self.around(query), self.votes.here(prior)
        for shell in range(len(SHELLS)):
            if shell != 1:  # the first search is for two shells: most need both
                near = self.near(around, start * SHELLS[max(shell, 1)] // 64)
            total += self._noisy_count(near, start, shell, here, spending, client)
            if total >= wanted:
                break
            before = max(before, total)
        radius = self._radius(start, shell, before, max(total, before))
        # A noisy sum at a stopping time is not biased, and the least of it and a
        # constant is not biased upwards. Only what votes are divided by is positive.
        evidence = min(total, wanted)
        seen = round(16 * max(evidence, _LEAST_SEEN))
        sums = self.speak(near, radius, here, spending, client)
        released = draw_rounded_gaussian(sums, self.plan.vote_scale, self.source)
        lessons, shells = spending.lessons, shell + 1
        answer = self._learn(lessons, shells, radius, seen / 16, released, prior)
        trace = [start, shells, radius, seen, here, *released.tolist()]
        return answer, evidence, trace

    def _learn(
        self,
        lessons: Lessons,
        shells: int,
        radius: int,
        seen: float,
        released: Int,
        prior: NDArray[np.float64],
    ) -> float:
        """Return the answer that follows from released numbers, and learn from them."""
        votes, released = self.votes, np.asarray(released)
        # In the steps in which evidence is kept: it may have been rounded down.
        enough = round(16 * seen) >= round(16 * self.plan.wanted)
        lessons.saw_radius(radius, enough=enough)
        weight = seen * lessons.usual_weight(self.plan.wanted)
        rates, expected = votes.rates(released, prior, weight)
        noise = votes.noise(self.plan.vote_scale, weight)
        slope, strength = lessons.slope(shells), lessons.strength
        if votes.expects:
            strength = lessons.difference * votes.doubt(prior) * slope**2
        trust = Trust(slope, strength, noise)
        answer = votes.answer(rates, expected, prior, trust)
        lessons.saw_rates(rates, expected, noise, shells)
        if votes.expects:
            contrast = votes.contrast(rates, expected, prior)
            lessons.saw_lead(*contrast, noise, votes.doubt(prior), shells)
        lessons.saw_weight(*votes.spoken(seen, released))
        return answer

    def __reduce__(self) -> Any:
        raise InvalidParameterError(
            "a local predictor is not pickled: each copy would spend its records' "
            "budget again. Store it with reticent.storage, and answer through a ledger."
        )

    def __deepcopy__(self, memo: Any) -> LocalLaw:
        return self  # frozen; a copy would be a second model with the same name

    def check_memory(self) -> None:
        """Nothing to check: what units have spent can be in this process's memory."""

    def start_radius(self, lessons: Lessons) -> int:
        """Return the square of a usual question's radius, from released numbers."""
        start = math.exp(min(lessons.start, 20.0))
        return int(min(max(start, 2.0), _LARGEST_START))

    def _prior(self, codes: Codes) -> NDArray[np.float64]:
        """Return what the released model says, of shape (n_queries, n_scores)."""
        return self.votes.prior_of(self.model, codes)

    def _radius(self, start: int, shell: int, before: float, total: float) -> int:
        """Return the square of the radius that reaches enough units."""
        wanted, edge = self.plan.wanted, start * SHELLS[shell] / 64
        if total < wanted:
            return max(int(edge), 1)
        if shell == 0:
            return max(int(edge * (wanted / total) ** (2 / _DIMENSION)), 1)
        inner, low = start * SHELLS[shell - 1] / 64, max(before, wanted / 10)
        part = math.log(wanted / low) / math.log(max(total / low, 1.01))
        return max(int(inner * (edge / inner) ** min(max(part, 0.0), 1.0)), 1)
