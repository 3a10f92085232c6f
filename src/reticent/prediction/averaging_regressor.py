"""Private numbers by averages over disjoint shards (P2)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from reticent._sklearn import Interval, MatrixLike
from reticent.ensembles import OUTPUT_STEPS, Task
from reticent.estimators import check_bounds, checked_targets
from reticent.mechanisms import GridNoise, RandomSource
from reticent.prediction.bounded_answers import BoundedAnswers
from reticent.prediction.sharded.base import ShardLaw, TrainedShards
from reticent.prediction.sharded.counts import ShardChoice, choose_shards_for_numbers
from reticent.prediction.sharded.expectation import Expectation, noisy_r2
from reticent.prediction.sharded.fitting import ShardedPredictor
from reticent.prediction.sharded.sums import SumNoise


@dataclass(eq=False, repr=False)
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
    spread : float, default=None
        Public guess of the targets' standard deviation, for ``n_shards="auto"``: the
        narrower the targets within their bounds, the more shards the noise needs.
        None guesses a fifth of the bounds. A wrong guess costs accuracy, not privacy.
    delta : float, default=0.0
        Above 0 the noise is Gaussian, and the certificate states its zCDP.
    public_types, random_state, n_jobs, verbose
        As for `PrivateVotingClassifier`.

    Attributes
    ----------
    certificate_ : Certificate
        What one answer promises.
    n_units_, n_shards_, shard_choice_, expectation_, shard_errors_, ensemble_
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

    estimator: Any
    epsilon: float = 1.0
    _: KW_ONLY
    bounds: tuple[float, float] = (0.0, 1.0)
    n_shards: int | str = "auto"
    spread: float | None = None
    delta: float = 0.0
    public_types: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    verbose: bool = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ShardedPredictor._parameter_constraints,
        "bounds": ["array-like"],
        "spread": [Interval(Real, 0, None, closed="neither"), None],
    }

    def _task(self) -> tuple[float, float]:
        return check_bounds(self.bounds)

    def _targets(self, y: Any) -> tuple[Task, NDArray[Any]]:
        bounds = self._task()
        return bounds, np.clip(checked_targets(y), *bounds)

    def _plan(self, task: Any, n_units: int, source: RandomSource) -> SumNoise:
        return SumNoise.calibrated(
            n_units, 1, epsilon=self.epsilon, delta=self.delta, seeded=source.seeded
        )

    def _counted(self, n_units: int, n_labels: int, plan: SumNoise) -> ShardChoice:
        low, high = self._task()
        return choose_shards_for_numbers(
            self.n_shards,
            n_units=n_units,
            noise=plan.noise.deviation / OUTPUT_STEPS,
            spread=None if self.spread is None else self.spread / (high - low),
            estimator=self.estimator,
        )

    def _best_answer(self, plan: SumNoise, shards: int, labels: int) -> float:
        return noisy_r2(plan.noise, shards * float(OUTPUT_STEPS))

    def _law(self, trained: TrainedShards, plan: SumNoise) -> AverageNumberLaw:
        return AverageNumberLaw.of(trained, plan)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AverageNumberLaw(ShardLaw):
    """The law of noisy averages; the ensemble holds the public bounds."""

    #: What the noise was calibrated to.
    epsilon: float
    delta: float
    noise: GridNoise  #: the noise of one sum

    @classmethod
    def of(
        cls, trained: TrainedShards, sums: SumNoise, **named: Any
    ) -> AverageNumberLaw:
        """Return the law of averages of trained models, with its certificate."""
        return cls(
            certificate=trained.certified(sums.certificate),
            epsilon=sums.epsilon,
            delta=sums.delta,
            noise=sums.noise,
            **trained.shared(),
            **named,
        )

    @property
    def expectation(self) -> Expectation:
        """How good answers can be, from public facts."""
        return Expectation.of(
            lambda shards: noisy_r2(self.noise, shards * float(OUTPUT_STEPS)),
            shards=self.n_shards,
            labels=1,
        )

    def response(self, X: MatrixLike) -> BoundedAnswers:
        """Return the exact law of the answers before clipping: not private."""
        sums = self.ensemble.output_sums(self.form.rows(X))
        low, high = self.ensemble.bounds
        unit = (high - low) / (self.n_shards * OUTPUT_STEPS)
        noisy = self.noise.response(sums.astype(float))
        return BoundedAnswers(noisy, low, unit, (low, high))
