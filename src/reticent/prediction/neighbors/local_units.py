"""Rows of units, and what they contribute to rounds: the secret side of a law (P10)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from reticent.estimators import Codes, RoundBudget
from reticent.mechanisms import UnitFilter
from reticent.prediction.law import Locked
from reticent.prediction.neighbors.index import Axis, BallIndex
from reticent.prediction.neighbors.metric import Metric
from reticent.prediction.neighbors.spending import Lessons, Spending
from reticent.prediction.neighbors.votes import LOUDEST, Votes

Int = NDArray[np.int64]
#: The square of the distance from a question, by column and code.
Around: TypeAlias = list[NDArray[np.int32]]
#: Units, squares of their distances, and their nearest rows.
Near: TypeAlias = tuple[Int, Int, Int]

#: Squares of the radii of shells, relative to that of a usual question, in 64ths.
#: Other ones need another `prediction.lasting.records.REPLAY`.
SHELLS = (36, 70, 134, 256)


@dataclass(frozen=True)
class QuestionPlan:
    """The noise of a question, from public facts.

    Attributes
    ----------
    wanted : float
        How many units a question should reach; 0 if none is asked, and the released
        model answers alone.
    vote_scale : float
        Noise of the votes, in the unit of `Votes`.
    count_scale : float
        Noise of the counts, in units.
    """

    wanted: float
    vote_scale: float
    count_scale: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LocalUnits(Locked):
    """Units that answer rounds, each for itself.

    What a unit contributes to a round depends on its own rows, on what it has spent
    itself, and on what is public or released.

    Attributes
    ----------
    codes : ndarray of shape (n_rows, n_columns)
        The rows, unit after unit. Secret.
    unit : ndarray of int
        The unit of each row. Secret.
    votes : Votes
        What units say. Secret.
    metric : Metric
        How far rows are apart; released.
    axes : tuple of Axis
        The grid of the index; released.
    budget : RoundBudget
        What a unit may spend, and for which relation.
    plan : QuestionPlan
        The noise of a question; public.
    fitted : ndarray of uint32
        What each unit had spent when the fit was over. Secret.
    lessons : Lessons
        What released numbers had taught by then.
    client_share : float
        The share of a unit's budget that one client's questions may use.
    constant_time : bool
        Whether every search looks at all rows.
    group : str
        Names the split that this is a part of; empty for all units in one place.
    """

    codes: Codes
    unit: Int
    votes: Votes
    metric: Metric
    axes: tuple[Axis, ...]
    budget: RoundBudget
    plan: QuestionPlan
    fitted: NDArray[np.uint32]
    lessons: Lessons
    client_share: float = 1.0
    constant_time: bool = False
    group: str = ""

    def start(self) -> Spending:
        """Return what was spent and learned when the fit was over."""
        return Spending(self.fitted.copy(), self.budget.cap, self.lessons.copy())

    def split(self, count: int) -> list[LocalUnits]:
        """Return parts with about as many rows each, the units in order."""
        ends = [len(self.unit) * k // count for k in range(1, count)]
        cuts = [0, *self.unit[ends].tolist(), len(self.fitted)]
        group = secrets.token_hex(8)
        return [
            self._part(first, last, group)
            for first, last in pairwise(cuts)
            if first < last
        ]

    def _part(self, first: int, last: int, group: str) -> LocalUnits:
        """Return the units from `first` to `last`, without `last`, as a part."""
        rows = slice(*np.searchsorted(self.unit, [first, last]).tolist())
        return LocalUnits(
            codes=self.codes[rows],
            unit=self.unit[rows] - first,
            votes=self.votes.part(rows),
            metric=self.metric,
            axes=self.axes,
            budget=self.budget,
            plan=self.plan,
            fitted=self.fitted[first:last],
            lessons=self.lessons,
            client_share=self.client_share,
            constant_time=self.constant_time,
            group=group,
        )

    def around(self, query: NDArray[np.int16]) -> Around:
        """Return how far every code is from those of a query, for `near`."""
        return self.metric.tables(query)

    def near(self, around: Around, radius: int) -> Near:
        """Return units with the distances of their nearest rows.

        All units within the radius are among them; in constant time, all units are.
        """
        if self.constant_time:
            return self._everybody(around)
        rows, squares = self._index.within(around, radius)
        units = self.unit[rows]
        if not self._one_row_per_unit:
            order = np.lexsort((rows, squares, units))
            units, squares, rows = units[order], squares[order], rows[order]
            first = np.concatenate([[True], units[1:] != units[:-1]])[: len(units)]
            units, squares, rows = units[first], squares[first], rows[first]
        return units, squares, rows

    def count(
        self,
        near: Near,
        start: int,
        shell: int,
        here: int,
        spending: Spending,
        client: str | None,
    ) -> int:
        """Charge units of a shell for being counted, if they can still contribute.

        Only units that could also pay for a vote of the largest weight are counted, so
        the count is of those that will vote.
        """
        units, squares, rows = near
        inside = squares <= start * SHELLS[shell] // 64
        if shell:
            inside &= squares > start * SHELLS[shell - 1] // 64
        price, vote = self._prices
        loudest = self.votes.said(rows, np.full(len(rows), LOUDEST), here)
        reserve = np.ceil(vote * self.votes.squares(loudest, self.budget)) + 1.0
        # Units outside stay in the arrays and pay nothing: the work does not depend
        # on who is where.
        costs = inside.astype(np.float64)
        able = self._pay(units, costs, price, spending, client, reserve)
        return int(np.count_nonzero(able & inside))

    def speak(
        self,
        near: Near,
        radius: int,
        here: int,
        spending: Spending,
        client: str | None,
    ) -> Int:
        """Charge units within the radius for their votes; return the sums."""
        units, squares, rows = near
        loud = self.votes.loudness(squares, radius)
        said = self.votes.said(rows, loud, here)
        costs = self.votes.squares(said, self.budget)
        _, price = self._prices
        able = self._pay(units, costs, price, spending, client, np.zeros(1))
        return np.asarray((said * able[:, None]).sum(axis=0).astype(np.int64))

    @cached_property
    def _index(self) -> BallIndex:
        return BallIndex(self.codes, self.axes)

    @cached_property
    def _one_row_per_unit(self) -> bool:
        # Both ways find the same units; with several rows per unit it takes longer.
        return bool((np.diff(self.unit) > 0).all())

    @cached_property
    def _columns(self) -> Codes:
        return np.ascontiguousarray(self.codes.T)

    @cached_property
    def _starts(self) -> tuple[Int, Int]:
        """The units that have rows, and the first row of each."""
        return np.unique(self.unit, return_index=True)

    def _everybody(self, around: Around) -> Near:
        """Return all units that have rows, by the same work whatever the rows are."""
        units, starts = self._starts
        squares = np.zeros(len(self.unit), dtype=np.int64)
        for column, table in zip(self._columns, around, strict=True):
            squares += np.take(table, column)
        # The nearest row of each unit, the first of them: rows are sorted by unit.
        keys = squares << 32 | np.arange(len(squares))
        least = np.minimum.reduceat(keys, starts)
        return units, least >> 32, least & (1 << 32) - 1

    @cached_property
    def _prices(self) -> tuple[float, float]:
        """What a norm of one costs, in counts and in votes."""
        price = UnitFilter(1, self.budget.cap).price
        return price(self.plan.count_scale, 1), price(self.plan.vote_scale, 1)

    def _pay(
        self,
        units: Int,
        costs: NDArray[np.float64],
        price: float,
        spending: Spending,
        client: str | None,
        reserve: NDArray[np.float64],
    ) -> NDArray[np.bool_]:
        """Charge units that can pay, from their own budget and the client's share."""
        account = spending.account
        if client is None or not self.client_share < 1:
            return account.admit(units, costs, price, reserve)
        own = spending.client(client, self.client_share)
        ratio = price / self.client_share
        able = account.affords(units, costs, price, reserve)
        able &= own.affords(units, costs, ratio, reserve / self.client_share)
        own.admit(units, costs * able, ratio)
        account.admit(units, costs * able, price)
        return able
