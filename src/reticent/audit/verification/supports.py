"""All outcomes of a draw, each with its probability."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import islice, permutations, product
from typing import Any

import numpy as np

from reticent.errors import CannotJudgeError
from reticent.mechanisms import PendingDraw, SoftmaxResponse, exp_bounds

#: More outcomes of one draw, or paths of one program, than this are refused.
MAX_OUTCOMES = 200_000

Support = list[tuple[Any, float]]
_Row = list[tuple[Any, float]]

# Bits of precision of probabilities, at first and at most; below that, a probability
# counts as zero.
_BITS, _MOST_BITS = 160, 1 << 14


def support_of(draw: PendingDraw) -> Support:
    """Return every outcome of a draw with its log-probability.

    Raises
    ------
    CannotJudgeError
        If it has too many outcomes to enumerate.
    """
    try:
        listed = _SUPPORTS[draw.kind]
    except KeyError:
        raise CannotJudgeError(
            f"cannot judge: the program draws {draw.kind!r}, whose law is not known "
            "here. Draw through reticent.mechanisms."
        ) from None
    return listed(*draw.arguments)


def _label(response: Any, *_: Any) -> Support:
    # Computed again: a cached law may be out of date.
    return _labels(response._log_probabilities())


def _categorical(log_weights: Any, *_: Any) -> Support:
    rows = np.asarray(log_weights, dtype=np.float64)
    return _labels(SoftmaxResponse(rows).log_probabilities)


def _labels(logs: Any) -> Support:
    return _products([list(enumerate(row)) for row in logs.tolist()], np.int64)


def _candidate(law: Any, *_: Any) -> Support:
    _check_count(law.n_candidates)
    return list(islice(law.outcomes(), MAX_OUTCOMES + 1))


def _flip(labels: Any, p: float, *_: Any) -> Support:
    both = _log(1 - Fraction(p)), _log(Fraction(p))
    rows = [[(k, both[0]), (1 - k, both[1])] for k in _listed(labels)]
    return _products(rows, np.int64, np.shape(labels))


def _replace(labels: Any, p: float, source: Any, n_labels: int) -> Support:
    chance = Fraction(p)
    stays, goes = _log(1 - chance + chance / n_labels), _log(chance / n_labels)
    rows = [
        [(k, stays if k == label else goes) for k in range(n_labels)]
        for label in _listed(labels)
    ]
    return _products(rows, np.int64, np.shape(labels))


def _bernoulli(low: Any, high: Any, refine: Any, *_: Any) -> Support:
    rows = [
        _coin(float(least), float(most), index, refine)
        for index, (least, most) in enumerate(zip(low, high, strict=True))
    ]
    return _products(rows, bool)


def _bernoulli_exp(near: Any, error: float, exact: Any, *_: Any) -> Support:
    def refine(index: int, bits: int) -> tuple[int, int]:
        return exp_bounds(exact(index), bits)

    rows = [_coin(0.0, 1.0, index, refine) for index in range(len(near))]
    return _products(rows, bool)


def _coin(least: float, most: float, index: int, refine: Any) -> _Row:
    """Return both outcomes of one coin, whose exact probability `refine` computes."""
    bits = _BITS
    while True:
        ends = [Fraction(end, 1 << bits) for end in refine(index, bits)]
        width, middle = ends[1] - ends[0], (ends[0] + ends[1]) / 2
        fine = width * 2**60 <= min(middle, 1 - middle)
        if fine or width == 0 or bits >= _MOST_BITS:
            break
        bits *= 4
    if not (ends[0] <= Fraction(most) and Fraction(least) <= ends[1]):
        raise CannotJudgeError(
            "cannot judge: draw_below was given bounds and a refinement that do not "
            "agree, so its law is neither."
        )
    chance = Fraction(least) if least == most else middle
    return [(True, _log(chance)), (False, _log(1 - chance))]


def _below(source: Any, bounds: Any) -> Support:
    each = [int(bound) for bound in np.ravel(bounds)]
    _check_count(math.prod(each))  # before ranges of 2^31 seeds are turned into lists
    return _equally(product(*map(range, each)), np.uint64, np.shape(bounds))


def _subset(source: Any, n: int, m: int | None = None) -> Support:
    m = n if m is None else m
    _check_count(math.perm(n, m))
    return _equally(permutations(range(n), m), np.int64, (m,))


def _bytes(source: Any, count: int) -> Support:
    _raw(8 * count)
    found = list(product(range(256), repeat=count))
    return [(bytes(outcome), -math.log(len(found))) for outcome in found]


def _words(source: Any, count: int) -> Support:
    _raw(64 * count)
    return [(np.zeros(0, dtype=np.uint64), 0.0)]


def _raw(bits: int) -> None:
    if bits > 16:
        raise CannotJudgeError(
            f"cannot judge: the program draws {bits} raw random bits at once, too many "
            "to enumerate. Draw by a sampler of reticent.mechanisms; give base "
            "estimators a random_state, or their seeds are drawn too."
        )


def _noise(*_: Any) -> Support:
    raise CannotJudgeError(
        "noise on numbers has infinitely many outcomes, so its release has no table. "
        "Use verify_noise or replay."
    )


_SUPPORTS: dict[str, Callable[..., Support]] = {
    "label": _label,
    "categorical": _categorical,
    "candidate": _candidate,
    "flip": _flip,
    "replace": _replace,
    "bernoulli": _bernoulli,
    "bernoulli exp": _bernoulli_exp,
    "below": _below,
    "permutation": _subset,
    "subset": _subset,
    "bytes": _bytes,
    "words": _words,
    "noise": _noise,
}


def _equally(found: Iterator[Any], kind: Any, shape: tuple[int, ...]) -> Support:
    outcomes = [np.array(outcome, dtype=kind).reshape(shape) for outcome in found]
    return [(outcome, -math.log(len(outcomes))) for outcome in outcomes]


def _products(
    rows: list[_Row], kind: Any, shape: tuple[int, ...] | None = None
) -> Support:
    """Combine independent rows; leave out impossible outcomes."""
    possible = [[pair for pair in row if pair[1] > -math.inf] for row in rows]
    _check_count(math.prod(map(len, possible)))
    return [
        (
            np.array([part for part, _ in choice], dtype=kind).reshape(
                (len(rows),) if shape is None else shape
            ),
            math.fsum(log for _, log in choice),
        )
        for choice in product(*possible)
    ]


def _check_count(count: int) -> None:
    if not count <= MAX_OUTCOMES:
        raise CannotJudgeError(
            f"one draw has {count} outcomes, more than {MAX_OUTCOMES}. Use less data; "
            "give base estimators a random_state, or their seeds are drawn too."
        )


def _log(chance: Fraction) -> float:
    """Return the logarithm, also of numbers too small or too near 1 for a float."""
    if chance <= 0:
        return -math.inf
    if chance > Fraction(1, 2):
        return math.log1p(-float(1 - chance))
    return math.log(chance.numerator) - math.log(chance.denominator)


def _listed(labels: Any) -> Iterable[int]:
    return [int(label) for label in np.ravel(labels)]
