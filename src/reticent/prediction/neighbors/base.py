"""What local predictors share: fitting a law, and answering from its state (P10)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from reticent._numbers import positive, whole
from reticent._sklearn import Interval, MatrixLike, StrOptions
from reticent.errors import (
    InvalidParameterError,
    NotDeployableError,
    TooFewRecordsError,
)
from reticent.estimators import (
    RELATIONS,
    REST_SHARE,
    SPREAD_SHARE,
    TABLE,
    CodedColumns,
    Codes,
    ColumnFacts,
    PartitionModel,
    PartitionPlan,
    ReleaseExpectation,
    RoundBudget,
    Rounds,
    Shares,
    UnitIds,
    UnitRows,
    fit_prior,
    fit_release,
    noisy_shares,
    signal_of,
    unit_positions,
    warn_of_clipped,
)
from reticent.mechanisms import UnitFilter, noise_source
from reticent.prediction.lasting.histories import answer_in_memory, fitted_here
from reticent.prediction.law import LawfulPredictor
from reticent.prediction.neighbors.fallback import (
    ERROR_SHARE,
    NO_MODEL,
    NOT_ASKED,
    SURE,
    Released,
    asked_for,
    few_units,
    noisy_error,
    sure,
    unsure,
)
from reticent.prediction.neighbors.index import grid_axes
from reticent.prediction.neighbors.law import LocalAnswers, LocalLaw
from reticent.prediction.neighbors.local_units import QuestionPlan
from reticent.prediction.neighbors.metric import (
    plain_metric,
    released_metric,
    spread_of,
)
from reticent.prediction.neighbors.planning import (
    METRIC_SHARE,
    most_local_questions,
    prior_share,
    question_plan,
)
from reticent.prediction.neighbors.spending import Lessons, Spending
from reticent.prediction.neighbors.votes import Votes

#: Rows of these types are read in place.
FLOATS = (np.float64, np.float32)
_FEWEST_UNITS = 20
# Rows that are encoded at a time.
_BLOCK = 1 << 13

# What the units of each fitted model have spent, by the model's identity. It lives as
# long as the process: a state that is forgotten is a budget spent again.
_states: dict[str, Spending] = {}
_lock = threading.Lock()


@dataclass(eq=False, repr=False)
class LocalPredictor(LawfulPredictor):
    """A predictor whose answers come from the units near a question."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "columns": ["array-like", list, tuple, None],
        "relation": [StrOptions(set(RELATIONS))],
        "questions": [Interval(Integral, 1, None, closed="left")],
        "prior": ["boolean"],
        "local": [StrOptions({"auto", "always", "never"})],
        "client_share": [Interval(Real, 0, 1, closed="right")],
        "constant_time": ["boolean"],
    }
    epsilon: float = 1.0
    _: KW_ONLY
    delta: float = 1e-6
    columns: Sequence[ColumnFacts] | None = None
    relation: str = "replace-one"
    questions: int = 10_000
    prior: bool = True
    local: str = "auto"
    client_share: float = 1.0
    constant_time: bool = False
    random_state: Any = None

    def ask(self, X: MatrixLike, *, client: str | None = None) -> LocalAnswers:
        """Answer questions, each with the evidence that it had.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            The questions; NaN is a missing value.
        client : str or None, default=None
            Who asks, if clients have shares.
        """
        law = self._fitted_law()
        law.check_memory()
        X = validate_data(
            self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        codes = law.encode(X)
        with _lock:
            return law.ask(codes, spending_of(law), client)

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return one private answer per row; all of them are one certificate."""
        return self.ask(X).answers

    def plan_for(self, questions: int) -> QuestionPlan:
        """Return the noise that another number of questions would have.

        For studies: it follows from public facts, and changes nothing.
        """
        law = self._fitted_law()
        local = law.plan.wanted > 0
        return self._plan(
            len(law.fitted), law.budget, questions, law.classes, local=local
        )

    def local_questions(self, n_units: int) -> int:
        """Return on how many questions, at most `questions`, units should vote.

        With local="auto" a released model answers if this is less than `questions`: for
        all of them there are too few units near. It follows from public facts and costs
        nothing, so it can be asked before the fit. Labels that `classes` does not name
        count as two.
        """
        owner = type(self).__name__
        epsilon, delta = float(self.epsilon), float(self.delta)
        budget = RoundBudget.of(owner, epsilon, delta, str(self.relation))
        classes = getattr(self, "classes", None)
        named = None if classes is None else np.asarray(classes)
        return self._near_for(whole(owner, "n_units", n_units), budget, named)

    def _fitted_law(self) -> LocalLaw:
        law = super()._fitted_law()
        assert isinstance(law, LocalLaw)  # noqa: S101 - for the type checker
        return law

    def _fit_law(
        self,
        codes: CodedColumns,
        X: NDArray[np.float64],
        targets: NDArray[np.float64],
        units: UnitIds,
        *,
        classes: NDArray[Any] | None,
        labels_from_data: bool,
    ) -> None:
        """Release what shapes the questions, and make the law."""
        owner = type(self).__name__
        self._check_somebody_answers()
        warn_of_clipped(self.columns, codes, X)
        epsilon = positive(owner, "epsilon", self.epsilon)
        budget = RoundBudget.of(owner, epsilon, float(self.delta), str(self.relation))
        questions = whole(owner, "questions", self.questions)
        source = noise_source(self.random_state)
        positions, n_units = unit_positions(units, len(X))
        if not n_units >= _FEWEST_UNITS:
            raise TooFewRecordsError(
                f"{owner} needs at least {_FEWEST_UNITS} units; got n_units={n_units}."
            )
        self.expectation_ = self._expected(X.shape[1], n_units, budget, classes)
        rows = UnitRows.of(_encoded(codes, X), targets, positions, n_units, source)
        account = UnitFilter(n_units, budget.cap)
        rounds = Rounds(budget, account, source)
        shares = noisy_shares(rows, codes, rounds, share=SPREAD_SHARE)
        found = self._released(rows, codes, shares, rounds, classes)
        model, metric = found.model, found.metric
        self.law_ = LocalLaw(
            certificate=budget.certificate(
                n=n_units,
                delta=float(self.delta),
                scope="interface",
                labels_from_data=labels_from_data,
                seeded=source.seeded,
            ),
            source=source,
            classes=classes,
            columns=codes,
            codes=rows.codes,
            unit=rows.unit,
            votes=self._votes(rows, model),
            metric=metric,
            axes=grid_axes(codes, shares, spread_of(metric, shares), n_units),
            model=model,
            budget=budget,
            plan=self._plan(n_units, budget, questions, classes, local=found.local),
            fitted=account.spent.copy(),
            lessons=Lessons(),
            client_share=float(self.client_share),
            constant_time=bool(self.constant_time),
        )
        # Now, not at the first question: a copy of this process has the same state,
        # and is refused.
        with _lock:
            _states[self.law_.identity] = self.law_.start()
        fitted_here(self.law_.identity)
        self.n_units_ = n_units
        self.local_, self.local_reason_ = found.local, found.reason

    def _expected(
        self,
        columns: int,
        n_units: int,
        budget: RoundBudget,
        classes: NDArray[Any] | None,
    ) -> ReleaseExpectation | None:
        """Return what the released model can be worth, by public facts, and warn."""
        if not self.prior:
            return None
        local = self._may_vote(n_units, budget, classes)
        share = prior_share(budget) if local else REST_SHARE
        signal = signal_of(n_units, budget, share)
        labels = 1 if classes is None else len(classes)
        found = ReleaseExpectation.of(
            signal / TABLE, labels=labels, units=n_units, columns=columns
        )
        found.warn(float(self.epsilon))
        return found

    def _released(
        self,
        rows: UnitRows,
        codes: CodedColumns,
        shares: Shares,
        rounds: Rounds,
        classes: NDArray[Any] | None,
    ) -> Released:
        """Release what is wanted, and decide by released numbers who answers."""
        if not self.prior:
            return Released(None, plain_metric(codes), True, NO_MODEL)

        if not self._may_vote(rows.n_units, rounds.budget, classes):
            model = self._release(rows, codes, shares, rounds, REST_SHARE)
            why = self._few(rows.n_units, rounds.budget, classes)
            return Released(model, plain_metric(codes), False, why)
        share, error = prior_share(rounds.budget), None
        plan = PartitionPlan.of(
            codes, shares, rounds, n_units=rows.n_units, share=share
        )
        model = fit_prior(rows, plan, rounds, logistic=self._logistic, share=share)
        if self.local == "auto":
            error = noisy_error(rows, model, rounds, share=ERROR_SHARE)
            if error < SURE:
                # What votes would have cost makes the model better.
                rest = REST_SHARE - share - ERROR_SHARE
                more = self._release(rows, codes, shares, rounds, rest)
                model = model.averaged(more, rest / (share + rest))
                return Released(model, plain_metric(codes), False, sure(error))
        metric = released_metric(rows, codes, model, rounds, share=METRIC_SHARE)
        if error is not None:
            return Released(model, metric, True, unsure(error))
        most = self._near_for(rows.n_units, rounds.budget, classes)
        why = asked_for(rows.n_units, int(self.questions), most)
        return Released(model, metric, True, why)

    def _release(
        self,
        rows: UnitRows,
        codes: CodedColumns,
        shares: Shares,
        rounds: Rounds,
        share: float,
    ) -> PartitionModel:
        return fit_release(
            rows, codes, shares, rounds, logistic=self._logistic, share=share
        )

    def _check_somebody_answers(self) -> None:
        if self.local == "never" and not self.prior:
            raise InvalidParameterError(
                f"{type(self).__name__}(prior=False, local='never') could not answer: "
                "without a released model, units near a question must vote."
            )

    def _may_vote(
        self, n_units: int, budget: RoundBudget, classes: NDArray[Any] | None
    ) -> bool:
        """Return whether units near a question may vote, by public facts."""
        if self.local == "auto":
            most = self._near_for(n_units, budget, classes)
            return most >= int(self.questions)
        return self.local == "always"

    def _near_for(
        self, n_units: int, budget: RoundBudget, classes: NDArray[Any] | None
    ) -> int:
        usual = self._usual_vote(classes) | {"client_share": float(self.client_share)}
        return most_local_questions(n_units, budget, int(self.questions), **usual)

    def _few(
        self, n_units: int, budget: RoundBudget, classes: NDArray[Any] | None
    ) -> str:
        if self.local == "never":
            return NOT_ASKED
        most = self._near_for(n_units, budget, classes)
        return few_units(n_units, int(self.questions), most)

    def _plan(
        self,
        n_units: int,
        budget: RoundBudget,
        questions: int,
        classes: Any,
        *,
        local: bool,
    ) -> QuestionPlan:
        """Return the noise of a question, by public facts."""
        if not local:
            return QuestionPlan(wanted=0.0, vote_scale=1.0, count_scale=1.0)
        usual = self._usual_vote(classes) | {"client_share": float(self.client_share)}
        return question_plan(n_units, budget, questions, **usual)

    _logistic: ClassVar[bool] = True

    def _votes(self, rows: UnitRows, model: PartitionModel | None) -> Votes:
        """Return how units vote on questions."""
        raise NotImplementedError  # a classifier and a regressor each have their own

    def _usual_vote(self, classes: NDArray[Any] | None) -> dict[str, Any]:
        """Return the size of a usual vote, and whether votes never point apart."""
        raise NotImplementedError  # a classifier and a regressor each have their own

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every answer draws fresh noise
        tags.input_tags.allow_nan = True
        return tags


def _encoded(codes: CodedColumns, X: NDArray[np.float64]) -> Codes:
    """Return the codes of rows, which may lie in a file that is mapped into memory."""
    found = np.empty(X.shape, dtype=np.int16)
    for start in range(0, len(X), _BLOCK):
        block = slice(start, start + _BLOCK)
        found[block] = codes.encode(X[block])
    return found


def spending_of(law: LocalLaw) -> Spending:
    """Return the one state of a model that was fitted in this process."""
    answer_in_memory(law.identity)
    state = _states.get(law.identity)
    if state is None:
        raise NotDeployableError(
            "this predictor was not fitted in this process. A second state would spend "
            "its records' budget again: answer through a ledger."
        )
    return state
