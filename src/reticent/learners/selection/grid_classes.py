"""Thresholds and intervals whose ends lie on a huge public grid (L1).

There may be more candidates than fit in memory. But the number of mistakes of a
candidate depends only on the data values that its ends lie between, so candidates with
equal mistakes are counted instead of listed, in whole numbers, and sampled exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from reticent._arrays import Floats, Ints
from reticent.errors import InternalError
from reticent.hypotheses import (
    Costs,
    Intervals,
    IntervalUnion,
    Threshold,
    Thresholds,
    signed_costs,
)
from reticent.learners.selection.grid import Grid
from reticent.learners.selection.weighted_counts import BinaryPowers, uniform_bits
from reticent.mechanisms import RandomSource, audible

# Bits of U and of every weight at the first attempt; with a probability of about
# 2^-100 the draw is undecided, and twice as many are used.
_FIRST_BITS = 256
# Bits of U for the fast attempt by floats.
_FLOAT_BITS = 64
_STARTS = {"0": (0,), "1": (1,), "either": (0, 1)}


@dataclass(frozen=True)
class LineCandidates:
    """Every threshold, or union of intervals, with its ends on a grid.

    Its labelings are those of `project` on the grid's values, one candidate each.
    """

    family: Any  # the class
    grid: Grid  # the possible ends; public

    @property
    def most_ends(self) -> int:
        """How often the label can change."""
        return self.family.k if isinstance(self.family, Intervals) else 1

    @property
    def start(self) -> str:
        """Which label comes first, as for `Intervals`."""
        if isinstance(self.family, Intervals):
            return str(self.family.start)
        return {"up": "0", "down": "1", "either": "either"}[self.family.direction]

    @property
    def starts(self) -> tuple[int, ...]:
        """The possible labels at the far left."""
        return _STARTS[self.start]

    @property
    def first(self) -> int:
        """The first place of an end; an end at 0 would only swap the start."""
        return 1 if self.start == "either" else 0

    @property
    def count(self) -> int:
        """Number of candidates."""
        places = self.grid.size - self.first
        return len(self.starts) * sum(
            math.comb(places, ends) for ends in range(self.most_ends + 1)
        )

    def hypothesis(self, start: int, places: list[int]) -> Threshold | IntervalUnion:
        """Return the candidate with ends at these places of the grid."""
        ends = self.grid.value(np.array(places, dtype=np.int64)).tolist()
        if isinstance(self.family, Thresholds):
            if not ends:
                return Threshold(self.grid.low, start, start)
            return Threshold(ends[0], start, 1 - start)
        return IntervalUnion(start, tuple(ends))

    def law(
        self,
        X: Floats,
        y: Ints,
        weights: Ints | None,
        rate: Fraction,
        penalties: list[int],
    ) -> LineResponse:
        """Return the law with log-weights ``-rate * (mistakes + penalty)``.

        `penalties` holds one whole number for each number of ends.
        """
        costs = signed_costs(y, weights, len(X))
        gaps = _DataGaps.of(self.grid.ranks(X[:, 0]), costs, self.first, self.grid.size)
        return LineResponse(self, gaps, rate, penalties)


@dataclass(frozen=True, slots=True, eq=False)
class _DataGaps:
    """Runs of places for an end that no data value separates."""

    begin: list[int]  # the first place of each run; the last entry ends the last run
    beyond: list[int]  # the cost of labelling everything beyond the run with 1
    total: int  # the cost of labelling everything with 1

    @classmethod
    def of(cls, ranks: Ints, costs: Costs, first: int, size: int) -> _DataGaps:
        # An end at place e swaps the labels of the data of rank above e.
        distinct, where = np.unique(ranks, return_inverse=True)
        cost = costs.gathered(where, len(distinct))
        inner = distinct[(distinct > first) & (distinct < size)]
        begin = np.concatenate([[first], inner])
        below = np.concatenate([[0], np.cumsum(cost)])
        beyond = below[-1] - below[np.searchsorted(distinct, begin, side="right")]
        return cls([*begin.tolist(), size], beyond.tolist(), int(below[-1]))

    def __len__(self) -> int:
        return len(self.beyond)

    def width(self, gap: int) -> int:
        return self.begin[gap + 1] - self.begin[gap]


#: A sum of weights ``exp(-rate * cost) * z``: the cost, and bounds on 2^bits z.
_Sum = tuple[int, int, int]


@dataclass(eq=False)
class LineResponse:
    r"""The exact law of the selected candidate on a grid, given the data.

    It is as secret as the data: release what `draw` returns, nothing else.

    Going from left to right, a candidate puts some of its ends into each gap between
    data values. :math:`C(c, t)` choices of `t` ends among the `c` places of a gap cost
    the same, so sums over all candidates follow from one pass over the gaps, in whole
    numbers that are rounded outwards.
    """

    candidates: LineCandidates
    gaps: _DataGaps
    rate: Fraction
    penalties: list[int]
    _sums: dict[int, Any] = field(default_factory=dict, repr=False)

    @property
    def n_candidates(self) -> int:
        """Number of candidates."""
        return self.candidates.count

    @audible("candidate")
    def draw(self, source: RandomSource) -> Any:
        """Draw one hypothesis, exactly from its law."""
        bits, drawn = _FLOAT_BITS, uniform_bits(_FLOAT_BITS, source)
        chosen = self._draw_by_floats(drawn) if self.candidates.most_ends <= 1 else None
        while chosen is None:
            more = max(_FIRST_BITS - bits, bits)
            drawn = drawn << more | uniform_bits(more, source)
            bits += more
            chosen = self._follow_exactly(drawn, bits)
        return self._placed(*chosen, source)

    def _draw_by_floats(self, head: int) -> tuple[int, dict[int, int]] | None:
        """Find where U falls by its first bits and floats; None if that is in doubt.

        With at most one end the candidates are few enough for an array: for each start
        the constant, then an end in each gap, in the order of `_follow_exactly`.
        """
        beyond = np.array(self.gaps.beyond, dtype=np.int64)
        widths = np.diff(np.array(self.gaps.begin, dtype=np.int64))
        costs: list[Any] = []
        ways: list[Any] = []
        for start in self.candidates.starts:
            costs += [[self._offset(start, 0)]]
            ways += [[1]]
            if self.candidates.most_ends:
                costs += [self._offset(start, 1) + (1 - 2 * start) * beyond]
                ways += [widths]
        cost = np.concatenate(costs)
        depth = np.minimum(
            (cost - cost.min()).astype(np.float64) * float(self.rate), 700
        )
        sums = np.cumsum(np.concatenate(ways) * np.exp(-depth))
        total = float(sums[-1])
        # In units of 2^-53 of the total: an exponent up to 700 is off by 1400 after
        # rounding the rate and the product, exp by 16, counts and products by a few,
        # the sum by one per term; twice that covers point and sums. Weights that were
        # cut off at exp(-700) are smaller than all this.
        slack = total * (2 * (1500 + 2 * len(sums))) * 2.0**-53
        point = head * (total * 2.0**-_FLOAT_BITS)
        ends = [point - slack, point + slack + total * 2.0**-53]
        first, last = np.searchsorted(sums[:-1], ends, side="right")
        if first != last:
            return None
        start, place = divmod(int(first), len(sums) // len(self.candidates.starts))
        return self.candidates.starts[start], {place - 1: 1} if place else {}

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Yield every candidate with the logarithm of its probability, for audits."""
        places = range(self.candidates.first, self.candidates.grid.size)
        for start in self.candidates.starts:
            for ends in range(self.candidates.most_ends + 1):
                for chosen in combinations(places, ends):
                    candidate = self.candidates.hypothesis(start, list(chosen))
                    yield candidate, self.log_probability(candidate)

    def log_probability(self, hypothesis: Any) -> float:
        """Return the natural logarithm of one candidate's probability."""
        start, ends = self._parsed(hypothesis)
        cost, low, _ = self._table(_FIRST_BITS).total
        mine = self._offset(start, len(ends))
        label = start
        for end in ends:
            place = int(np.searchsorted(self.gaps.begin, end, side="right")) - 1
            mine += (1 - 2 * label) * self.gaps.beyond[place]
            label = 1 - label
        # log of a long integer does not overflow.
        return float(self.rate * (cost - mine)) - (
            math.log(low) - _FIRST_BITS * math.log(2)
        )

    def _parsed(self, hypothesis: Any) -> tuple[int, list[int]]:
        if isinstance(hypothesis, Threshold):
            constant = hypothesis.below == hypothesis.above
            start = hypothesis.below
            values = [] if constant else [hypothesis.cut]
        else:
            start, values = hypothesis.start, list(hypothesis.ends)
        ranks = self.candidates.grid.ranks(np.array(values, dtype=np.float64))
        return start, (ranks - 1).tolist()

    def _offset(self, start: int, n_ends: int) -> int:
        return start * self.gaps.total + self.penalties[n_ends]

    def _table(self, bits: int) -> _Table:
        if bits not in self._sums:
            self._sums = {bits: _Table(self, bits)}
        table: _Table = self._sums[bits]
        return table

    def _follow_exactly(
        self, drawn: int, bits: int
    ) -> tuple[int, dict[int, int]] | None:
        """Follow U to a start and to numbers of ends in each gap; None if undecided.

        All candidates are laid out on a line, each as long as its weight. U times the
        total is a point on it, known up to an interval.
        """
        table = self._table(bits)
        best, low, high = table.total
        point = (drawn * low >> bits, (((drawn + 1) * high) >> bits) + 1)

        def passes(branches: list[tuple[Any, _Sum, int]]) -> Any:
            """Return the branch that the point falls into; move the point there."""
            nonlocal point
            for name, (cost, z_low, z_high), ways in branches[:-1]:
                e_low, e_high = table.powers.bounds(cost - best)
                size = (
                    ways * z_low * e_low >> bits,
                    (ways * z_high * e_high >> bits) + 1,
                )
                if point[1] <= size[0]:
                    return name
                if not point[0] >= size[1]:
                    return None
                point = (point[0] - size[1], point[1] - size[0])
            return branches[-1][0]

        chosen = passes(table.openings)
        if chosen is None:
            return None
        start, left = chosen
        label, spent, ways = start, self._offset(start, left), 1
        counts: dict[int, int] = {}
        for gap in range(len(self.gaps)):
            if left == 0:
                break
            branches = [
                (t, (spent + c, z_low, z_high), ways * many)
                for t, many, (c, z_low, z_high) in table.branches(gap, label, left)
            ]
            ends = passes(branches)
            if ends is None:
                return None
            if ends:
                counts[gap] = ends
            ways *= math.comb(self.gaps.width(gap), ends)
            if ends % 2:
                spent += (1 - 2 * label) * self.gaps.beyond[gap]
                label = 1 - label
            left -= ends
        return start, counts

    def _placed(self, start: int, counts: dict[int, int], source: RandomSource) -> Any:
        """Choose places within the gaps: all choices there weigh the same."""
        places: list[int] = []
        for gap, ends in sorted(counts.items()):
            chosen = source.subset(self.gaps.width(gap), ends)
            places += sorted((chosen + self.gaps.begin[gap]).tolist())
        return self.candidates.hypothesis(start, places)


class _Table:
    """For each gap, the sums of weights over all ways to continue from there."""

    def __init__(self, law: LineResponse, bits: int) -> None:
        self.bits = bits
        self.powers = BinaryPowers(law.rate, bits)
        self._gaps = law.gaps
        n_gaps, most = len(law.gaps), law.candidates.most_ends
        one = 1 << bits
        nothing: tuple[_Sum | None, ...] = ((0, one, one), *(None for _ in range(most)))
        # sums[gap][label][left]: exactly `left` ends in this gap and beyond.
        self.sums: list[Any] = [(nothing, nothing)] * (n_gaps + 1)
        for gap in range(n_gaps - 1, -1, -1):
            self.sums[gap] = tuple(
                (
                    (0, one, one),
                    *(self._sum(gap, label, left) for left in range(1, most + 1)),
                )
                for label in (0, 1)
            )
        self.openings = [
            ((start, ends), (cost + law._offset(start, ends), low, high), 1)
            for start in law.candidates.starts
            for ends in range(most + 1)
            if self.sums[0][start][ends] is not None
            for cost, low, high in [self.sums[0][start][ends]]
        ]
        self.total = self._added([(1, weight) for _, weight, _ in self.openings])

    def branches(self, gap: int, label: int, left: int) -> list[tuple[int, int, _Sum]]:
        """Return (ends in this gap, choices of their places, sum beyond).

        Costs count from this gap on.
        """
        width = self._gaps.width(gap)
        found = []
        for ends in range(min(left, width), -1, -1):
            odd = ends % 2
            rest = self.sums[gap + 1][label ^ odd][left - ends]
            if rest is not None:
                change = (1 - 2 * label) * self._gaps.beyond[gap] if odd else 0
                weight = (rest[0] + change, rest[1], rest[2])
                found.append((ends, math.comb(width, ends), weight))
        return found

    def _sum(self, gap: int, label: int, left: int) -> _Sum | None:
        terms = [(ways, weight) for _, ways, weight in self.branches(gap, label, left)]
        return self._added(terms) if terms else None

    def _added(self, terms: list[tuple[int, _Sum]]) -> _Sum:
        """Add sums of weights, relative to the smallest cost among them."""
        if not terms:
            raise InternalError("a candidate set on a grid is empty.")
        least = min(weight[0] for _, weight in terms)
        low = high = 0
        for ways, (cost, z_low, z_high) in terms:
            if cost == least:
                low += ways * z_low
                high += ways * z_high
            else:
                e_low, e_high = self.powers.bounds(cost - least)
                low += ways * z_low * e_low >> self.bits
                high += (ways * z_high * e_high >> self.bits) + 1
        return least, low, high
