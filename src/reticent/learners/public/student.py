"""A student of private answers: a model that may be released (M6)."""

from __future__ import annotations

import secrets
import warnings
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from reticent._arrays import Floats
from reticent._sklearn import (
    HasMethods,
    Interval,
    MatrixLike,
    StrOptions,
    UnweightedEstimator,
    fit_context,
    safe_indexing,
)
from reticent._text import one_of
from reticent.ensembles import check_base_estimator, keeps_what_it_learned
from reticent.errors import (
    InvalidDataError,
    InvalidParameterError,
    NearChanceWarning,
)
from reticent.estimators import UnitIds, checked_labels
from reticent.guarantees import Budget
from reticent.learners.public.points import check_public
from reticent.learners.public.rules import student_of_answers
from reticent.learners.public.student_labels import (
    TeacherLabels,
    asked_rows,
    consensus_answers,
    prepared_teacher,
    separate_answers,
)
from reticent.mechanisms import noise_source
from reticent.prediction import PrivateVotingClassifier


def _student_has(name: str) -> Any:
    def check(model: StudentClassifier) -> bool:
        if hasattr(model, "student_"):
            return hasattr(model.student_, name)
        return hasattr(model.student, name)

    return check


@dataclass(eq=False, repr=False)
class StudentClassifier(ClassifierMixin, UnweightedEstimator):
    r"""Classifier trained on public rows that a private predictor labelled.

    A teacher learns from the private rows and labels public ones; each label is
    private, and all of them together stay within one budget. A student of any kind is
    trained on these labels and nothing else, so it may be released and asked without
    limit.

    Parameters
    ----------
    teacher : classifier of `reticent.prediction`
        Labels the public rows, for example ``PrivateVotingClassifier(pipeline)``. A
        copy is fitted and discarded.
    student : classifier or pipeline
        What is trained on the labelled public rows, without noise.
    epsilon, delta : float, default=1.0 and 0.0
        Privacy cost of the released student. With a delta many more rows can be
        labelled.
    n_labels : int or "all", default="all"
        How many different public rows, the first ones, are labelled at most. More of
        them make each label noisier.
    spread : bool, default=True
        Whether the teacher's epsilon is set so that its answers use the whole budget
        (and a vote's ``rule="auto"`` is chosen accordingly). If not, the teacher keeps
        its own, and as many rows are labelled as the budget covers.
    answers : {"each", "consensus"}, default="each"
        "each" pays for every label. "consensus" labels the rows on which nearly all
        shards of a voting teacher agree, for one price; rows in doubt are dropped. It
        needs a delta and hundreds of shards.
    doubts : int, default=1
        How many rows may be in doubt; after the last of them no row is labelled.
    classes : array-like, default=None
        The public labels; None leaves the teacher's own setting.
    random_state : int, RandomState instance or None, default=None
        Passed to the teacher if not None: for experiments only.

    Attributes
    ----------
    student_ : classifier
        The released model.
    certificate_ : Certificate
        What it promises; its premises are the answers and the votes behind them.
    zcdp_certificate_ : Certificate
        The same release as zCDP, for composing it with others; not for consensus, nor
        for a teacher whose answers are not zCDP.
    labelled_, labels_ : ndarray
        Positions of the public rows that were labelled, and their labels. The
        certificate covers them, so they may be published.
    n_asked_ : int
        Number of rows that the teacher was asked about.
    teacher_ : dict
        The teacher's settings; public.
    classes_, n_units_
        Labels and number of units.
    identity_ : str
        Names this fit; another fit that was taught the same labels has another one.

    Guarantee
    ---------
    `certificate_` is within (`epsilon`, `delta`)-DP under the teacher's relation.
    *Proof.* The number of rows asked about follows from the budget and the teacher's
    certificate before the first answer. The answers compose (G22), or are one
    consensus (P9); the student, its seed and everything it does with the labels are
    post-processing (M6). The teacher itself is not stored. Parts of the student that
    keep what they learned when cloned, such as `FrozenEstimator`, are released with it;
    the certificate assumes that they learned from public data (PUBLIC_PARTS).

    ================================  ==============================================
    labels all alike, or none         the student is constant
    budget covers no answer           BudgetExhaustedError
    equal public rows                 are asked about once
    ================================  ==============================================

    References
    ----------
    :cite:`DworkFeldman2018`, Sec. 2.4; :cite:`PapernotEtAl2018`; THEOREMS M6, P8, P9.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from reticent.prediction import PrivateVotingClassifier
    >>> X, y = make_classification(5000, random_state=0)
    >>> teacher = PrivateVotingClassifier(LogisticRegression(), classes=[0, 1])
    >>> model = StudentClassifier(teacher, LogisticRegression(), 2.0, delta=1e-6)
    >>> model = model.fit(X[300:], y[300:], public=X[:300])
    >>> print(model.certificate_.headline())
    (1.99801, 1e-06)-DP for the model, replace one unit of 4700; proved
    >>> print(model.certificate_.premises[0].released())
    300 answers
    """

    teacher: Any
    student: Any
    epsilon: float = 1.0
    _: KW_ONLY
    delta: float = 0.0
    n_labels: int | str = "all"
    spread: bool = True
    answers: str = "each"
    doubts: int = 1
    classes: ArrayLike | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "teacher": [HasMethods(["fit", "predict"])],
        "student": [HasMethods(["fit", "predict"])],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "n_labels": [StrOptions({"all"}), Interval(Integral, 1, None, closed="left")],
        "spread": ["boolean"],
        "answers": [StrOptions({"each", "consensus"})],
        "doubts": [Interval(Integral, 1, None, closed="left")],
        "classes": ["array-like", None],
    }

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: MatrixLike,
        y: MatrixLike,
        units: UnitIds = None,
        *,
        public: MatrixLike | None = None,
    ) -> Self:
        """Train a teacher, let it label public rows, and train the student.

        Parameters
        ----------
        X, y, units
            Private rows, labels and units, as for the teacher.
        public : array, sparse matrix or data frame of shape (n_public, n_features)
            Public unlabelled rows; required.
        """
        for stale in ("certificate_", "zcdp_certificate_"):
            self.__dict__.pop(stale, None)  # of an earlier fit: not every fit has both
        budget = Budget(self.epsilon, self.delta)
        self._check(budget)
        check_public("StudentClassifier", public, X)
        X = _checked_rows(self, X, reset=True)
        teacher = clone(self.teacher)
        if self.classes is not None:
            teacher.set_params(classes=self.classes)
        # One stream for all: two streams of one seed would use equal random numbers for
        # the deal of units and for noise.
        source = noise_source(self.random_state)
        if self.random_state is not None:
            teacher.set_params(random_state=source)
        named = teacher.get_params(deep=False).get("classes")
        labels, _ = checked_labels(named, y)
        public = _public_table(public, self.n_features_in_)
        rows = asked_rows(public, self.n_labels)
        if self.answers == "each":
            teacher = prepared_teacher(
                teacher, budget, len(rows), len(labels), spread=bool(self.spread)
            )
        with warnings.catch_warnings():
            if self.answers == "consensus":
                # The teacher's own epsilon, which this is about, is not used.
                warnings.simplefilter("ignore", NearChanceWarning)
            teacher.fit(X, y) if units is None else teacher.fit(X, y, units=units)
        if self.answers == "each":
            found = separate_answers(teacher, budget, public, rows)
        else:
            found = consensus_answers(
                teacher, budget, public, rows, self.doubts, source
            )
        # From here on only the private labels depend on the data.
        learned: dict[str, Any] = {
            "asked": found.asked,
            "frozen": keeps_what_it_learned(self.student),
        }
        self.certificate_ = student_of_answers(found.certificate, **learned)
        if found.concentrated is not None:
            self.zcdp_certificate_ = student_of_answers(found.concentrated, **learned)
        # Two fits may teach the same labels, and each of them is to be paid for.
        self.identity_ = secrets.token_hex(16)
        self.classes_ = teacher.classes_
        self.n_units_ = teacher.n_units_
        self.teacher_ = _settings(teacher)
        self._learn(public, found)
        return self

    def _check(self, budget: Budget) -> None:
        """Check parameters again; scikit-learn's checks may be off."""
        check_base_estimator(self.teacher, "predict")
        check_base_estimator(self.student, "predict")
        if one_of("answers", self.answers, "each", "consensus") == "each":
            return
        if not isinstance(self.teacher, PrivateVotingClassifier):
            raise InvalidParameterError(
                "answers='consensus' needs a PrivateVotingClassifier as teacher; got "
                f"{type(self.teacher).__name__}(...)."
            )
        if not budget.delta > 0:
            raise InvalidParameterError(
                f"answers='consensus' needs delta > 0; got {budget}."
            )

    def _learn(self, public: MatrixLike, found: TeacherLabels) -> None:
        """Train the student; on labels that are all alike, a constant."""
        self.labelled_, self.labels_, self.n_asked_ = (
            found.rows,
            found.labels,
            found.asked,
        )
        if len(np.unique(found.labels)) > 1:
            self.student_ = clone(self.student)
            self.student_.fit(safe_indexing(public, found.rows), found.labels)
            return
        only = found.labels[0] if len(found.labels) else self.classes_[0]
        constant = DummyClassifier(strategy="constant", constant=only)
        self.student_ = constant.fit(
            np.zeros((len(self.classes_), 1)), np.asarray(self.classes_)
        )

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return the student's label of each row; costs nothing more."""
        rows = self._queries(X)
        return np.asarray(self.student_.predict(rows))

    @available_if(_student_has("predict_proba"))
    def predict_proba(self, X: MatrixLike) -> Floats:
        """Return the student's probability of each class in `classes_`.

        Classes that no public row was labelled with have probability 0.
        """
        rows = self._queries(X)
        given = np.asarray(self.student_.predict_proba(rows))
        known = np.searchsorted(self.classes_, self.student_.classes_)
        full = np.zeros((len(given), len(self.classes_)))
        full[:, known] = given
        return full

    def _queries(self, X: MatrixLike) -> MatrixLike:
        check_is_fitted(self)
        return _checked_rows(self, X, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every fit draws new answers
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        return tags


def _checked_rows(model: Any, X: MatrixLike, *, reset: bool) -> MatrixLike:
    """Check the shape of rows; teacher and student check their contents."""
    if hasattr(X, "columns"):
        validate_data(model, X, skip_check_array=True, reset=reset)
        return X
    return validate_data(model, X, accept_sparse="csr", dtype=None, reset=reset)


def _public_table(public: MatrixLike, n_features: int) -> MatrixLike:
    """Return public rows in a form that can be indexed by row."""
    if hasattr(public, "tocsr"):
        public = public.tocsr()
    elif not hasattr(public, "columns"):
        public = np.asarray(public)
    if len(public.shape) != 2 or public.shape[1] != n_features:
        raise InvalidDataError(
            f"public rows have the shape {public.shape}; {n_features} features are "
            "needed, as in the private rows."
        )
    return public


def _settings(teacher: Any) -> dict[str, Any]:
    """Return the teacher's plain settings, which depend on public quantities only."""
    settings = {
        name: value
        for name, value in teacher.get_params(deep=False).items()
        if isinstance(value, str | int | float | bool | type(None))
        and name != "random_state"
    }
    if hasattr(teacher, "n_shards_"):
        settings["n_shards"] = teacher.n_shards_
    return settings
