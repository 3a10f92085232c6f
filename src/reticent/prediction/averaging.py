"""Private predictions by noisy averages over models on disjoint shards (P2)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from reticent._sklearn import HasMethods, Interval, MatrixLike, StrOptions, fit_context
from reticent.ensembles import STEPS, check_bounds
from reticent.guarantees import (
    Certificate,
    Conclusion,
    ReplaceOne,
    Scope,
    Sensitivity,
    gaussian_noise,
    rule,
)
from reticent.guarantees.numbers import below_one, whole
from reticent.mechanisms import (
    GridNoise,
    RealResponse,
    Response,
    average_vote,
    average_vote_certificate,
    calibrate_gaussian,
    calibrate_laplace,
)
from reticent.prediction.base import (
    ShardedPredictor,
    checked_base,
    checked_labels,
    checked_rows_and,
    checked_targets,
    keeps_what_it_learned,
    over_shards,
)
from reticent.prediction.training import classifiers_of_shards, regressors_of_shards

_CONSTRAINTS: dict[str, list[Any]] = {
    "estimator": [HasMethods(["fit", "predict"])],
    "epsilon": [Interval(Real, 0, None, closed="neither")],
    "n_shards": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "delta": [Interval(Real, 0, 1, closed="left")],
    "verbose": ["verbose"],
}


@rule(
    "P2-sums",
    name="sum of bounded outputs in whole steps",
    statement="one retrained model moves a sum of outputs in 0..s by s, and a sum of "
    "points of the simplex by 2s in l1",
    source="S1 Lemma 4.6",
    gives=Sensitivity,
)
def sums_sensitivity(*, n: int, steps: int, dimension: int) -> Conclusion[Sensitivity]:
    """Bound how far one replaced unit moves a sum over shards of `n` units."""
    steps = whole("rule P2-sums", "steps", steps)
    if whole("rule P2-sums", "dimension", dimension) == 1:
        moved = Sensitivity(float(steps))
    else:
        # Two points of the simplex are at most 2 apart in l1 and sqrt 2 in l2.
        moved = Sensitivity(2.0 * steps, 1.4142135623730952 * steps)
    return Conclusion(moved, ReplaceOne(n), Scope.ANSWER)


def _sum_noise(
    n: int, dimension: int, epsilon: float, delta: float, seeded: bool
) -> tuple[GridNoise, Certificate[Any]]:
    """Calibrate noise for one answer's sums; return it with its certificate.

    With a delta the noise is Gaussian and the certificate states its zCDP, because
    many answers compose best by it.
    """
    premise = sums_sensitivity(n=n, steps=STEPS, dimension=dimension)
    settings: dict[str, Any] = {
        "dimension": dimension,
        "grid": 1.0,
        "on_grid": True,
        "seeded": seeded,
    }
    delta = below_one("averaging", "delta", delta)
    if delta == 0:
        noise = calibrate_laplace(premise, epsilon=epsilon, **settings)
        return noise, noise.certificate
    noise = calibrate_gaussian(premise, epsilon=epsilon, delta=delta, **settings)
    rounded = noise.certificate.premises[0]
    return noise, gaussian_noise(rounded, scale=noise.scale)


def _base_gives_probabilities(model: Any) -> bool:
    return hasattr(model.estimator, "predict_proba")


class PrivateAveragingClassifier(ClassifierMixin, ShardedPredictor):
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
    random_state, n_jobs, verbose
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
        **_CONSTRAINTS,
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
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.classes = classes
        self.n_shards = n_shards
        self.delta = delta
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
        # Checked first: a mistaken epsilon must not cost a training run.
        _sum_noise(1, 1, self.epsilon, self.delta, False)
        partition, source, choice = self._deal(X, units, len(labels), self.epsilon)
        self.ensemble_ = classifiers_of_shards(
            self, X, y, partition, source, labels.classes
        )
        self.classes_ = labels.classes
        self.n_units_ = partition.n_units
        self.n_shards_ = choice.n_shards
        self.shard_choice_ = choice
        self._source = source
        self._certify(partition.n_units, source.seeded)
        return self

    def _certify(self, n: int, seeded: bool) -> None:
        facts: dict[str, Any] = {
            "shards": self.n_shards_,
            "public_labels": self.classes is None,
            "seeded": seeded,
            "frozen": keeps_what_it_learned(self.estimator),
        }
        # Two probabilities are one number.
        width = 1 if len(self.classes_) == 2 else len(self.classes_)
        self._noise, promised = _sum_noise(n, width, self.epsilon, self.delta, seeded)
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


@dataclass(frozen=True, eq=False, repr=False)
class BoundedAnswers:
    """The exact law of noisy averages in the units of the target.

    Attributes
    ----------
    location : ndarray of shape (n,)
        The averages before noise.
    scale : float
        Scale of the noise.
    law : GridLaw
        Its law.
    """

    steps: RealResponse
    low: float
    unit: float
    high: float

    @property
    def location(self) -> NDArray[np.float64]:
        """The averages before noise."""
        return np.asarray(self.low + self.unit * self.steps.location)

    @property
    def scale(self) -> float:
        """Scale of the noise."""
        return self.unit * self.steps.scale

    @property
    def law(self) -> Any:
        """Law of the noise."""
        return self.steps.law

    def draw(self, source: Any) -> NDArray[np.float64]:
        """Draw noisy averages, clipped to the public bounds."""
        noisy = self.low + self.unit * self.steps.draw(source)
        return np.clip(noisy, self.low, self.high)


class PrivateAveragingRegressor(RegressorMixin, ShardedPredictor):
    r"""Regressor whose every predicted number is differentially private.

    One clone of any scikit-learn regressor or pipeline is trained on each shard; its
    outputs are clipped to public bounds, averaged, and released with noise.

    Parameters
    ----------
    estimator : regressor or pipeline
        What is trained on each shard.
    epsilon : float
        Privacy cost of one predicted number.
    bounds : (float, float)
        Public bounds on the target, known without looking at the data. Answers
        outside are clipped; tighter bounds mean less noise.
    n_shards : int or "auto", default="auto"
        Number of shards; the noise shrinks in proportion to it.
    delta : float, default=0.0
        Above 0 the noise is Gaussian, and the certificate states its zCDP.
    random_state, n_jobs, verbose
        As for `PrivateVotingClassifier`.

    Attributes
    ----------
    certificate_ : Certificate
        What one answer promises.
    n_units_, n_shards_, shard_choice_, ensemble_
        As for `PrivateVotingClassifier`.

    Guarantee
    ---------
    One answer is `epsilon`-DP, or zCDP as the certificate says, under replacement of
    one unit. *Proof.* One replaced unit retrains one model, which moves a sum of
    clipped outputs, counted in whole steps, by at most the range (P2-sums); G5.

    References
    ----------
    :cite:`DworkFeldman2018`, Cor. 4.7; THEOREMS P2, G5.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PrivateAveragingRegressor(Ridge(), epsilon=1.0, bounds=(0, 400))
    >>> print(model.fit(X, y).certificate_.guarantee)
    1-DP
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_CONSTRAINTS,
        "bounds": ["array-like"],
    }

    def __init__(
        self,
        estimator: Any,
        epsilon: float = 1.0,
        bounds: tuple[float, float] = (0.0, 1.0),
        n_shards: int | str = "auto",
        *,
        delta: float = 0.0,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.bounds = bounds
        self.n_shards = n_shards
        self.delta = delta
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: MatrixLike, y: MatrixLike, units: Any = None) -> Self:
        """Train one model a shard and issue the certificate; nothing is released.

        Parameters
        ----------
        X, units
            As for `PrivateVotingClassifier`.
        y : array-like of shape (n_rows,)
            Targets; values outside the bounds are clipped.
        """
        checked_base(self.estimator, "predict")
        low, high = check_bounds(self.bounds)
        X = self._rows(X, reset=True)
        y = np.clip(checked_targets(y), low, high)
        checked_rows_and(X, y)
        _sum_noise(1, 1, self.epsilon, self.delta, False)
        partition, source, choice = self._deal(X, units, 1, self.epsilon)
        self.ensemble_ = regressors_of_shards(
            self, X, y, partition, source, (low, high)
        )
        self.n_units_ = partition.n_units
        self.n_shards_ = choice.n_shards
        self.shard_choice_ = choice
        self._source = source
        self._noise, promised = _sum_noise(
            partition.n_units, 1, self.epsilon, self.delta, source.seeded
        )
        self.certificate_: Certificate[Any] = over_shards(
            promised,
            shards=choice.n_shards,
            public_labels=False,
            seeded=source.seeded,
            frozen=keeps_what_it_learned(self.estimator),
        )
        return self

    def response(self, X: MatrixLike) -> BoundedAnswers:
        """Return the exact law of the answers before clipping: for trusted eyes."""
        X = self._queries(X)
        sums = self.ensemble_.output_sums(X)
        low, high = self.ensemble_.bounds
        unit = (high - low) / (self.n_shards_ * STEPS)
        return BoundedAnswers(self._noise.response(sums.astype(float)), low, unit, high)

    def predict(self, X: MatrixLike) -> NDArray[np.float64]:
        """Draw one private number a row; m rows spend m certificates."""
        return self.response(X).draw(self._source)
