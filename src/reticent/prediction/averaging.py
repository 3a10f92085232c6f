"""Private labels and probabilities by averages over disjoint shards (P2)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from reticent._sklearn import HasMethods, Interval, MatrixLike, StrOptions, fit_context
from reticent.ensembles import STEPS, ClassifierEnsemble, Labels
from reticent.guarantees import Certificate
from reticent.mechanisms import (
    RandomSource,
    RealResponse,
    Response,
    average_vote,
    average_vote_certificate,
)
from reticent.prediction.base import (
    checked_base,
    checked_labels,
    checked_rows_and,
    keeps_what_it_learned,
    over_shards,
)
from reticent.prediction.batches import BatchFitting, declared_labels
from reticent.prediction.shards import ShardChoice
from reticent.prediction.sums import sum_noise
from reticent.prediction.training import classifiers_of_shards

AVERAGING_CONSTRAINTS: dict[str, list[Any]] = {
    "estimator": [HasMethods(["fit", "predict"])],
    "epsilon": [Interval(Real, 0, None, closed="neither")],
    "n_shards": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "delta": [Interval(Real, 0, 1, closed="left")],
    "public_types": ["boolean"],
    "verbose": ["verbose"],
}


def _base_gives_probabilities(model: Any) -> bool:
    return hasattr(model.estimator, "predict_proba")


class PrivateAveragingClassifier(ClassifierMixin, BatchFitting):
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
    classes_, n_units_, n_shards_, shard_choice_, ensemble_
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AVERAGING_CONSTRAINTS,
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        estimator: Any,
        epsilon: float = 1.0,
        classes: ArrayLike | None = None,
        n_shards: int | str = "auto",
        *,
        delta: float = 0.0,
        public_types: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.classes = classes
        self.n_shards = n_shards
        self.delta = delta
        self.public_types = public_types
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: MatrixLike, y: MatrixLike, units: Any = None) -> Self:
        """Train one model a shard and issue the certificates; nothing is released.

        Parameters
        ----------
        X, y, units
            As for `PrivateVotingClassifier`.
        """
        checked_base(self.estimator, "predict")
        X = self._rows(X, reset=True)
        labels, y = checked_labels(self.classes, y)
        checked_rows_and(X, y)
        strength = self._strength(labels)
        partition, source, choice = self._deal(X, units, len(labels), strength)
        ensemble = classifiers_of_shards(self, X, y, partition, source, labels.classes)
        self._finish(ensemble, labels, partition.n_units, choice, source)
        return self

    def _task(self) -> Labels:
        checked_base(self.estimator, "predict")
        labels = declared_labels(self.classes)
        self._strength(labels)
        return labels

    def _strength(self, task: Any) -> float:
        # Checked before training: a mistaken epsilon must not cost a run.
        sum_noise(1, 1, self.epsilon, self.delta, False)
        return self.epsilon

    def _finish(
        self,
        ensemble: ClassifierEnsemble,
        task: Any,
        n_units: int,
        choice: ShardChoice,
        source: RandomSource,
    ) -> None:
        self.ensemble_ = ensemble
        self.classes_ = task.classes
        self.n_units_ = n_units
        self.n_shards_ = choice.n_shards
        self.shard_choice_ = choice
        self._source = source
        self._certify(n_units, source.seeded)

    def _certify(self, n: int, seeded: bool) -> None:
        facts: dict[str, Any] = {
            "shards": self.n_shards_,
            "public_labels": self.classes is None,
            "seeded": seeded,
            "frozen": keeps_what_it_learned(self.estimator),
            "public_types": self.ensemble_.columns.public_types,
        }
        # Two probabilities are one number.
        width = 1 if len(self.classes_) == 2 else len(self.classes_)
        self._noise, promised = sum_noise(n, width, self.epsilon, self.delta, seeded)
        self.probability_certificate_ = (
            over_shards(promised, **facts) if _base_gives_probabilities(self) else None
        )
        if len(self.classes_) == 2:
            promised = average_vote_certificate(
                n=n, voters=self.n_shards_, epsilon=self.epsilon, seeded=seeded
            )
        self.certificate_: Certificate[Any] = over_shards(promised, **facts)

    def response(self, X: MatrixLike) -> Response | RealResponse:
        """Return the exact law behind `predict`: for trusted eyes only.

        For two labels the law of the label; for more, the law of the noisy vote
        counts in steps, whose largest is the answer.
        """
        X = self._queries(X)
        votes = self.ensemble_.votes(X)
        if len(self.classes_) == 2:
            return average_vote(votes, self.epsilon)
        return self._noise.response(votes * float(STEPS))

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Draw one private label a row; m rows spend m certificates."""
        law = self.response(X)
        drawn = law.draw(self._source)
        places = drawn if isinstance(law, Response) else drawn.argmax(axis=1)
        return np.asarray(self.classes_[places.astype(np.int64)])

    @available_if(_base_gives_probabilities)
    def predict_proba(self, X: MatrixLike) -> NDArray[np.float64]:
        """Release noisy class probabilities, one private vector a row."""
        X = self._queries(X)
        sums = self.ensemble_.probability_sums(X)
        whole_sum = float(self.n_shards_ * STEPS)
        if len(self.classes_) == 2:
            noisy = self._noise.response(sums[:, 1].astype(float)).draw(self._source)
            second = np.clip(noisy / whole_sum, 0.0, 1.0)
            return np.stack([1 - second, second], axis=1)
        noisy = self._noise.response(sums.astype(float)).draw(self._source)
        return project_to_simplex(noisy / whole_sum)


def project_to_simplex(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest point of the probability simplex for each row."""
    ordered = -np.sort(-rows, axis=1)
    levels = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    kept = (ordered > levels).sum(axis=1)
    level = levels[np.arange(len(rows)), kept - 1]
    points = np.maximum(rows - level[:, None], 0.0)
    return np.asarray(points / points.sum(axis=1, keepdims=True))
