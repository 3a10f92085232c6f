"""Whole-number noise with a fair sign, by inversion of one 64-bit word.

One bit of a word is the sign, the others are the first bits of a uniform V in [0, 1).
The size of the noise is the largest `k` with ``V < tail(k)``, where ``tail(k)`` is the
probability of a size of at least `k`. Floats decide this for whole batches; the few
draws that 63 bits and floats do not decide are settled in whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats, Ints
from reticent.errors import InternalError
from reticent.mechanisms.sampling.exact import longer_prefixes
from reticent.mechanisms.sampling.randomness import RandomSource

_V_BITS = 63
_LOW_BITS = np.uint64(2**_V_BITS - 1)
_LARGEST = 2**62
# The first bits of 2^-8. Below this, the bits that are not drawn yet may matter.
_DEEP = 2 ** (_V_BITS - 8)
# Draws worked on at a time, so that their arrays stay in the processor's cache.
_BLOCK = 1 << 15
# Up to this many draws take less time one by one.
_FEW = 4


@dataclass(frozen=True)
class Inversion:
    """A law of sizes, as floats and in whole numbers."""

    scale: float
    # Takes V as an array of floats; the size is ``floor(place(V))``, or 0 where this is
    # negative.
    place: Callable[[Floats], Floats]
    # Floats lose at most ``error * (scale + place)`` of `place`; where V is at least
    # 2^-8, at most ``4 * error * scale``, the bits not drawn yet included.
    error: float
    # If V moves by a share of itself, `place` moves by at most ``scale * slope`` times
    # that share.
    slope: float
    # ``tail(size, bits)`` returns integers around ``2**bits`` times the probability of
    # a size of at least `size`, which close in on it as `bits` grows.
    tail: Callable[[int, int], tuple[int, int]]

    def draw(self, count: int, source: RandomSource) -> Ints:
        """Draw sizes with fair signs."""
        if count <= _FEW:
            words = source.words(count).tolist()
            return np.array([self._signed(word, source) for word in words], np.int64)
        drawn = np.empty(count, dtype=np.int64)
        for start in range(0, count, _BLOCK):
            words = source.words(min(_BLOCK, count - start))
            head = (words & _LOW_BITS).astype(np.int64)
            size, unsure = self.sizes(head)
            for index in unsure:
                size[index] = self.settle(int(head[index]), source)
            # All ones where the word's first bit is set: negates in two's complement.
            sign = words.view(np.int64) >> 63
            drawn[start : start + _BLOCK] = (size ^ sign) - sign
        return drawn

    def sizes(self, head: Ints) -> tuple[Ints, NDArray[np.intp]]:
        """Return sizes for the first bits of V, and which of them are undecided.

        The bits of V that are not drawn yet are a share of at most ``1 / head`` of it.
        Where V is below 2^-8 the bound is computed for each draw.
        """
        near = self.place(np.maximum(head, 1) * 2.0**-_V_BITS)
        doubt = 4 * self.scale * self.error
        whole = np.floor(near)
        near -= whole
        unsure = (near < doubt) | (near > 1 - doubt)
        deep = np.flatnonzero(head < _DEEP)
        first, rest = head[deep], near[deep]
        wide = self.error * (self.scale + rest + whole[deep])
        wide += self.scale * self.slope / np.maximum(first, 1)
        unsure[deep] = (rest < wide) | (rest > 1 - wide) | (first == 0)
        np.maximum(whole, 0.0, out=whole)
        whole[unsure] = 0.0
        return whole.astype(np.int64), np.flatnonzero(unsure)

    def _signed(self, word: int, source: RandomSource) -> int:
        """Return what `draw` makes of one word, without arrays."""
        head = word & int(_LOW_BITS)
        size = self._one_size(head)
        if size is None:
            size = self.settle(head, source)
        return -size if word >> _V_BITS else size

    def _one_size(self, head: int) -> int | None:
        """Return what `sizes` makes of the first bits of one V; None if undecided."""
        near = float(self.place(np.asarray(max(head, 1) * 2.0**-_V_BITS)))
        whole = math.floor(near)
        rest, wide = near - whole, 4 * self.scale * self.error
        if head < _DEEP:
            wide = self.error * (self.scale + rest + whole)
            wide += self.scale * self.slope / max(head, 1)
        if head == 0 or rest < wide or rest > 1 - wide:
            return None
        return max(whole, 0)

    def settle(self, head: int, source: RandomSource) -> int:
        """Return the size for the V that starts with the bits of `head`."""
        for bits, drawn in longer_prefixes(head, _V_BITS, source):
            if drawn:
                size = self._size(drawn, bits)
                if size is not None:
                    return min(size, _LARGEST)
        raise InternalError("a source of random bits ran dry.")

    def _size(self, drawn: int, bits: int) -> int | None:
        """Return the size for a prefix of V; None if more bits are needed."""
        # Floats say where to look; what is returned was compared in whole numbers.
        place = float(self.place(np.array(max(drawn / (1 << bits), 2.0**-1000))))
        low = max(0, math.floor(place))
        here = self._below(low, drawn, bits), self._below(low + 1, drawn, bits)
        if here == (True, False):  # as nearly always
            return low
        reach = 2 + math.ceil(2 * self.error * (self.scale + abs(place)))
        low = max(0, math.floor(place) - reach)
        high = low + 2 * reach + 2
        ends = self._below(low, drawn, bits), self._below(high, drawn, bits)
        if ends != (True, False):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            below = self._below(middle, drawn, bits)
            if below is None:
                return None
            low, high = (middle, high) if below else (low, middle)
        return low

    def _below(self, size: int, drawn: int, bits: int) -> bool | None:
        """Whether V is below the tail at `size`; None if more bits are needed."""
        least, most = self.tail(size, bits)
        if drawn + 1 <= least:
            return True
        return False if drawn >= most else None
