"""Tune settings with the same records, within one certificate (G26)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.model_selection import ParameterGrid

from reticent._sklearn import HasMethods, Interval, MatrixLike, fit_context
from reticent.errors import InvalidParameterError, TooFewRecordsError
from reticent.estimators import UnitIds, check_bounds
from reticent.guarantees import Budget, Certificate
from reticent.learners.meta.base import MetaLearner
from reticent.learners.search.plan import RunPlan, plan_runs
from reticent.learners.search.rules import best_of_runs, one_run
from reticent.learners.search.runs import Run, RunTask
from reticent.mechanisms import RandomSource, Repetitions, noise_source
from reticent.prediction import LawfulPredictor

_SET_BY_THE_SEARCH = ("epsilon", "delta", "random_state")


@dataclass(eq=False, repr=False)
class PrivateSearch(MetaLearner):
    r"""Search for good settings in scikit-learn's way; the certificate covers it.

    A random number of runs is made. Each draws one of the settings, trains a private
    model on one part of the units, and scores it with noise on the other part. The
    best run is released: its setting, its score and, for learners, its model. Choosing
    by `score`, `cross_val_score` or `GridSearchCV` is not covered by any certificate.

    Parameters
    ----------
    estimator : estimator
        A learner of `reticent.learners`, or a predictor of `reticent.prediction`. The
        search sets its `epsilon` and `delta` in the runs.
    parameters : dict or list of dict
        Lists of values by name, as for scikit-learn's `ParameterGrid`; public.
    budget : Budget
        What choosing costs; for a learner this includes the released model. The
        answers of a predictor cost their own epsilon on top.
    runs : float, default=10
        Number of runs on average. The number itself stays secret.
    eta : float or None, default=None
        Shape of the number of runs, see `reticent.mechanisms.Repetitions`: 1 is
        geometric, 0 logarithmic. None takes 0 for pure budgets, where a search costs
        twice the epsilon of a run. It takes 3 for others, where that costs little and
        makes small numbers of runs rarer.
    holdout : float, default=0.2
        Share of the units on which runs are scored.
    bounds : (float, float) or None, default=None
        Public range of the targets, needed for regressors.
    questions : int, default=100
        The most held-out units that each run asks a predictor about, one row each; an
        answer costs a share of the budget.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    best_params_ : dict
        The setting of the best run.
    best_score_ : float
        Its noisy score: accuracy, or one minus the squared error over the squared
        range. It is the best of several, so it is too high on average.
    best_estimator_ : estimator
        For a learner, the model of the best run; it carries `certificate_`. For a
        predictor, a new one, fitted on all units with its own epsilon.
    certificate_ : Certificate
        What everything above promises: the released model, or for a predictor the
        choice alone.
    repetitions_ : Repetitions
        The law of the number of runs.
    classes_, n_units_
        As for `Subsampled`.

    Guarantee
    ---------
    The whole search is within `budget` (rule G26, with its proof). Units are dealt to
    the two parts by position alone, so one unit is in one part, and a run costs the
    larger of training and score. Nothing but the best run may be shown: not the number
    of runs, not the others, and not how long the search took. There is no
    `cv_results_` for this reason.

    References
    ----------
    :cite:`LiuTalwar2019`, :cite:`PapernotSteinke2022`, :cite:`KoskelaRedbergWang2024`;
    THEOREMS G26.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent.guarantees import Budget
    >>> from reticent.learners import ObjectivePerturbationClassifier
    >>> X = np.random.default_rng(0).uniform(-0.7, 0.7, size=(500, 2))
    >>> search = PrivateSearch(
    ...     ObjectivePerturbationClassifier(classes=[False, True]),
    ...     {"regularization": [0.01, 0.1, 1.0]},
    ...     Budget(2.0),
    ...     runs=3,
    ... ).fit(X, X[:, 0] > 0)
    >>> print(search.certificate_.headline())
    2-DP for the model, replace one unit of 500; proved
    """

    estimator: Any
    parameters: Any
    budget: Budget
    _: KW_ONLY
    runs: float = 10.0
    eta: float | None = None
    holdout: float = 0.2
    bounds: tuple[float, float] | None = None
    questions: int = 100
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "parameters": [dict, list],
        "budget": [Budget],
        "runs": [Interval(Real, 1, None, closed="neither")],
        "eta": [Interval(Real, -1, 100, closed="neither"), None],
        "holdout": [Interval(Real, 0, 1, closed="neither")],
        "bounds": ["array-like", None],
        "questions": [Interval(Integral, 1, None, closed="left")],
    }

    @property
    def learner(self) -> Any:
        """What is tuned."""
        return self.estimator

    @property
    def learner_(self) -> Any:
        """What came out of the search."""
        return self.best_estimator_

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: MatrixLike, y: Any, units: UnitIds = None) -> Self:
        """Search, and keep the best run.

        Parameters
        ----------
        X, y, units
            As for the estimator.
        """
        settings = self._settings()
        table, labels = self._table(X, y, units)
        source = noise_source(self.random_state)
        train, held_out = self._parts(table.n_units, source)
        plan = self._plan()
        task = RunTask(
            estimator=self.estimator,
            settings=settings,
            public=self._public,
            plan=plan,
            bounds=self._range(),
            questions=len(held_out),
        )
        task.check(source)
        best = _best(task, plan, table, train, held_out, source)
        self.certificate_ = self._certified(best, plan, labels, source.seeded)
        self.best_params_, self.best_score_ = best.setting, best.score
        self.repetitions_ = plan.repetitions
        self.n_units_ = table.n_units
        self.best_estimator_ = self._kept(best, task, table, source)
        return self

    def _settings(self) -> list[dict[str, Any]]:
        settings = list(ParameterGrid(self.parameters))
        taken = {name for one in settings for name in one} & set(_SET_BY_THE_SEARCH)
        if taken:
            raise InvalidParameterError(
                f"parameters name {', '.join(sorted(taken))}; the search sets these "
                "itself, from its budget."
            )
        return settings

    def _parts(
        self, n_units: int, source: RandomSource
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Deal units to training and scoring, by position alone."""
        held_out = round(self.holdout * n_units)
        if isinstance(self.estimator, LawfulPredictor):
            held_out = min(held_out, int(self.questions))
        if not 1 <= held_out < n_units:
            raise TooFewRecordsError(
                f"holdout={self.holdout!r} of n_units={n_units} units leaves a part "
                "empty."
            )
        order = source.permutation(n_units)
        return np.sort(order[held_out:]), order[:held_out]

    def _plan(self) -> RunPlan:
        budget: Budget = self.budget
        known = self.estimator.get_params()
        if "epsilon" not in known:
            raise InvalidParameterError(
                f"estimator={type(self.estimator).__name__}(...) has no epsilon, so "
                "its runs have no price. Use a learner or predictor of reticent."
            )
        kind = "pure"
        if budget.delta > 0:
            if isinstance(self.estimator, LawfulPredictor):
                kind = "zcdp"
            elif "delta" in known:
                kind = getattr(self.estimator, "run_promise", "approximate")
        eta = self.eta
        if eta is None:
            eta = 0.0 if kind == "pure" else 3.0
        return plan_runs(kind, budget, Repetitions.with_mean(eta, self.runs))

    def _range(self) -> tuple[float, float] | None:
        if is_classifier(self.estimator):
            return None
        known = self.estimator.get_params().get("bounds")
        bounds = known if self.bounds is None else self.bounds
        if bounds is None:
            raise InvalidParameterError(
                "bounds=None; scores of a regressor need the public range of the "
                "targets, bounds=(low, high)."
            )
        return check_bounds(bounds)

    def _certified(
        self, best: Run, plan: RunPlan, labels: bool, seeded: bool
    ) -> Certificate[Any]:
        promise = plan.promise.as_dict()
        promise.pop("kind")
        level, *slack = promise.values()
        run = one_run(best.trained, level=level, slack=slack[0] if slack else 0.0)
        where: dict[str, Any] = {}
        if plan.epsilon_one is not None:
            where = {
                "epsilon_one": plan.epsilon_one,
                "epsilon_two": plan.epsilon_two,
                "delta": self.budget.delta,
            }
        return best_of_runs(
            run,
            best.scored,
            eta=plan.repetitions.eta,
            gamma=plan.repetitions.gamma,
            labels_from_data=labels,
            seeded=seeded,
            **where,
        )

    def _kept(self, best: Run, task: RunTask, table: Any, source: RandomSource) -> Any:
        """Return the model of the best run, or a new predictor on all units."""
        if not task.asks:
            # What it cost alone, in whatever form, is no longer what it costs.
            for name, value in list(vars(best.model).items()):
                if isinstance(value, Certificate):
                    delattr(best.model, name)
            best.model.certificate_ = self.certificate_
            best.model.n_units_ = table.n_units  # what the certificate is about
            return best.model
        asked = {"epsilon": self.estimator.epsilon}
        for name in ("delta", "rule"):
            if name in task.estimator.get_params():
                asked[name] = getattr(self.estimator, name)
        model = task.candidate(best.setting, source)
        model.set_params(**{**asked, **best.setting})
        X, y, units = table.take(np.arange(table.n_units))
        return model.fit(X, y) if units is None else model.fit(X, y, units=units)


def _best(
    task: RunTask,
    plan: RunPlan,
    table: Any,
    train: NDArray[np.int64],
    held_out: NDArray[np.int64],
    source: RandomSource,
) -> Run:
    """Run as often as drawn; forget all runs but the best."""
    best = task.run(table, train, held_out, source)
    for _ in range(plan.repetitions.draw(source) - 1):
        # The first of equal runs stays; runs are alike, so this is a fair tie-breaker.
        other = task.run(table, train, held_out, source)
        # Whether settings of two kinds meet does not depend on the data. Given that
        # none met, the number of runs has the law of a larger gamma: the promise holds.
        if other.trained.assumptions != best.trained.assumptions:
            raise InvalidParameterError(
                "the settings lead to certificates with different assumptions; search "
                "among settings of one kind."
            )
        best = other if other.score > best.score else best
    return best
