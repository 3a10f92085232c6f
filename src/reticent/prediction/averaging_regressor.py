"""Private numbers by averages over disjoint shards (P2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_consistent_length

from reticent._sklearn import MatrixLike, fit_context
from reticent.ensembles import (
    OUTPUT_STEPS,
    RegressorEnsemble,
    check_base_estimator,
    check_bounds,
)
from reticent.estimators import checked_targets
from reticent.mechanisms import GridNoise, RandomSource, RealResponse
from reticent.prediction.averaging import AVERAGING_CONSTRAINTS
from reticent.prediction.sharded.base import (
    ShardLaw,
    keeps_what_it_learned,
    over_shards,
)
from reticent.prediction.sharded.batches import BatchFitting
from reticent.prediction.sharded.counts import ShardChoice
from reticent.prediction.sharded.sums import sum_noise
from reticent.prediction.sharded.training import regressors_of_shards


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


class PrivateAveragingRegressor(RegressorMixin, BatchFitting):
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
    public_types, random_state, n_jobs, verbose
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
        **AVERAGING_CONSTRAINTS,
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
        public_types: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.bounds = bounds
        self.n_shards = n_shards
        self.delta = delta
        self.public_types = public_types
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
        low, high = bounds = self._task()
        X = self._rows(X, reset=True)
        y = np.clip(checked_targets(y), low, high)
        check_consistent_length(X, y)
        strength = self._strength(bounds)
        partition, source, choice = self._deal(X, units, 1, strength)
        ensemble = regressors_of_shards(self, X, y, partition, source, bounds)
        self._finish(ensemble, bounds, partition.n_units, choice, source)
        return self

    def _task(self) -> tuple[float, float]:
        check_base_estimator(self.estimator, "predict")
        bounds = check_bounds(self.bounds)
        self._strength(bounds)
        return bounds

    def _strength(self, task: Any) -> float:
        # Checked before training: a mistaken epsilon must not cost a run.
        sum_noise(1, 1, self.epsilon, self.delta, False)
        return self.epsilon

    def _finish(
        self,
        ensemble: RegressorEnsemble,
        task: Any,
        n_units: int,
        choice: ShardChoice,
        source: RandomSource,
    ) -> None:
        noise, promised = sum_noise(n_units, 1, self.epsilon, self.delta, source.seeded)
        self.law_ = AverageNumberLaw(
            certificate=over_shards(
                promised,
                shards=choice.n_shards,
                labels_from_data=False,
                seeded=source.seeded,
                frozen=keeps_what_it_learned(self.estimator),
                public_types=ensemble.columns.public_types,
            ),
            source=source,
            form=self._form(),
            ensemble=ensemble,
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            n_shards=choice.n_shards,
            noise=noise,
        )
        self.ensemble_ = ensemble
        self.n_units_ = n_units
        self.n_shards_ = choice.n_shards
        self.shard_choice_ = choice


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AverageNumberLaw(ShardLaw):
    """The law of noisy averages; the ensemble holds the public bounds.

    Attributes
    ----------
    epsilon, delta : float
        What the noise was calibrated to.
    n_shards : int
        Number of shards.
    noise : GridNoise
        The noise of one sum.
    """

    epsilon: float
    delta: float
    n_shards: int
    noise: GridNoise

    def response(self, X: MatrixLike) -> BoundedAnswers:
        """Return the exact law of the answers before clipping: for trusted eyes."""
        sums = self.ensemble.output_sums(self.form.rows(X))
        low, high = self.ensemble.bounds
        unit = (high - low) / (self.n_shards * OUTPUT_STEPS)
        return BoundedAnswers(self.noise.response(sums.astype(float)), low, unit, high)
