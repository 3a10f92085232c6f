"""Side information as bits; the number of bits counted is the number read."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from reticent.errors import InvalidDataError, InvalidParameterError


def width(choices: int) -> int:
    """Return how many bits one of `choices` possibilities takes."""
    if not choices >= 1:
        raise InvalidParameterError(f"choices={choices} must be at least 1.")
    return (choices - 1).bit_length()


class BitWriter:
    """Write whole numbers below announced bounds.

    The bounds must follow from public parameters, the number of kept examples and
    what was written before. The reader then knows where every string ends, so no string
    is a prefix of another, and their weights ``2**-length`` add up to at most one. The
    union bound of R1 needs this.

    Examples
    --------
    >>> writer = BitWriter()
    >>> writer.write(5, choices=10)
    >>> writer.bits
    '0101'
    """

    def __init__(self) -> None:
        self._parts: list[str] = []

    def write(self, value: int, *, choices: int) -> None:
        """Append one of ``0, ..., choices - 1``."""
        if not 0 <= value < choices:
            raise InvalidParameterError(f"value={value} must be below {choices}.")
        if width(choices):
            self._parts.append(format(value, f"0{width(choices)}b"))

    def write_subset(self, members: Sequence[int], *, of: int) -> None:
        """Append a subset of ``0, ..., of - 1`` whose size the reader knows."""
        ranked = sorted(members)
        fits = all(0 <= member < of for member in ranked)
        if len(set(ranked)) != len(ranked) or not fits:
            raise InvalidParameterError(
                f"members must be different numbers below {of}."
            )
        # The combinatorial number system: subsets of one size in colexicographic order.
        rank = sum(comb(member, place + 1) for place, member in enumerate(ranked))
        self.write(rank, choices=comb(of, len(ranked)))

    @property
    def bits(self) -> str:
        """Everything written so far, as text of 0 and 1."""
        return "".join(self._parts)


class BitReader:
    """Read what a `BitWriter` wrote, given the same bounds."""

    def __init__(self, bits: str) -> None:
        if not isinstance(bits, str) or set(bits) - {"0", "1"}:
            raise InvalidDataError("side information must be text of 0 and 1.")
        self._bits = bits
        self._place = 0

    def read(self, *, choices: int) -> int:
        """Return the next number below `choices`."""
        end = self._place + width(choices)
        if end > len(self._bits):
            raise InvalidDataError("side information ends before the decoder is done.")
        value = int(self._bits[self._place : end] or "0", 2)
        if not value < choices:
            raise InvalidDataError("side information has a number out of bounds.")
        self._place = end
        return value

    def read_subset(self, size: int, *, of: int) -> list[int]:
        """Return the next subset of ``0, ..., of - 1``, which has `size` members."""
        if not 0 <= size <= of:
            raise InvalidDataError(f"no subset of {of} has {size} members.")
        rank = self.read(choices=comb(of, size))
        members = []
        top = of
        for place in range(size, 0, -1):
            top -= 1
            while comb(top, place) > rank:
                top -= 1
            rank -= comb(top, place)
            members.append(top)
        return members[::-1]

    def finish(self) -> None:
        """Refuse bits that were not read."""
        if self._place != len(self._bits):
            raise InvalidDataError(
                f"{len(self._bits) - self._place} bits of side information were not "
                "read; they belong to another scheme or other parameters."
            )
