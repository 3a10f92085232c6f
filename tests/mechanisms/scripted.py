"""A source whose bits are written in advance, to steer draws onto their boundaries."""

from __future__ import annotations

from reticent.mechanisms import RandomSource


class ScriptedSource(RandomSource):
    """Hand out given bytes in order; `left` are those not yet used."""

    seeded = True

    def __init__(self, script):
        self.left = script

    def bytes(self, count):
        assert count <= len(self.left), "more bits were drawn than expected"
        taken, self.left = self.left[:count], self.left[count:]
        return taken


def bits_of(value, n_words):
    """Write a number U = value / 2^(53 + 64 n_words) as the bytes drawn for it.

    Its first 32 bits come alone, then a word of which 21 bits are used, then words.
    """
    rest = [(value >> (64 * place)) % 2**64 for place in reversed(range(n_words))]
    head = value >> (64 * n_words)
    words = [(head % 2**21) << 43, *rest]
    return (head >> 21).to_bytes(4, "little") + b"".join(
        word.to_bytes(8, "little") for word in words
    )
