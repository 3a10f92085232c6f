"""Permute-and-flip: its law in closed form, and its sampler."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from reticent._arrays import Floats, Ints
from reticent.errors import InvalidParameterError
from reticent.mechanisms.response import Response
from reticent.mechanisms.sampling.exact import draw_bernoulli_exp
from reticent.mechanisms.sampling.intervals import IntervalArithmetic
from reticent.mechanisms.sampling.randomness import RandomSource

# Numbers held at a time while the law of a batch is computed.
_WORKSPACE = 1 << 21
# The law costs the square of the number of labels; sampling does not need it.
_MOST_LABELS = 1024


@dataclass(frozen=True, eq=False, repr=False)
class PermuteAndFlipResponse(Response):
    r"""Labels in random order, each accepted with probability ``exp(-gap)``.

    Give every label a uniform arrival time. Label `j` wins at time `t` if it is
    accepted and no other label was accepted before, so with
    :math:`p_i = e^{-\mathrm{gap}_i}` its probability is
    :math:`p_j \int_0^1 \prod_{i \ne j} (1 - p_i t)\,dt`.
    """

    # Shape (n, n_labels); floats >= 0, exact, at least one zero in each row.
    gaps: Floats

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.gaps.shape[1])

    def __len__(self) -> int:
        return len(self.gaps)

    def draw(self, source: RandomSource) -> Ints:
        """Draw one label per row, exactly from its law, with fresh randomness."""
        accepted = draw_bernoulli_exp(self.gaps, source)
        # The first accepted label in a random order that is independent of acceptance
        # is uniform among the accepted ones. The leader is always accepted, so there is
        # one.
        count = accepted.sum(axis=1)
        rank = source.below(count.astype(np.uint64)).astype(np.int64)
        return np.asarray((accepted.cumsum(axis=1) > rank[:, None]).argmax(axis=1))

    def _log_probabilities(self) -> Floats:
        if self.n_labels > _MOST_LABELS:
            raise InvalidParameterError(
                f"the law of permute-and-flip is computed for at most {_MOST_LABELS} "
                f"labels; got {self.n_labels}. draw() has no such limit."
            )
        # The integrand has degree n_labels - 1, so this many Gauss-Legendre nodes
        # integrate it exactly, and every term is positive: no cancellation.
        nodes, weights = np.polynomial.legendre.leggauss((self.n_labels + 1) // 2)
        times, log_weights = (nodes + 1) / 2, np.log(weights / 2)
        result = np.empty(self.gaps.shape)
        block = max(1, _WORKSPACE // (len(times) * self.n_labels))
        for start in range(0, len(self), block):
            gaps = self.gaps[start : start + block]
            with np.errstate(under="ignore"):
                waits = np.log1p(-np.exp(-gaps)[:, None, :] * times[:, None])
                logs = waits.sum(axis=2, keepdims=True) - waits + log_weights[:, None]
                top = logs.max(axis=1, keepdims=True)
                integral = np.log(np.exp(logs - top).sum(axis=1)) + top[:, 0]
            result[start : start + block] = integral - gaps
        return result

    def _log_intervals(self, row: int, arithmetic: IntervalArithmetic) -> list[Any]:
        gaps = [arithmetic.real(Fraction(gap)) for gap in self.gaps[row].tolist()]
        chances = [arithmetic.exp(-gap) for gap in gaps]
        result = []
        for label, gap in enumerate(gaps):
            others = chances[:label] + chances[label + 1 :]
            result.append(arithmetic.log(_integral(others, arithmetic)) - gap)
        return result


def _integral(chances: list[Any], arithmetic: IntervalArithmetic) -> Any:
    """Integrate ``prod (1 - p t)`` over [0, 1], coefficient by coefficient."""
    polynomial = [arithmetic.real(1)]
    for chance in chances:
        shifted = [arithmetic.real(0), *(chance * c for c in polynomial)]
        padded = [*polynomial, arithmetic.real(0)]
        polynomial = [a - b for a, b in zip(padded, shifted, strict=True)]
    return sum(c / (power + 1) for power, c in enumerate(polynomial))
