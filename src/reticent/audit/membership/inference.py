"""Membership inference: attacks on a model, compared with what is allowed."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Floats
from reticent._numbers import probability, whole
from reticent._text import one_of
from reticent.audit.membership.attack import (
    Reading,
    Shadows,
    membership_log_ratio,
    observe_shadows,
)
from reticent.audit.membership.curve import TradeOff, trade_off
from reticent.audit.membership.game import (
    Pool,
    Train,
    checked_pool,
    promise_of,
    training,
)
from reticent.audit.membership.result import (
    AttackPoint,
    MembershipInference,
    exact_rate,
)
from reticent.errors import InvalidParameterError
from reticent.estimators import with_progress
from reticent.guarantees import Certificate
from reticent.prediction import PredictionInterface

# Share of the games that only sets the thresholds; counting the games that chose them
# would not be sound.
_HELD_OUT = 0.3


def membership_inference(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    n: int | None = None,
    targets: int | Sequence[int] = 5,
    answers: int = 8,
    poison: int = 0,
    nearby: int = 7,
    adaptive: bool = True,
    shadows: int = 16,
    games: int = 300,
    false_positive_rates: Sequence[float] = (0.01, 0.05, 0.1),
    confidence: float = 0.999,
    certificate: Certificate[Any] | None = None,
    interface: str = "predict",
    random_state: int | None = None,
    verbose: bool = False,
) -> MembershipInference:
    """Attack a model through its answers, to tell whether a unit was in its data.

    The attacker knows the pool of rows and the learning algorithm, trains shadow models
    with and without the target, and compares the likelihood of the attacked model's
    answers in both cases. Each game fits a new model on a new dataset of the pool, with
    the target or without it.

    Parameters
    ----------
    model : estimator or callable
        What is attacked: a scikit-learn or reticent estimator, cloned for every game,
        or ``train(X, y)`` that returns something with `predict`.
    X, y : array-like
        The pool: rows with labels, one row per unit.
    n : int, default=None
        Units of a training set, target and poison included; None takes half the pool.
    targets : int or sequence of int, default=5
        How many units are attacked, or which rows.
    answers : int, default=8
        Answers that the attacker gets in a game.
    poison : int, default=0
        Units of the training set that the attacker contributed, in both worlds: copies
        of the target with another label.
    nearby : int, default=7
        Questions besides the target's own row: rows that differ from it in one column.
    adaptive : bool, default=True
        Whether later questions depend on earlier answers.
    shadows : int, default=16
        Shadow models with, and as many without, each target.
    games : int, default=300
        Games with, and as many without, the target. Three in ten only set thresholds.
    false_positive_rates : sequence of float
        Where true positives are reported.
    confidence : float, default=0.999
        Probability that all intervals hold.
    certificate : Certificate, default=None
        A promise to compare with; None takes the model's own.
    interface : {"predict", "predict_proba"}, default="predict"
        What an answer is. Use probabilities only if clients see them, too.
    random_state : int, default=None
        Seed for drawing rows; it does not seed the models.
    verbose : bool, default=False
        Show a progress bar on a terminal.

    Returns
    -------
    MembershipInference
        True positives at low false positives, next to what the certificate allows.

    Guarantee
    ---------
    A true certificate is refuted with probability at most ``1 - confidence``. *Proof.*
    Given shadow models and thresholds the counted games are independent, so
    Clopper-Pearson bounds both rates at all thresholds together. In every game the
    two worlds are neighbours, and the allowed curve is concave and rises, so that the
    average rates stay below it.

    References
    ----------
    :cite:`CarliniEtAl2022` for likelihood ratios from shadow models,
    :cite:`TramerEtAl2022` for poisoning, :cite:`ClopperPearson1934` for intervals.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> found = membership_inference(
    ...     KNeighborsClassifier(1), X, 1 - y, n=60, poison=1, games=60,
    ...     shadows=8, false_positive_rates=[0.1], random_state=0,
    ... )
    >>> found.certificate is None, found.refuted
    (True, False)
    """
    pool = checked_pool(X, y, n, poison)
    random = np.random.default_rng(random_state)
    play = _Experiment(
        train=training(model),
        pool=pool,
        reading=_reading(interface, pool),
        answers=whole("membership_inference", "answers", answers),
        nearby=whole("membership_inference", "nearby", nearby, least=0),
        adaptive=bool(adaptive),
        shadows=whole("membership_inference", "shadows", shadows, least=2),
        certificate=certificate,
        random=random,
    )
    places = _targets(targets, pool, random)
    games = whole("membership_inference", "games", games, least=10)
    confidence = probability("membership_inference", "confidence", confidence)
    aims = [
        probability("membership_inference", "false_positive_rates", rate)
        for rate in false_positive_rates
    ]
    if not aims:
        raise InvalidParameterError("false_positive_rates must name at least one rate.")
    scores = play.scores(places, games, verbose)
    return play.judged(scores, aims, confidence, len(places))


class _Experiment:
    """One experiment: prepares the attack on each target, then plays the games."""

    def __init__(
        self,
        *,
        train: Train,
        pool: Pool,
        reading: Reading,
        answers: int,
        nearby: int,
        adaptive: bool,
        shadows: int,
        certificate: Certificate[Any] | None,
        random: np.random.Generator,
    ) -> None:
        self.train, self.pool, self.reading = train, pool, reading
        self.answers, self.nearby, self.adaptive = answers, nearby, adaptive
        self.shadows, self.random = shadows, random
        probe = self._fitted(int(random.integers(len(pool.X))), member=True)
        self.own = promise_of(probe, reading.method)
        self.certificate = self.own if certificate is None else certificate
        # An interface that remembers its answers repeats them.
        self.remembers = isinstance(probe, PredictionInterface)

    def _fitted(self, target: int, *, member: bool) -> Any:
        claim = getattr(self, "certificate", None)
        relation = None if claim is None else claim.relation
        return self.train(
            *self.pool.dataset(target, self.random, member=member, relation=relation)
        )

    def scores(self, targets: list[int], games: int, verbose: bool) -> NDArray[Any]:
        """Play all games; return scores of shape (2, games), members first."""
        stream = sys.stderr if verbose else None
        plan = with_progress(
            targets, total=len(targets), label="shadow models", stream=stream
        )
        attacks = {target: self._prepared(target) for target in plan}
        # Both worlds alternate, and targets are random, so that games are alike.
        drawn = self.random.choice(targets, size=(games, 2)).reshape(-1)
        rounds = with_progress(drawn, total=len(drawn), label="games", stream=stream)
        found = [
            self._game(int(target), attacks[int(target)], member=place % 2 == 0)
            for place, target in enumerate(rounds)
        ]
        return np.array(found).reshape(games, 2).T

    def _prepared(self, target: int) -> tuple[NDArray[Any], Shadows]:
        questions = self.pool.questions(target, self.nearby, self.random)
        worlds = [
            [
                # The attacker's own models have no budget.
                _inside(self._fitted(target, member=member))
                for _ in range(self.shadows)
            ]
            for member in (True, False)
        ]
        label = self.pool.y[target]
        return questions, observe_shadows(
            (worlds[0], worlds[1]), questions, label, self.reading
        )

    def _game(
        self, target: int, attack: tuple[NDArray[Any], Shadows], *, member: bool
    ) -> float:
        questions, shadows = attack
        model = self._fitted(target, member=member)
        own = promise_of(model, self.reading.method)
        if (own is None) != (self.own is None) or (
            own is not None and own.guarantee != self.own.guarantee  # type: ignore[union-attr]
        ):
            raise InvalidParameterError(
                "the model's promise changes with its data, so there is no curve to "
                "compare with. Fix its parameters (n_shards, classes, bounds)."
            )
        label = self.pool.y[target]
        return membership_log_ratio(
            partial(_ask, self.reading, model, questions, label),
            shadows,
            self.answers,
            adaptive=self.adaptive,
            again=shadows.random and not self.remembers,
        )

    def judged(
        self, scores: NDArray[Any], aims: list[float], confidence: float, targets: int
    ) -> MembershipInference:
        """Set thresholds on the held-out games and count the others."""
        first = math.ceil(scores.shape[1] * _HELD_OUT)
        chosen, counted = scores[:, :first], scores[:, first:]
        allowed = None
        if self.certificate is not None:
            allowed = trade_off(self.certificate, self.answers)
        tail = (1 - confidence) / (2 * len(aims))
        points = tuple(
            _point(aim, _threshold(chosen, aim), counted, allowed, tail) for aim in aims
        )
        return MembershipInference(
            points=points,
            certificate=self.certificate,
            allowed=allowed,
            answers=self.answers,
            poison=self.pool.poison,
            games=counted.shape[1],
            shadows=self.shadows,
            targets=targets,
            n=self.pool.n,
            confidence=confidence,
            curve=_curve(counted),
        )


def _inside(model: Any) -> Any:
    return model.predictor if isinstance(model, PredictionInterface) else model


def _ask(
    reading: Reading,
    model: Any,
    questions: NDArray[Any],
    label: Any,
    places: NDArray[Any],
) -> Floats:
    return reading(model, questions[places], label)


def _reading(interface: str, pool: Pool) -> Reading:
    one_of("interface", interface, "predict", "predict_proba")
    if interface == "predict_proba" and pool.numeric:
        raise InvalidParameterError(
            "interface='predict_proba' is for classes; y holds numbers."
        )
    return Reading(interface, pool.numeric)


def _targets(
    targets: int | Sequence[int], pool: Pool, random: np.random.Generator
) -> list[int]:
    if isinstance(targets, int):
        count = whole("membership_inference", "targets", targets)
        if not count <= len(pool.X):
            raise InvalidParameterError(
                f"targets={count} must be at most the {len(pool.X)} rows."
            )
        return [int(row) for row in random.choice(len(pool.X), count, replace=False)]
    rows = [whole("membership_inference", "targets", row, least=0) for row in targets]
    if not rows or max(rows) >= len(pool.X):
        raise InvalidParameterError(
            f"targets must name rows below {len(pool.X)}, at least one."
        )
    return rows


def _threshold(scores: NDArray[Any], aim: float) -> float:
    """Return the lowest score that accuses at most `aim` of the non-members."""
    for candidate in np.unique(scores):
        if (scores[1] >= candidate).mean() <= aim:
            return float(candidate)
    # A non-member has the largest score, so only a larger one may accuse.
    return math.nextafter(float(scores.max()), math.inf)


def _point(
    aim: float,
    threshold: float,
    scores: NDArray[Any],
    allowed: TradeOff | None,
    tail: float,
) -> AttackPoint:
    hits, wrong = (int((world >= threshold).sum()) for world in scores)
    games = scores.shape[1]
    false_rate, true_rate = (
        exact_rate(wrong, games, tail),
        exact_rate(hits, games, tail),
    )
    most = None
    if allowed is not None:
        most = float(allowed.true_positives_at_most(false_rate[2]))
    return AttackPoint(aim, wrong, hits, games, false_rate, true_rate, most)


def _curve(scores: NDArray[Any]) -> tuple[tuple[float, float], ...]:
    inside, outside = scores
    points = [(0.0, 0.0)]
    for threshold in np.unique(scores)[::-1]:
        rates = (outside >= threshold).mean(), (inside >= threshold).mean()
        points.append((float(rates[0]), float(rates[1])))
    return tuple(points)
