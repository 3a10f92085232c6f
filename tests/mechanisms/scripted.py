"""A source whose words are written in advance, to steer draws onto their boundaries."""

from __future__ import annotations

import numpy as np

from reticent.mechanisms import RandomSource


class ScriptedSource(RandomSource):
    """Hand out given 64-bit words in order; `left` are those not yet used."""

    seeded = True

    def __init__(self, words):
        self.left = [int(word) for word in words]

    def bytes(self, count):
        assert count % 8 == 0
        assert count // 8 <= len(self.left), "more words were drawn than expected"
        taken, self.left = self.left[: count // 8], self.left[count // 8 :]
        return np.array(taken, dtype=np.uint64).tobytes()


def words_of(value, n_words):
    """Split a number U = value / 2^(53 + 64 (n_words - 1)) into the words drawn for it.

    The first word gives its 53 leading bits, every other word 64 more.
    """
    rest = [(value >> (64 * place)) % 2**64 for place in reversed(range(n_words - 1))]
    return [(value >> (64 * (n_words - 1))) << 11, *rest]
