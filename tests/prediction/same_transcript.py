"""Run a program again on other data with the same transcript, and compare the sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from reticent.mechanisms.sampling.listening import Listener, listen

NOISE = "rounded gaussian"


class Recording(Listener):
    """Keep every draw: what noise was added to, its scale, and what came out."""

    def __init__(self):
        self.kinds, self.outcomes, self.sums, self.scales = [], [], [], []

    def drawn(self, draw, sample):
        outcome = self.outcome(draw, sample)
        self.kinds.append(draw.kind)
        self.outcomes.append(outcome)
        if draw.kind == NOISE:
            location, scale = draw.arguments[:2]
            self.sums.append(np.array(location, dtype=np.int64).ravel())
            self.scales.append(float(scale))
        return outcome

    def outcome(self, draw, sample):
        return sample()


class Repeating(Recording):
    """Let every draw come out as it did before, whatever the data are now."""

    def __init__(self, before):
        super().__init__()
        self.before = before

    def outcome(self, draw, sample):
        place = len(self.kinds)
        assert draw.kind == self.before.kinds[place], "a round depends on the data"
        outcome = self.before.outcomes[place]
        if draw.kind == NOISE:
            location, scale = draw.arguments[:2]
            assert np.shape(location) == np.shape(outcome)
            assert scale == self.before.scales[len(self.scales)]
        return outcome


def recorded(program, before=None):
    """Return what a program returns, and its draws; as they were before, if given."""
    heard = Recording() if before is None else Repeating(before)
    with listen(heard):
        result = program()
    if before is not None:
        assert heard.kinds == before.kinds, "a round depends on the data"
    return result, heard


def moved(one, other):
    """Return how far the sums of each round are apart."""
    return [a - b for a, b in zip(one.sums, other.sums, strict=True)]


def information(one, other):
    """Return the sum over rounds of ``(distance / scale)**2``, exactly."""
    total = Fraction(0)
    for apart, scale in zip(moved(one, other), one.scales, strict=True):
        square = sum(int(number) ** 2 for number in apart)
        total += Fraction(square) / Fraction(scale) ** 2
    return total
