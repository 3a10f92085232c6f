"""Exact tests with one fixed, tiny error rate.

A right sampler fails one of these checks with probability at most `ALPHA`, at every
sample size: no check leans on a normal or chi-square limit, whose tails are off by
orders of magnitude out where `ALPHA` lives. So no seed is lucky, and a failure is a
finding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

ALPHA = 1e-9

# Cells expected less often than this are counted together: one by one they could
# never look surprising, and each would dilute the evidence of the others.
_RARE = 10.0


def assert_rate(hits: int, trials: int, expected: float) -> None:
    """Fail if `hits` out of `trials` cannot come from rate `expected`."""
    p_value = _rate_p_value(hits, trials, expected)
    assert p_value > ALPHA, f"{hits}/{trials} against {expected:.6f}: p={p_value:.1e}"


def assert_rate_at_most(hits: int, trials: int, ceiling: float) -> None:
    """Fail if `hits` out of `trials` is too many for a rate of at most `ceiling`."""
    p_value = stats.binomtest(int(hits), int(trials), ceiling, "greater").pvalue
    assert p_value > ALPHA, f"{hits}/{trials} exceeds {ceiling:.6f}: p={p_value:.1e}"


def assert_follows(counts: ArrayLike, probabilities: ArrayLike) -> None:
    """Fail if `counts` (one per outcome) cannot be draws from `probabilities`."""
    p_value = law_p_value(counts, probabilities)
    assert p_value > ALPHA, (
        f"{_most_surprising(counts, probabilities)}: p={p_value:.1e}"
    )


def law_p_value(counts: ArrayLike, probabilities: ArrayLike) -> float:
    """Return an exact p-value of multinomial `counts` under `probabilities`.

    Given the counts before it, each count is binomial, so its two-sided tail exceeds
    no uniform variable. Fisher's sum catches many small shifts, Bonferroni's minimum
    one large shift; twice the smaller of the two is valid whatever the sample size.
    """
    counts, law = _checked(counts, probabilities)
    if counts[law == 0.0].any():
        return 0.0  # an impossible outcome came up
    counts, law = _merged(counts[law > 0.0], law[law > 0.0])
    if len(law) == 1:
        return 1.0
    # The last count follows from the others.
    left = _tail_sums(counts)[:-1]
    share = np.minimum(law[:-1] / _tail_sums(law)[:-1], 1.0)
    below = stats.binom.cdf(counts[:-1], left, share)
    above = stats.binom.sf(counts[:-1] - 1, left, share)
    tails = np.minimum(2.0 * np.minimum(below, above), 1.0)
    if tails.min() == 0.0:
        return 0.0  # too small for a float
    fisher = stats.chi2.sf(-2.0 * np.log(tails).sum(), 2 * len(tails))
    bonferroni = len(tails) * tails.min()
    return float(min(1.0, 2.0 * min(fisher, bonferroni)))


def trials_for(right: float, wrong: float) -> int:
    """Draws after which `wrong` passes a test of `right` with probability <= ALPHA."""
    if not (0 <= right <= 1 and 0 <= wrong <= 1 and right != wrong):
        raise ValueError(f"cannot tell rate {wrong} from rate {right}")
    trials, missed = 16, 1.0
    while missed > ALPHA:
        trials = trials * 21 // 20 + 1
        low, high = _accepted(trials, right)
        # Difference of the two small tails, not of two numbers close to one.
        tail = stats.binom.cdf if wrong > right else stats.binom.sf
        missed = abs(tail(high, trials, wrong) - tail(low - 1, trials, wrong))
    return trials


def mutant(probabilities: ArrayLike, *, by: float = 0.05) -> NDArray[np.float64]:
    """Return the law whose likeliest outcome lost the share `by` to the others."""
    law = np.array(probabilities, dtype=float)
    top = int(law.argmax())
    rest = law.sum() - law[top]
    if not (0 < by < 1 and rest > 0):
        raise ValueError(f"by={by} of a law with one possible outcome changes nothing")
    law *= 1 + by * law[top] / rest
    law[top] = (1 - by) * np.max(probabilities)
    return law


def rejects(check: Callable[..., None], *args: Any, **kwargs: Any) -> bool:
    """Say whether `check` fails on these arguments: ``assert rejects(...)``.

    Only a failed assertion counts. A control that breaks in another way proves
    nothing about the check, so its error passes through.
    """
    try:
        check(*args, **kwargs)
    except AssertionError:
        return True
    return False


def empirical_counts(draws: ArrayLike, outcomes: Sequence[Any]) -> NDArray[np.int64]:
    """Count how often each of `outcomes` occurs; any other value is an error."""
    values = np.asarray(draws).ravel()
    counts = np.array([(values == outcome).sum() for outcome in outcomes])
    if counts.sum() != values.size:
        raise ValueError("a draw is none of the outcomes")
    return counts.astype(np.int64)


def parse_seeds(text: str) -> list[int]:
    """Read ``0-99`` or ``3,7,10-12`` as a list of seeds."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds.extend(range(int(first), int(last or first) + 1))
    if not seeds:
        raise ValueError(f"no seed in {text!r}")
    return seeds


def _rate_p_value(hits: int, trials: int, expected: float) -> float:
    return float(stats.binomtest(int(hits), int(trials), expected).pvalue)


def _accepted(trials: int, rate: float) -> tuple[int, int]:
    """Return the least and the greatest count that `assert_rate` lets through."""
    mode = min(int((trials + 1) * rate), trials)

    def edge(passing: int, failing: int) -> int:
        while abs(passing - failing) > 1:
            middle = (passing + failing) // 2
            if _rate_p_value(middle, trials, rate) > ALPHA:
                passing = middle
            else:
                failing = middle
        return passing

    return edge(mode, -1), edge(mode, trials + 1)


def _checked(
    counts: ArrayLike, probabilities: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    drawn, law = np.asarray(counts), np.asarray(probabilities, dtype=float)
    if drawn.ndim != 1 or drawn.shape != law.shape:
        raise ValueError(f"counts {drawn.shape} do not match law {law.shape}")
    if not np.issubdtype(drawn.dtype, np.integer) or (drawn < 0).any():
        raise ValueError("counts must be whole numbers, none negative")
    if not drawn.sum() > 0:
        raise ValueError("no draws to judge")
    if not ((law >= 0).all() and abs(law.sum() - 1) <= 1e-9):
        raise ValueError(f"probabilities must sum to one; they sum to {law.sum()!r}")
    return drawn.astype(np.int64), law


def _merged(
    counts: NDArray[np.int64], law: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sort cells by probability, the likeliest first, with the rare ones as one."""
    order = np.argsort(-law, kind="stable")
    counts, law = counts[order], law[order]
    common = int((law * counts.sum() >= _RARE).sum())
    if common < len(law) - 1:
        counts = np.append(counts[:common], counts[common:].sum())
        law = np.append(law[:common], law[common:].sum())
    return counts, law


def _tail_sums(values: NDArray[Any]) -> NDArray[Any]:
    return np.cumsum(values[::-1])[::-1]


def _most_surprising(counts: ArrayLike, probabilities: ArrayLike) -> str:
    drawn, law = _checked(counts, probabilities)
    trials = int(drawn.sum())
    expected = trials * law
    scale = np.sqrt(np.maximum(expected * (1 - law), 1e-300))
    worst = int(np.argmax(np.abs(drawn - expected) / scale))
    return f"outcome {worst}: {drawn[worst]}/{trials} against {law[worst]:.6f}"
