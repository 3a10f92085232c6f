"""The public parameters of a reusable holdout, and what follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from scipy.optimize import minimize_scalar

from reticent._numbers import down, positive, real, up, whole
from reticent._text import one_of
from reticent.errors import InvalidParameterError
from reticent.generalization.averages import GRID
from reticent.generalization.holdout.answers import HoldoutAnswer
from reticent.generalization.holdout.intervals import (
    truth_interval,
    weighted_prefixes,
)
from reticent.generalization.holdout.rules import (
    AnswerAccuracy,
    answers_to_truth,
    noise_at_most,
    rounded_holdout,
    thresholdout,
)
from reticent.guarantees import Certificate, pure_robust_error

Method = Literal["laplace", "rounding"]


@dataclass(frozen=True, kw_only=True)
class HoldoutDesign:
    """How a reusable holdout answers, fixed before the first query."""

    method: Method  #: noise, or few possible answers
    #: Units, most queries, and answers that may contradict a guess.
    n: int
    queries: int
    overfits: int
    threshold: float  #: distance from the guess that counts as agreement
    scale: float  #: noise scale of an answer; 0 for rounding
    levels: int  #: values an answer is rounded to; 0 for noise
    #: Pure privacy (R3) or few transcripts (R3-rounding) of all answers together.
    certificate: Certificate[Any]

    def accuracy(self, beta: float) -> Certificate[AnswerAccuracy]:
        """Return how far answers may be from the truth, except with chance `beta`."""
        return answers_to_truth(
            self.certificate,
            beta=beta,
            threshold=self.threshold,
            queries=self.queries,
        )

    def interval(self, answer: HoldoutAnswer, beta: float) -> tuple[float, float]:
        """Return where the truth of an answer is, except with chance `beta` in total.

        Without noise by `truth_interval`; with noise, `accuracy` on both sides.
        """
        value = real("interval", "value", answer.value)
        if self.method == "laplace":
            error = self.accuracy(beta).guarantee.error
            return max(0.0, value - error), min(1.0, value + error)
        own = 0.5 / self.levels if answer.overfit else self.threshold
        low, high = truth_interval(
            value,
            up(own + 2 * GRID),
            n=self.n,
            prefixes=weighted_prefixes(
                self.queries,
                self.levels + 1,
                self.overfits if answer.before is None else answer.before,
            ),
            beta=beta,
        )
        # Values are rounded to the grid, which moves the truth too.
        return max(0.0, down(low - GRID)), min(1.0, up(high + GRID))


def design_holdout(
    *,
    n: int,
    queries: int,
    overfits: int,
    threshold: float | None,
    guess_units: int | None,
    method: str,
    scale: float | None,
    beta: float,
    seeded: bool,
) -> HoldoutDesign:
    """Fill in what the user left open, from public numbers alone."""
    n = whole("ReusableHoldout", "n", n)
    queries = whole("ReusableHoldout", "queries", queries)
    overfits = min(whole("ReusableHoldout", "overfits", overfits), queries)
    one_of("method", method, "auto", "laplace", "rounding")
    guess_units = whole("ReusableHoldout", "guess_units", guess_units or n)
    honest = _honest_distance(n, guess_units, queries, beta)
    if threshold is not None:
        threshold = real("ReusableHoldout", "threshold", threshold)
        if not 0 < threshold < 1:
            raise InvalidParameterError(
                f"threshold={threshold!r} must lie between 0 and 1."
            )
    designs = [
        make(n, queries, overfits, threshold, honest, scale, beta, seeded)
        for name, make in (("rounding", _rounding), ("laplace", _laplace))
        if method in ("auto", name)
    ]
    # Public numbers alone decide, so the choice reveals nothing about the data.
    return min(designs, key=lambda d: d.accuracy(beta).guarantee.error)


def _rounding(
    n: int,
    queries: int,
    overfits: int,
    threshold: float | None,
    honest: float,
    scale: float | None,
    beta: float,
    seeded: bool,
) -> HoldoutDesign:
    threshold = honest if threshold is None else threshold
    # Half a level is a quarter of the threshold. The bound would allow a quarter of the
    # levels; finer answers cost little and are usually nearer to the truth.
    levels = math.ceil(2 / threshold)
    return HoldoutDesign(
        method="rounding",
        n=n,
        queries=queries,
        overfits=overfits,
        threshold=threshold,
        scale=0.0,
        levels=levels,
        certificate=rounded_holdout(
            n=n, queries=queries, overfits=overfits, levels=levels
        ),
    )


def _laplace(
    n: int,
    queries: int,
    overfits: int,
    threshold: float | None,
    honest: float,
    scale: float | None,
    beta: float,
    seeded: bool,
) -> HoldoutDesign:
    def design(scale: float) -> HoldoutDesign:
        # So far that noise alone rarely makes an honest guess look like overfitting.
        safe = noise_at_most(
            scale=scale,
            threshold=honest,
            overfits=overfits,
            queries=queries,
            failure=beta,
        )
        return HoldoutDesign(
            method="laplace",
            n=n,
            queries=queries,
            overfits=overfits,
            threshold=min(1.0, safe) if threshold is None else threshold,
            scale=scale,
            levels=0,
            certificate=thresholdout(
                n=n, scale=scale, overfits=overfits, seeded=seeded
            ),
        )

    if scale is not None:
        return design(positive("ReusableHoldout", "scale", scale))
    found = minimize_scalar(
        lambda log: _error(design(math.exp(log)), beta),
        bounds=(math.log(1e-3 / n), 0.0),
        method="bounded",
    )
    return design(math.exp(float(found.x)))


def _honest_distance(n: int, guess_units: int, queries: int, beta: float) -> float:
    """Return a distance that honest guesses rarely reach.

    Averages of one query over `n` units and over `guess_units` others differ by more
    than this with probability at most ``beta / queries``, by Hoeffding for both.
    """
    spread = math.log(2 * queries / beta) * (1 / n + 1 / guess_units) / 2
    return min(0.5, math.sqrt(spread))


def _error(design: HoldoutDesign, beta: float) -> float:
    """Return the accuracy without its limit of one, so that it can be minimised."""
    epsilon = design.certificate.guarantee.epsilon
    return pure_robust_error(epsilon, design.n, beta / 2) + noise_at_most(
        scale=design.scale,
        threshold=design.threshold,
        overfits=design.overfits,
        queries=design.queries,
        failure=beta / 2,
    )
