"""Whole-number arithmetic behind exact draws from weighted counts."""

from __future__ import annotations

from fractions import Fraction

from reticent.mechanisms import RandomSource, exp_bounds


def uniform_bits(count: int, source: RandomSource) -> int:
    """Return a uniform integer of `count` bits, a multiple of eight."""
    return int.from_bytes(source.bytes(count // 8), "big")


class BinaryPowers:
    """Bounds on ``2**bits * exp(-rate * cost)`` for whole costs >= 0.

    The exponentials of ``rate * 2**i`` are computed once; that of any cost is a
    product of a few of them, rounded outwards.
    """

    def __init__(self, rate: Fraction, bits: int) -> None:
        self._rate, self._bits = rate, bits
        self._doubled: list[tuple[int, int]] = []
        one = 1 << bits
        self._known: dict[int, tuple[int, int]] = {0: (one, one)}

    def bounds(self, cost: int) -> tuple[int, int]:
        """Return integers around ``2**bits * exp(-rate * cost)``."""
        found = self._known.get(cost)
        if found is None:
            found = self._known[cost] = self._product(cost)
        return found

    def _product(self, cost: int) -> tuple[int, int]:
        while len(self._doubled) < cost.bit_length():
            power = self._rate * (1 << len(self._doubled))
            self._doubled.append(exp_bounds(power, self._bits))
        low = high = 1 << self._bits
        for place in range(cost.bit_length()):
            if cost >> place & 1:
                low = low * self._doubled[place][0] >> self._bits
                high = (high * self._doubled[place][1] >> self._bits) + 1
        return low, high
