"""One run of a search: train on one part with a setting, score on the other."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid

from reticent._numbers import down
from reticent._sklearn import check_parameters, safe_indexing
from reticent.errors import InvalidParameterError
from reticent.evaluation import UNIT_STEPS, NoisySums, in_steps, unit_sums
from reticent.guarantees import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Certificate,
    GaussianDP,
    PureDP,
    ReplaceOne,
    bounded_range_to_pure,
    pure_to_approx,
    repeat,
    zcdp_composition,
)
from reticent.learners.meta.base import UnitTable, privacy_of
from reticent.learners.search.plan import RunPrice
from reticent.mechanisms import RandomSource
from reticent.prediction import LawfulPredictor, PrivateVotingClassifier


@dataclass(frozen=True, eq=False)
class Run:
    """What one run gave: only the best is released.

    Attributes
    ----------
    setting : dict
        The setting that was drawn.
    model : estimator
        What was trained with it.
    score : float
        Its noisy score.
    trained, scored : Certificate
        What training and the score promise.
    """

    setting: dict[str, Any]
    model: Any
    score: float
    trained: Certificate[Any]
    scored: Certificate[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class RunTask:
    """What all runs of a search share.

    Attributes
    ----------
    estimator : estimator
        What is cloned.
    settings : list of dict
        The public settings.
    public : dict
        Parameters that every clone gets, such as the labels.
    price : RunPrice
        What training may cost.
    bounds : (float, float) or None
        Public range of a regressor's targets.
    questions : int
        How many held-out units a predictor is asked about.
    """

    estimator: Any
    settings: list[dict[str, Any]]
    public: dict[str, Any]
    price: RunPrice
    bounds: tuple[float, float] | None
    questions: int

    @property
    def asks(self) -> bool:
        """Whether candidates are predictors, whose answers cost."""
        return isinstance(self.estimator, LawfulPredictor)

    def run(
        self,
        table: UnitTable,
        train: NDArray[np.int64],
        held_out: NDArray[np.int64],
        source: RandomSource,
        *,
        score_epsilon: float,
    ) -> Run:
        """Draw a setting, train, and score privately."""
        place = int(source.below(np.array([len(self.settings)], dtype=np.uint64))[0])
        setting = self.settings[place]
        with _muted():
            model, trained = self.trained(setting, table, train, source)
            noisy = NoisySums.drawn(
                np.array([self.goodness(model, table, held_out)]),
                unit_sums(n=len(held_out), steps=UNIT_STEPS),
                score_epsilon,
                source,
            )
        score = float(noisy.values[0]) / (UNIT_STEPS * len(held_out))
        return Run(setting, model, score, trained, noisy.certificate)

    def trained(
        self,
        setting: dict[str, Any],
        table: UnitTable,
        chosen: NDArray[np.int64],
        source: RandomSource,
    ) -> tuple[Any, Certificate[Any]]:
        """Train on these units; return the model and what training promises."""
        with _muted():
            return self.fitted(setting, table, chosen, source)

    def fitted(
        self,
        setting: dict[str, Any],
        table: UnitTable,
        chosen: NDArray[np.int64],
        source: RandomSource,
    ) -> tuple[Any, Certificate[Any]]:
        """Do the same, and pass on what training has to say."""
        model = self.candidate(setting, source)
        X, y, units = table.take(chosen)
        model.fit(X, y) if units is None else model.fit(X, y, units=units)
        return model, self._promise(model)

    def check(self, source: RandomSource) -> None:
        """Refuse settings that the learner refuses, before the first run.

        Otherwise the number of runs would decide whether one is noticed.
        """
        for setting in self.settings:
            model = self.candidate(setting, source)
            check_parameters(model)
            _check_relation(model, model.get_params().get("relation", ReplaceOne.name))

    def candidate(self, setting: dict[str, Any], source: RandomSource) -> Any:
        """Return a clone with a setting, at the price that a run may have."""
        model = clone(self.estimator).set_params(**self.public, **setting)
        model.set_params(**self._price(model))
        if "verbose" in model.get_params(deep=False):
            model.set_params(verbose=False)  # bars would reveal the number of runs
        if "random_state" in model.get_params() and (
            source.seeded or model.random_state is not None
        ):
            # Runs that share a seed would share their noise.
            seed = int(source.words(1)[0] >> np.uint64(33))
            model.set_params(random_state=seed)
        return model

    def _price(self, model: Any) -> dict[str, Any]:
        own, known = self.price, model.get_params()
        if not self.asks:
            price = {"epsilon": own.epsilon}
            return {**price, "delta": own.delta} if own.delta > 0 else price
        promise = own.promise
        if isinstance(promise, PureDP):
            return {"epsilon": down(promise.epsilon / self.questions)}
        step = promise.rho / self.questions * (1 - 1e-9)
        price = {"delta": 0.0} if "delta" in known else {}
        if isinstance(model, PrivateVotingClassifier):
            return {**price, "epsilon": math.sqrt(8 * step), "rule": "soft"}
        return {**price, "epsilon": math.sqrt(2 * step)}

    def _promise(self, model: Any) -> Certificate[Any]:
        """Return what training promises in the kind of the plan, or refuse it."""
        most = self.price.promise
        found = self._stated(model, most)
        # One run stands for all of them in the certificate, so each is checked.
        _check_relation(model, found.relation.name)
        if not found.guarantee.implies(most):
            raise InvalidParameterError(
                f"{type(model).__name__} promises {found.guarantee} where a run may "
                f"cost {most}. Leave its epsilon and delta to the search, and give "
                "the budget a delta if the learner needs one."
            )
        return found

    def _stated(self, model: Any, most: Any) -> Certificate[Any]:
        if self.asks:
            one = model.certificate_
            if isinstance(most, PureDP):
                return repeat(one, self.questions, methods=("basic",))
            return zcdp_composition(one, counts=(self.questions,))
        if isinstance(most, GaussianDP):
            return model.gaussian_certificate_
        if isinstance(most, ZCDP):
            return model.zcdp_certificate_
        found = privacy_of(model)
        if isinstance(found.guarantee, BoundedRange):
            found = bounded_range_to_pure(found)
        if isinstance(most, ApproxDP) and not isinstance(found.guarantee, ApproxDP):
            return pure_to_approx(found)
        return found

    def goodness(
        self, model: Any, table: UnitTable, held_out: NDArray[np.int64]
    ) -> int:
        """Return how good a model is on held-out units, each up to `UNIT_STEPS`.

        What a unit adds is a function of its own rows. A product of matrices rounds a
        row by its place and by the number of rows, so units of several rows are
        predicted one by one. A predictor is asked about one row of each unit. What
        predicting has to say is about private rows, and is not passed on.
        """
        with _muted():
            return self._goodness(model, table, held_out)

    def _goodness(
        self, model: Any, table: UnitTable, held_out: NDArray[np.int64]
    ) -> int:
        X, y, units = table.take(held_out)
        if units is None:
            return int(in_steps(self._values(model, X, y), None, len(y)).sum())
        total = 0
        for unit in range(len(held_out)):
            own = np.flatnonzero(units == unit)[: 1 if self.asks else None]
            values = self._values(model, safe_indexing(X, own), y[own])
            total += int(in_steps(values, np.zeros(len(own), np.int64), 1)[0])
        return total

    def _values(self, model: Any, X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return how good the model is on each row, in [0, 1]."""
        said = np.asarray(model.predict(X))
        if is_classifier(self.estimator):
            return (said == y).astype(np.float64)
        low, high = self.bounds or (0.0, 1.0)
        told = np.clip(np.nan_to_num(said.astype(np.float64)), low, high)
        error = (told - np.clip(y.astype(np.float64), low, high)) / (high - low)
        return np.asarray(1 - np.minimum(error**2, 1.0))


@contextmanager
def _muted() -> Iterator[None]:
    """Drop warnings, and NumPy's errors that may be printed or raised instead.

    One more line for every run would tell how many there are.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _check_relation(model: Any, relation: str) -> None:
    """Refuse a run that is not about replacing one unit."""
    if relation != ReplaceOne.name:
        raise InvalidParameterError(
            f"a search certifies replacing one unit; got {type(model).__name__}"
            f"(relation={relation!r}), whose runs would cost twice as much then. Leave "
            "relation out of the parameters, and give the estimator "
            f"relation={ReplaceOne.name!r}."
        )


_SET_BY_THE_SEARCH = {"epsilon", "delta", "random_state"}


def listed_settings(estimator: Any, parameters: Any) -> list[dict[str, Any]]:
    """Return all settings of a grid; refuse names that cannot be searched.

    Parameters
    ----------
    estimator : estimator
        What is searched.
    parameters : dict or list of dict
        Lists of values by name.
    """
    settings = list(ParameterGrid(parameters))
    named = {name for one in settings for name in one}
    if taken := named & _SET_BY_THE_SEARCH:
        raise InvalidParameterError(
            f"parameters name {', '.join(sorted(taken))}; the search sets these "
            "itself, from its budget."
        )
    known = set(estimator.get_params())
    if unknown := named - known:
        raise InvalidParameterError(
            f"parameters name {', '.join(sorted(unknown))}, which "
            f"{type(estimator).__name__} does not have. It has "
            f"{', '.join(sorted(known - _SET_BY_THE_SEARCH))}."
        )
    return settings
