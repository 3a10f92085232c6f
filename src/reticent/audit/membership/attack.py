"""The attacker: shadow models, likelihood ratios, and adaptive questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from reticent._arrays import Floats
from reticent.errors import InvalidDataError, InvalidParameterError

# How often a shadow model is asked each question at first. If the answers differ, they
# are random, and it is asked more often to estimate their law.
_FIRST_REPEATS = 8
_MORE_REPEATS = 240
# Batches of questions in one game, each chosen by the answers of earlier batches;
# choosing one question at a time would be slower and hardly better.
_BATCHES = 4
# Real-valued shadow answers closer than this share of their size count as equal.
_NARROWEST = 1e-6


@dataclass(frozen=True)
class Reading:
    """How one answer becomes the number that the attack uses.

    A label becomes one if it is the target's and zero otherwise, a vector of
    probabilities the log-odds of the target's label; a number stays as it is.
    """

    method: str
    numeric: bool

    @property
    def coin(self) -> bool:
        """Whether readings are zeros and ones."""
        return self.method == "predict" and not self.numeric

    def __call__(self, model: Any, X: NDArray[Any], label: Any) -> Floats:
        """Ask a model and read its answers with respect to one label."""
        ask = getattr(model, self.method, None)
        if ask is None:
            raise InvalidParameterError(
                f"interface={self.method!r} is not a method of "
                f"{type(model).__name__}(...), so it cannot be asked."
            )
        answers = np.asarray(ask(X))
        if self.method == "predict":
            return np.asarray(answers if self.numeric else answers == label, float)
        # A label that the model never saw has probability zero.
        mine = np.asarray(model.classes_) == label
        chance = np.clip(answers[:, mine].sum(axis=1), 1e-9, 1 - 1e-9)
        return np.asarray(np.log(chance) - np.log1p(-chance))


@dataclass(frozen=True)
class Shadows:
    """The answers of shadow models with and without the target to each question."""

    # Shape (n_shadows, n_questions); mean reading of each shadow model.
    inside: Floats
    outside: Floats
    # Shape (n_questions,); standard deviation of one real-valued reading; None for
    # zeros and ones.
    spread: Floats | None
    random: bool  # whether asking again can give another answer

    def log_likelihood(
        self, means: Floats, questions: NDArray[Any], seen: NDArray[Any]
    ) -> Floats:
        """Return the log-likelihood of readings under each shadow model."""
        centre = means[:, questions]
        if self.spread is None:
            chance = np.where(seen > 0.5, centre, 1 - centre)
            return np.asarray(np.log(chance).sum(axis=1))
        gaps = (seen - centre) / self.spread[questions]
        return np.asarray(-0.5 * (gaps**2).sum(axis=1))

    def separation(self, inside: Floats, outside: Floats) -> Floats:
        """Return how well each question distinguishes the two worlds.

        `inside` and `outside` are the log-weights of the shadow models so far.
        """
        here = np.exp(inside - logsumexp(inside)) @ self.inside
        there = np.exp(outside - logsumexp(outside)) @ self.outside
        if self.spread is None:
            middle = (here + there) / 2
            return np.asarray((here - there) ** 2 / (middle * (1 - middle)))
        return np.asarray(((here - there) / self.spread) ** 2)


def observe_shadows(
    models: tuple[list[Any], list[Any]],
    questions: NDArray[Any],
    label: Any,
    reading: Reading,
) -> Shadows:
    """Question shadow models that were fitted with and without the target."""
    first = [
        [_asked(model, questions, label, reading, _FIRST_REPEATS) for model in world]
        for world in models
    ]
    random = any((seen != seen[:1]).any() for world in first for seen in world)
    if random:
        more = [
            [_asked(model, questions, label, reading, _MORE_REPEATS) for model in world]
            for world in models
        ]
        first = [
            [np.vstack(pair) for pair in zip(few, many, strict=True)]
            for few, many in zip(first, more, strict=True)
        ]
    means = [np.array([seen.mean(axis=0) for seen in world]) for world in first]
    if reading.coin:
        count = len(first[0][0])
        inside, outside = ((mean * count + 0.5) / (count + 1) for mean in means)
        return Shadows(inside, outside, None, random)
    everything = np.concatenate([seen for world in first for seen in world])
    within = np.mean([seen.var(axis=0) for world in first for seen in world], axis=0)
    between = np.mean([mean.var(axis=0) for mean in means], axis=0)
    # A kernel around each shadow model, whose width is the spread within one world.
    width = np.sqrt(within + between / len(means[0]) ** 0.4)
    narrow = _NARROWEST * np.maximum(1.0, np.abs(everything).max(axis=0))
    return Shadows(means[0], means[1], np.maximum(width, narrow), random)


def _asked(
    model: Any, questions: NDArray[Any], label: Any, reading: Reading, times: int
) -> Floats:
    readings = reading(model, np.tile(questions, (times, 1)), label)
    if not np.isfinite(readings).all():
        raise InvalidDataError("a shadow model gave an answer that is not finite.")
    return readings.reshape(times, len(questions))


def membership_log_ratio(
    ask: Callable[[NDArray[Any]], Floats],
    shadows: Shadows,
    answers: int,
    *,
    adaptive: bool,
    again: bool,
) -> float:
    """Question one model and return the log-likelihood ratio of membership.

    It is positive when the answers look more like a model that saw the target.
    ``ask(places)`` returns a reading for each question, by its place; `shadows` have
    the expected answers in both worlds. If `adaptive`, each batch asks where the two
    worlds differ most according to the answers so far; otherwise questions are taken in
    turn. `again` says whether asking a question twice is useful.
    """
    n_questions = shadows.inside.shape[1]
    left = answers if again else min(answers, n_questions)
    inside = np.full(len(shadows.inside), -np.log(len(shadows.inside)))
    outside = np.full(len(shadows.outside), -np.log(len(shadows.outside)))
    unasked, asked = np.arange(n_questions), 0
    while left:
        batch = min(left, -(-answers // _BATCHES))
        order = unasked
        if adaptive:
            worth = shadows.separation(inside, outside)[unasked]
            order = unasked[np.argsort(-worth, kind="stable")]
        if again:
            turns = (asked + np.arange(batch)) % n_questions
            places = np.full(batch, order[0]) if adaptive else turns
        else:
            places = order[:batch]
            unasked = np.setdiff1d(unasked, places)
        seen = ask(places)
        inside = inside + shadows.log_likelihood(shadows.inside, places, seen)
        outside = outside + shadows.log_likelihood(shadows.outside, places, seen)
        left, asked = left - len(places), asked + len(places)
    return float(logsumexp(inside) - logsumexp(outside))
