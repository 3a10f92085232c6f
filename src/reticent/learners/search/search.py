"""Tune settings with the same records, within one certificate (G26)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from reticent._sklearn import (
    HasMethods,
    Interval,
    MatrixLike,
    StrOptions,
    fit_context,
)
from reticent.errors import InvalidParameterError, TooFewRecordsError
from reticent.estimators import UnitIds, check_bounds
from reticent.guarantees import Budget, Certificate, gaussian_to_zcdp
from reticent.learners.meta.base import MetaLearner, UnitTable
from reticent.learners.search.choice import (
    ChoicePlan,
    certified,
    changes,
    choose,
    meant_by,
)
from reticent.learners.search.plan import RunPlan, RunPrice, plan_runs
from reticent.learners.search.rules import best_of_runs, one_run
from reticent.learners.search.runs import Run, RunTask, listed_settings
from reticent.mechanisms import RandomSource, Repetitions, noise_source
from reticent.prediction import LawfulPredictor

#: The units on which runs train, and those on which they are scored.
Parts: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]

# How many settings are tried, or runs made on average. With more trials each of them
# has less budget, and says less.
_TRIED, _RUNS = 5, 10.0


@dataclass(eq=False, repr=False)
class PrivateSearch(MetaLearner):
    r"""Search for good settings in scikit-learn's way; the certificate covers it.

    There are two methods. "choose-then-fit" tries each setting at a small price on one
    part of the units, scores it with noise on the other part, and fits the one that it
    chose on all units with the rest of the budget; what was given stays unless a
    setting is clearly better. "best-run" makes a random number of runs, each with a
    setting that it draws, and releases the best of them: its setting, its score and,
    for learners, its model. Choosing by `score`, `cross_val_score` or `GridSearchCV` is
    not covered by any certificate.

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
    method : {"auto", "choose-then-fit", "best-run"}, default="auto"
        "choose-then-fit" needs a learner with Gaussian noise and a budget with a
        delta. "auto" takes it where it can, unless `eta` is given.
    share : float, default=0.15
        With "choose-then-fit", the share of the squared mu of the budget that choosing
        takes.
    runs : float or None, default=None
        With "choose-then-fit", the most settings that are tried besides what was given;
        if there are more, they are drawn at random; None takes 5. With "best-run", the
        number of runs on average, which itself stays secret; None takes 10.
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
    verbose : bool, default=False
        Whether to show with "choose-then-fit" how many trials are done, on a terminal.
        With "best-run" nothing is shown: the number of runs is secret.

    Attributes
    ----------
    best_params_ : dict
        The setting that was chosen; empty if what was given stays.
    best_score_ : float
        Its noisy score: accuracy, or one minus the squared error over the squared
        range. As the best of several it is too high on average; with
        "choose-then-fit" it is that of a trial, which had less budget.
    trials_ : list of (dict, float)
        With "choose-then-fit", all settings that were tried with their noisy scores.
    best_estimator_ : estimator
        For a learner, the model that is released; it carries `certificate_`. For a
        predictor, a new one, fitted on all units with its own epsilon.
    certificate_ : Certificate
        What everything above promises: the released model, or for a predictor the
        choice alone.
    repetitions_ : Repetitions
        With "best-run", the law of the number of runs.
    classes_, n_units_
        As for `Subsampled`.

    Guarantee
    ---------
    The whole search is within `budget`. Units are dealt to the two parts by position
    alone, so one unit is in one part, and choosing costs the larger of training and
    scores. "choose-then-fit" adds up Gaussian DP (rule G26-fit, with its proof), and
    all that it tried may be shown. With "best-run" (rule G26, with its proof) nothing
    but the best run may be shown: not the number of runs, not the others, and not how
    long the search took. There is no `cv_results_` for this reason.

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
    method: str = "auto"
    share: float = 0.15
    runs: float | None = None
    eta: float | None = None
    holdout: float = 0.2
    bounds: tuple[float, float] | None = None
    questions: int = 100
    random_state: Any = None
    verbose: bool = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "parameters": [dict, list],
        "budget": [Budget],
        "method": [StrOptions({"auto", "choose-then-fit", "best-run"})],
        "share": [Interval(Real, 0, 1, closed="neither")],
        "runs": [Interval(Real, 1, None, closed="neither"), None],
        "eta": [Interval(Real, -1, 100, closed="neither"), None],
        "holdout": [Interval(Real, 0, 1, closed="neither")],
        "bounds": ["array-like", None],
        "questions": [Interval(Integral, 1, None, closed="left")],
        "verbose": ["boolean"],
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
        settings = listed_settings(self.estimator, self.parameters)
        table, labels = self._table(X, y, units)
        source = noise_source(self.random_state)
        parts = self._parts(table.n_units, source)
        self.n_units_ = table.n_units
        if self._chooses():
            self._choose(settings, table, parts, source, labels)
            return self
        plan = self._plan()
        task = self._task(settings, plan.price, parts)
        task.check(source)
        best = _best(task, plan, table, *parts, source)
        self.certificate_ = self._certified(best, plan, labels, source.seeded)
        self.best_params_, self.best_score_ = best.setting, best.score
        self.repetitions_ = plan.repetitions
        self.best_estimator_ = self._kept(best, task, table, source)
        return self

    def _chooses(self) -> bool:
        """Return whether to choose first, and then to fit."""
        able = self.budget.delta > 0 and self._kind() == "gaussian"
        if self.method == "choose-then-fit" and not able:
            raise InvalidParameterError(
                f"method='choose-then-fit' with budget={self.budget} needs a learner "
                "with Gaussian noise and a budget with a delta. Take method='best-run'."
            )
        if self.method == "auto":
            return able and self.eta is None
        return self.method == "choose-then-fit"

    def _task(self, settings: list[Any], price: RunPrice, parts: Parts) -> RunTask:
        return RunTask(
            estimator=self.estimator,
            settings=settings,
            public=self._public,
            price=price,
            bounds=self._range(),
            questions=len(parts[1]),
        )

    def _choose(
        self,
        settings: list[dict[str, Any]],
        table: UnitTable,
        parts: Parts,
        source: RandomSource,
        labels: bool,
    ) -> None:
        """Try settings on the parts, then fit the one that was chosen on all units."""
        others = [one for one in settings if changes(self.estimator, one)]
        most = min(len(others), _TRIED if self.runs is None else int(self.runs))
        drawn = np.sort(source.permutation(len(others))[:most])
        tried = [{}, *(others[place] for place in drawn)]
        plan = ChoicePlan.of(self.budget, float(self.share), len(tried))
        final = self._task(tried, plan.fit, parts)
        final.check(source)
        # Trials cost less, but are about what will be fitted.
        n_units = table.n_units
        meant = [meant_by(self.estimator, one, plan.fit, n_units) for one in tried]
        task = replace(final, settings=meant, price=plan.trial)
        choice = choose(task, plan, table, *parts, source, verbose=bool(self.verbose))
        setting = tried[choice.place]
        model, fitted = final.fitted(setting, table, np.arange(table.n_units), source)
        self.certificate_ = certified(
            choice,
            fitted,
            plan,
            delta=self.budget.delta,
            labels_from_data=labels,
            seeded=source.seeded,
        )
        self.best_params_ = setting
        self.best_score_ = float(choice.scores[choice.place])
        self.trials_ = list(zip(tried, choice.scores.tolist(), strict=True))
        self.best_estimator_ = self._with_certificate(model, table.n_units)
        whole = self.certificate_.premises[0]
        model.gaussian_certificate_ = whole
        model.zcdp_certificate_ = gaussian_to_zcdp(whole)

    def _parts(self, n_units: int, source: RandomSource) -> Parts:
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
        kind = self._kind()
        eta = self.eta
        if eta is None:
            eta = 0.0 if kind == "pure" else 3.0
        runs = _RUNS if self.runs is None else self.runs
        return plan_runs(kind, self.budget, Repetitions.with_mean(eta, runs))

    def _kind(self) -> str:
        """Return how training states its promise."""
        known = self.estimator.get_params()
        if "epsilon" not in known:
            raise InvalidParameterError(
                f"estimator={type(self.estimator).__name__}(...) has no epsilon, so "
                "its runs have no price. Use a learner or predictor of reticent."
            )
        if not self.budget.delta > 0:
            return "pure"
        if isinstance(self.estimator, LawfulPredictor):
            return "zcdp"
        if "delta" not in known:
            return "pure"
        return str(getattr(self.estimator, "run_promise", "approximate"))

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
        promise = plan.price.promise.as_dict()
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
            return self._with_certificate(best.model, table.n_units)
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
    price = plan.score_epsilon
    best = task.run(table, train, held_out, source, score_epsilon=price)
    for _ in range(plan.repetitions.draw(source) - 1):
        # The first of equal runs stays; runs are alike, so this is a fair tie-breaker.
        other = task.run(table, train, held_out, source, score_epsilon=price)
        # Whether settings of two kinds meet does not depend on the data. Given that
        # none met, the number of runs has the law of a larger gamma: the promise holds.
        if other.trained.assumptions != best.trained.assumptions:
            raise InvalidParameterError(
                "the settings lead to certificates with different assumptions; search "
                "among settings of one kind."
            )
        best = other if other.score > best.score else best
    return best
