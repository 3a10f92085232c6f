"""Private labels and probabilities by averages over disjoint shards (P2)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from reticent._arrays import Floats
from reticent._sklearn import MatrixLike
from reticent.ensembles import OUTPUT_STEPS
from reticent.guarantees import Certificate
from reticent.mechanisms import (
    GridNoise,
    RandomSource,
    RealResponse,
    Response,
    average_vote,
    average_vote_certificate,
)
from reticent.prediction.sharded.base import ShardLaw, TrainedShards
from reticent.prediction.sharded.expectation import largest_stays
from reticent.prediction.sharded.fitting import ShardedClassifier
from reticent.prediction.sharded.sums import SumNoise


def _gives_probabilities(model: Any) -> bool:
    # Once fitted, what was certified at fit counts, not what the parameter is now.
    if hasattr(model, "law_"):
        return model.law_.probability_certificate is not None
    return hasattr(model.estimator, "predict_proba")


@dataclass(eq=False, repr=False)
class PrivateAveragingClassifier(ShardedClassifier):
    r"""Classifier that answers from the noisy average of models on disjoint shards.

    `predict` draws a label from the average vote; `predict_proba` releases the average
    of the models' class probabilities with noise, projected to the simplex.

    Parameters
    ----------
    estimator : classifier or pipeline
        What is trained on each shard; `predict_proba` needs one that has it too.
    epsilon : float
        Privacy cost of one answer, a label or a vector of probabilities.
    classes : array-like of shape (n_classes,), default=None
        The public labels; None reads them from `y` and assumes that they are public.
    n_shards : int or "auto", default="auto"
        Number of shards.
    delta : float, default=0.0
        Above 0, probabilities carry Gaussian instead of Laplace noise.
    public_types, random_state, n_jobs, verbose
        As for `PrivateVotingClassifier`.

    Attributes
    ----------
    certificate_ : Certificate
        What one answer of `predict` promises. For two labels it is the exact loss of
        the averaged vote, which is below `epsilon`.
    probability_certificate_ : Certificate or None
        What one answer of `predict_proba` promises; zCDP if there is a delta. None
        if the base estimator gives no probabilities.
    classes_, n_units_, n_shards_, shard_choice_, expectation_, shard_errors_, ensemble_
        As for `PrivateVotingClassifier`.

    Guarantee
    ---------
    One answer is private as its certificate says, under replacement of one unit.
    *Proof.* One replaced unit retrains one model, which moves the sum of votes by one
    and the sum of probability vectors by two steps of the simplex in l1 (P2-sums);
    sums are whole numbers, so no rounding adds to that. Labels of more than two
    classes are read off noisy probabilities, or votes, which is post-processing.

    References
    ----------
    :cite:`DworkFeldman2018`, Cor. 4.7; THEOREMS P2.
    """

    estimator: Any
    epsilon: float = 1.0
    classes: ArrayLike | None = None
    n_shards: int | str = "auto"
    _: KW_ONLY
    delta: float = 0.0
    public_types: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    verbose: bool = False

    law_: AverageLabelLaw = field(init=False)

    def _plan(self, task: Any, n_units: int, source: RandomSource) -> SumNoise:
        return label_noise(
            n_units,
            len(task.classes),
            epsilon=self.epsilon,
            delta=self.delta,
            seeded=source.seeded,
        )

    def _best_answer(self, plan: SumNoise, shards: int, labels: int) -> float:
        if labels > 2:
            return largest_stays(plan.noise, shards * float(OUTPUT_STEPS), labels - 1)
        unanimous = np.array([[shards, 0]])
        return float(average_vote(unanimous, plan.epsilon).probabilities[0, 0])

    def _law(self, trained: TrainedShards, plan: SumNoise) -> AverageLabelLaw:
        gives = hasattr(self.estimator, "predict_proba")
        return AverageLabelLaw.of(trained, plan, probabilities=gives)

    @property
    def probability_certificate_(self) -> Certificate[Any] | None:
        """What one answer of `predict_proba` promises, if there is one."""
        check_is_fitted(self, "law_")
        return self.law_.probability_certificate

    @available_if(_gives_probabilities)
    def predict_proba(self, X: MatrixLike) -> Floats:
        """Release noisy class probabilities, one private vector per row."""
        check_is_fitted(self, "law_")
        return self.law_.draw_probabilities(X)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AverageLabelLaw(ShardLaw):
    """The laws of labels, and of probabilities, drawn from averages."""

    #: What one vector of probabilities promises; None if there are none.
    probability_certificate: Certificate[Any] | None
    #: What the noise was calibrated to.
    epsilon: float
    delta: float
    noise: GridNoise  #: the noise that sums of probabilities carry

    @classmethod
    def of(
        cls,
        trained: TrainedShards,
        sums: SumNoise,
        *,
        probabilities: bool,
        **named: Any,
    ) -> AverageLabelLaw:
        """Return the law of averages of trained models, with its certificates."""
        noisy = trained.certified(sums.certificate)
        labels = noisy
        if trained.n_labels == 2:
            vote = average_vote_certificate(
                n=trained.n_units,
                voters=trained.n_shards,
                epsilon=sums.epsilon,
                seeded=trained.source.seeded,
            )
            labels = trained.certified(vote)
        return cls(
            certificate=labels,
            probability_certificate=noisy if probabilities else None,
            epsilon=sums.epsilon,
            delta=sums.delta,
            noise=sums.noise,
            **trained.shared(),
            **named,
        )

    def response(self, X: MatrixLike) -> Response | RealResponse:
        """Return the exact law behind a label: not private.

        For two labels the law of the label; for more, the law of the noisy vote
        counts in steps, whose largest is the answer.
        """
        votes = self.votes(X)
        if votes.shape[1] == 2:
            return average_vote(votes, self.epsilon)
        return self.noise.response(votes * float(OUTPUT_STEPS))

    def draw(self, X: MatrixLike) -> NDArray[Any]:
        """Draw one private label per row, with fresh randomness."""
        law = self.response(X)
        drawn = law.draw(self.source)
        places = drawn if isinstance(law, Response) else drawn.argmax(axis=1)
        return self._named(places.astype(np.int64))

    def draw_probabilities(self, X: MatrixLike) -> Floats:
        """Draw one private vector of probabilities per row."""
        sums = self.ensemble.probability_sums(self.form.rows(X))
        whole_sum = float(self.n_shards * OUTPUT_STEPS)
        if sums.shape[1] == 2:
            noisy = self.noise.response(sums[:, 1].astype(float)).draw(self.source)
            second = np.clip(noisy / whole_sum, 0.0, 1.0)
            return np.stack([1 - second, second], axis=1)
        noisy = self.noise.response(sums.astype(float)).draw(self.source)
        return project_to_simplex(noisy / whole_sum)


def label_noise(
    n_units: int, n_labels: int, *, epsilon: float, delta: float, seeded: bool
) -> SumNoise:
    """Calibrate the noise of sums of class probabilities, or of votes."""
    # The probabilities of two labels are one number.
    width = 1 if n_labels == 2 else n_labels
    return SumNoise.calibrated(
        n_units, width, epsilon=epsilon, delta=delta, seeded=seeded
    )


def project_to_simplex(rows: Floats) -> Floats:
    """Return the nearest point of the probability simplex for each row."""
    ordered = -np.sort(-rows, axis=1)
    levels = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    kept = (ordered > levels).sum(axis=1)
    level = levels[np.arange(len(rows)), kept - 1]
    points = np.maximum(rows - level[:, None], 0.0)
    return np.asarray(points / points.sum(axis=1, keepdims=True))
