"""The law of a fitted predictor's answers: made once by `fit`, never changed."""

from __future__ import annotations

import secrets
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from reticent._sklearn import MatrixLike, UnweightedEstimator
from reticent.errors import CuratorOnlyWarning, InvalidParameterError
from reticent.guarantees import Budget, Certificate
from reticent.mechanisms import RandomSource

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _new_identity() -> str:
    return secrets.token_hex(16)


class Locked:
    """A frozen dataclass whose arrays nobody can write to, copies included."""

    def __post_init__(self) -> None:
        self._lock_arrays()

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays come out of a pickle, or a deep copy, writeable.
        self.__dict__.update(state)
        self._lock_arrays()

    def _lock_arrays(self) -> None:
        for value in vars(self).values():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, np.ndarray):
                    each.flags.writeable = False


def _whatever_its_numbers(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let no number of a model raise or warn, whatever `np.seterr` says.

    Whether a product with a secret coefficient is too small or too large for a float
    would decide whether a query fails.
    """

    @wraps(method)
    def quiet(*arguments: _P.args, **named: _P.kwargs) -> _T:
        with np.errstate(all="ignore"):
            return method(*arguments, **named)

    return quiet


#: Methods of laws, lasting ones included, that compute with what was learned.
_COMPUTING = ("ask", "draw", "replay", "response", "votes")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AnswerLaw(Locked, ABC):
    """What draws the answers of a fitted predictor, with the certificate of each.

    `fit` makes it from copies of the parameters and keeps no way back to the
    estimator. So nothing that happens to the estimator later (`set_params`, an
    assignment, a second fit) changes what is drawn, or what it costs.

    A predictor of your own becomes one that `PredictionInterface` takes by making a
    subclass of this in its `fit`, as its attribute `law_`. The subclass must hold all
    that its answers depend on, and draw each answer with fresh randomness.
    """

    certificate: Certificate[Any]  #: what one answer promises
    source: RandomSource  #: where the randomness of answers comes from
    #: The public labels; None if answers are numbers.
    classes: NDArray[Any] | None = None
    #: 128 random bits that name this fitted model. Copies and pickles keep them; no two
    #: fits share them.
    identity: str = field(default_factory=_new_identity)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in _COMPUTING:
            if name in vars(cls):
                setattr(cls, name, _whatever_its_numbers(vars(cls)[name]))

    @abstractmethod
    def response(self, X: MatrixLike) -> Any:
        """Return the exact law of the answers to these queries: not private."""

    def check(self, X: MatrixLike) -> None:
        """Refuse queries that cannot be answered, before anything is charged.

        What is refused is a function of the query and of public facts: the columns that
        the fit saw, and what the predictor was declared to take. Records decide
        nothing. A law of your own refuses here what its `draw` would refuse.

        Raises
        ------
        InvalidDataError or ValueError
            If a query does not have the form that answers need.
        """

    @property
    def seeded(self) -> bool:
        """Whether the noise follows from a seed; then the certificate assumes so."""
        return self.source.seeded

    @_whatever_its_numbers
    def draw(self, X: MatrixLike) -> NDArray[Any]:
        """Draw one private answer per row, with fresh randomness."""
        return self._named(self.response(X).draw(self.source))

    def _named(self, places: NDArray[Any]) -> NDArray[Any]:
        """Return the labels at these places."""
        return np.asarray(places if self.classes is None else self.classes[places])


class LawfulPredictor(UnweightedEstimator):
    """A predictor whose `fit` makes a law, from which all answers are drawn.

    scikit-learn's `score`, and with it `cross_val_score` and `GridSearchCV`, keep
    working, with a `CuratorOnlyWarning`.
    """

    law_: AnswerLaw

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        score = getattr(cls, "score", None)
        if score is not None and not hasattr(score, "__wrapped__"):
            cls.score = _for_the_curator(score)

    @property
    def certificate_(self) -> Certificate[Any]:
        """What one answer promises."""
        return self._fitted_law().certificate

    def response(self, X: MatrixLike) -> Any:
        """Return the exact law of the answers: not private."""
        return self._fitted_law().response(X)

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Draw one private answer per row; m rows spend m certificates."""
        return self._fitted_law().draw(X)

    @property
    def predict_proba(self) -> Any:
        """Not there, for `hasattr` either: most predictors answer without it."""
        raise AttributeError(no_probabilities(self), name="predict_proba", obj=self)

    def _fitted_law(self) -> AnswerLaw:
        # Asking scikit-learn takes longer than many an answer.
        if "law_" not in vars(self):
            check_is_fitted(self, "law_")
        return self.law_


def no_probabilities(asked: Any) -> str:
    """Say why something has no `predict_proba`, and what has."""
    return (
        f"{type(asked).__name__} has no predict_proba: private answers are single "
        "labels or numbers. For probabilities use PrivateAveragingClassifier, with an "
        "estimator that gives them, or release a model with "
        "reticent.learners.PrivateTabularClassifier."
    )


#: Classes of predictors whose score has warned in this process.
_warned: set[type] = set()


def _for_the_curator(score: Callable[..., float]) -> Callable[..., float]:
    """Let a method say, once, that what it returns is not private."""

    # The docstring of scikit-learn refers to pages of its own.
    @wraps(score, assigned=("__module__", "__name__", "__qualname__"))
    def warned(self: Any, X: MatrixLike, y: Any, *rest: Any, **named: Any) -> float:
        """Return scikit-learn's score of fresh answers: not private."""
        # Training changes Python's filters for a while, and with them its own memory of
        # what was said before.
        kind = type(self)
        if kind in _warned:
            return score(self, X, y, *rest, **named)
        _warned.add(kind)
        warnings.warn(
            CuratorOnlyWarning(
                f"{kind.__name__}.score compares answers with records without noise: "
                "what it returns is for the curator only, and choosing by it is not "
                "covered by any certificate. reticent.learners.PrivateSearch chooses "
                "settings, reticent.evaluation.Evaluation measures, privately."
            ),
            stacklevel=2,
        )
        return score(self, X, y, *rest, **named)

    return warned


class AnswerInterface(Protocol):
    """What answers the queries of any number of clients under one budget.

    `PredictionInterface` pays for each new answer, `ConsensusInterface` and
    `LastingInterface` once for all.

    Attributes
    ----------
    law : AnswerLaw
        What draws the answers.
    budget : Budget
        The most that all answers together may cost.
    certificate : Certificate
        The promise that is paid for: of one answer, or of all answers together.
    """

    law: AnswerLaw
    budget: Budget
    certificate: Certificate[Any]

    @property
    def capacity(self) -> float:
        """How many different queries may be asked in total; `math.inf` if unlimited."""
        ...

    def predict(
        self, X: MatrixLike, *, client: str = "anyone", key: str | None = None
    ) -> NDArray[Any]:
        """Return one private answer per row."""
        ...

    def spent(self, *, client: str | None = None) -> Certificate[Any] | None:
        """Return what was paid in total, or for one client; None if nothing."""
        ...

    def remaining(self, *, client: str | None = None) -> float:
        """Return how many new queries are left, in total or for one client."""
        ...


def law_of(predictor: Any) -> AnswerLaw:
    """Return the law of a fitted predictor, or refuse the predictor.

    An object with just `certificate_` and `predict` is refused: nobody could say
    whether what it draws tomorrow is what its certificate is about.
    """
    law = getattr(predictor, "law_", None)
    if isinstance(law, AnswerLaw) and isinstance(law.certificate, Certificate):
        return law
    raise InvalidParameterError(
        f"predictor={type(predictor).__name__}(...) has no law_ with the certificate_ "
        "of its answers. Fit a predictor of reticent.prediction first; a predictor of "
        "your own makes a reticent.prediction.AnswerLaw in its fit."
    )


def blank_of(model: Any) -> Any:
    """Return what is needed of a fitted model to check the columns of queries.

    That is an object of the same class, so that messages name it, with the number
    and the names of the columns and no parameters at all.
    """
    blank = object.__new__(type(model))
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            setattr(blank, name, deepcopy(getattr(model, name)))
    return blank
