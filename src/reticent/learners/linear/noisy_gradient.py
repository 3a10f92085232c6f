"""Linear models by noisy gradient descent: the practical way to release one."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.utils.validation import check_consistent_length, validate_data

from reticent._numbers import positive
from reticent._sklearn import Interval, MatrixLike, StrOptions, fit_context
from reticent.ensembles import check_bounds
from reticent.errors import InvalidParameterError
from reticent.estimators import (
    ReleasedLinear,
    ReleasedLinearClassifier,
    ReleasedLinearRegressor,
    centred,
    checked_labels,
    checked_targets,
)
from reticent.learners.linear.gradient_descent import (
    BINARY,
    CONSTANT,
    SOFTMAX,
    SQUARE,
    DescentPlan,
    Shape,
    descent_rows,
    unit_after_unit,
)
from reticent.learners.linear.gradient_sums import ClippedSums, Float, Residual

_POSITIVE = Interval(Real, 0, None, closed="neither")
_CONSTRAINTS: dict[str, list[Any]] = {
    "epsilon": [_POSITIVE],
    "delta": [Interval(Real, 0, 1, closed="left")],
    "norm_bound": [_POSITIVE],
    "clip": [StrOptions({"auto"}), _POSITIVE],
    "steps": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "learning_rate": [StrOptions({"auto"}), _POSITIVE],
    "momentum": [Interval(Real, 0, 1, closed="left")],
    "fit_intercept": ["boolean"],
}


class _NoisyGradient(ReleasedLinear):
    """What both estimators share: rows, plan, descent."""

    def _descend(
        self,
        rows: Float,
        targets: NDArray[Any],
        units: Any,
        *,
        residual: Any,
        n_scores: int,
        shape: Shape,
        labels_from_data: bool,
    ) -> Float:
        rows, targets, starts, n_units = unit_after_unit(rows, targets, units)
        plan = DescentPlan.of(
            self,
            n_units=n_units,
            n_features=rows.shape[1],
            n_scores=n_scores,
            shape=shape,
            labels_from_data=labels_from_data,
        )
        self.certificate_ = plan.certificate
        self.zcdp_certificate_ = plan.concentrated()
        self.n_units_, self.n_iter_ = n_units, plan.steps
        self.clip_, self.learning_rate_ = plan.clip, plan.learning_rate
        self.noise_scale_ = plan.scale
        slope: Residual = residual(targets)
        return plan.descend(ClippedSums(rows, plan.clip, plan.grid, starts), slope)

    def _constant(self) -> float | None:
        return CONSTANT if self.fit_intercept else None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every fit draws fresh noise
        return tags


class NoisyGradientClassifier(ReleasedLinearClassifier, _NoisyGradient):
    r"""Logistic regression released by noisy gradient descent.

    Each step sums the gradients of all units, each clipped to a public norm, and adds
    Gaussian noise. Steps are Nesterov's; the model is the average of the second half
    of the iterates. The practical default among released models: on large tables it
    comes close to logistic regression without privacy. For an additive model, put a
    `reticent.schemas.SchemaEncoder` with bins or splines before it.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-6
        What releasing the model costs; `delta` must be positive and should be far
        below one over the number of units.
    norm_bound : float, default=1.0
        Public bound on the Euclidean norm of a row, known without looking at the
        data, such as an encoder's `row_norm_bound`. Longer rows are scaled down when
        training; predictions take rows as they are.
    clip : float or "auto", default="auto"
        Bound on the norm of a unit's gradient, for rows divided by `norm_bound`.
        Smaller values need less noise and make outliers count less; predicted
        probabilities are then drawn towards one half or towards the ends.
    steps : int or "auto", default="auto"
        Number of steps; "auto" takes 200. Noise is calibrated to all of them together.
    learning_rate : float or "auto", default="auto"
        Length of a step, for rows divided by `norm_bound`.
    momentum : float, default=0.9
        Share of a step that the next one repeats.
    fit_intercept : bool, default=True
        Whether a constant feature of half of `norm_bound` is added.
    classes : array-like, default=None
        The public labels. None reads them from `y` and assumes them public.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The released model; one row for two classes, else one a class.
    certificate_ : Certificate
        (epsilon, delta)-DP of the model.
    zcdp_certificate_ : Certificate
        The same release as zCDP, for composing it with others.
    classes_ : ndarray
        The labels.
    n_units_, n_iter_, clip_, learning_rate_, noise_scale_
        Number of units, and the settings used; functions of public quantities.

    Guarantee
    ---------
    The model, and all noisy sums that led to it, are (`epsilon`, `delta`)-DP under
    replacement of one unit. *Proof.* A unit's contribution to a sum has norm at most
    `clip`, by exact arithmetic on a public grid; L-clipped-sum bounds the sum's move;
    L-noisy-gradient composes the steps exactly. "auto" settings depend on the number
    of units, epsilon, delta and norms alone. A unit's rows count as their average.

    References
    ----------
    :cite:`BassilySmithThakurta2014`, :cite:`DongRothSu2022`.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(3000, random_state=0)
    >>> model = NoisyGradientClassifier(1.0, 1e-5, norm_bound=5.0, classes=[0, 1])
    >>> print(model.fit(X, y).certificate_.headline())
    (1, 1e-05)-DP for the model, replace one unit of 3000; proved
    >>> model.coef_.shape
    (1, 20)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_CONSTRAINTS,
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        norm_bound: float = 1.0,
        clip: float | str = "auto",
        steps: int | str = "auto",
        learning_rate: float | str = "auto",
        momentum: float = 0.9,
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.norm_bound = norm_bound
        self.clip = clip
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: Any = None) -> Self:
        """Train and release the model.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers; rows beyond `norm_bound` are scaled down.
        y : array-like of shape (n_rows,)
            Labels.
        units : array-like of shape (n_rows,), default=None
            The person, or other unit, that each row belongs to. None makes every row
            a unit.
        """
        X = validate_data(self, X, dtype=np.float64)
        labels, y = checked_labels(self.classes, y)
        check_consistent_length(X, y)
        rows = descent_rows(X, self.norm_bound, self.fit_intercept)
        binary = len(labels) == 2
        found = self._descend(
            rows,
            labels.indices(y),
            units,
            residual=_binary if binary else _softmax_of(len(labels)),
            n_scores=1 if binary else len(labels),
            shape=BINARY if binary else SOFTMAX,
            labels_from_data=self.classes is None,
        )
        self._release(found, self._constant(), self.norm_bound, labels.classes)
        return self


def _binary(targets: NDArray[np.int64]) -> Residual:
    ones = targets.astype(np.float64)[:, None]
    return lambda scores: np.asarray(expit(scores) - ones)


def _softmax_of(n_classes: int) -> Any:
    def residual(targets: NDArray[np.int64]) -> Residual:
        hot = np.eye(n_classes)[targets]
        return lambda scores: np.asarray(softmax(scores, axis=1) - hot)

    return residual


class NoisyGradientRegressor(ReleasedLinearRegressor, _NoisyGradient):
    r"""Linear regression released by noisy gradient descent.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-6
        What releasing the model costs; `delta` must be positive.
    bounds : (float, float), default=(0.0, 1.0)
        Public bounds on the target, known without looking at the data. Targets and
        predictions outside are clipped.
    loss : {"squared", "huber"}, default="squared"
        The loss, of targets whose bounds are mapped to -1 and 1. Clipped gradients
        make outliers count less in either case.
    width : float, default=0.25
        Where Huber's loss turns from a square into a straight line.
    norm_bound, clip, steps, learning_rate, momentum, fit_intercept, random_state
        As for `NoisyGradientClassifier`.

    Attributes
    ----------
    coef_, intercept_ : ndarray and float
        The released model, in the target's units.
    bounds_ : (float, float)
        What predictions are clipped to.
    certificate_, zcdp_certificate_, n_units_, n_iter_
        As for `NoisyGradientClassifier`.
    clip_, learning_rate_, noise_scale_
        As for `NoisyGradientClassifier`.

    Guarantee
    ---------
    As for `NoisyGradientClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = NoisyGradientRegressor(2.0, 1e-4, (0, 400), norm_bound=0.25)
    >>> print(model.fit(X, y).certificate_.headline())
    (2, 0.0001)-DP for the model, replace one unit of 442; proved
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_CONSTRAINTS,
        "bounds": ["array-like"],
        "loss": [StrOptions({"squared", "huber"})],
        "width": [_POSITIVE],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: tuple[float, float] = (0.0, 1.0),
        *,
        loss: str = "squared",
        width: float = 0.25,
        norm_bound: float = 1.0,
        clip: float | str = "auto",
        steps: int | str = "auto",
        learning_rate: float | str = "auto",
        momentum: float = 0.9,
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.loss = loss
        self.width = width
        self.norm_bound = norm_bound
        self.clip = clip
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: Any = None) -> Self:
        """Train and release the model.

        Parameters
        ----------
        X, units
            As for `NoisyGradientClassifier`.
        y : array-like of shape (n_rows,)
            Targets; values outside the bounds are clipped.
        """
        bounds = check_bounds(self.bounds)
        limit = self._limit()
        X = validate_data(self, X, dtype=np.float64)
        y = checked_targets(y)
        check_consistent_length(X, y)
        rows = descent_rows(X, self.norm_bound, self.fit_intercept)

        def residual(targets: Float) -> Residual:
            truth = targets[:, None]
            return lambda scores: np.clip(scores - truth, -limit, limit)

        found = self._descend(
            rows,
            centred(y, bounds),
            units,
            residual=residual,
            n_scores=1,
            shape=SQUARE,
            labels_from_data=False,
        )
        self._release_numbers(found[:, 0], self._constant(), self.norm_bound, bounds)
        return self

    def _limit(self) -> float:
        """Return the largest slope of the loss."""
        if self.loss == "huber":
            return positive(type(self).__name__, "width", self.width)
        if self.loss == "squared":
            return np.inf
        raise InvalidParameterError(f"loss={self.loss!r} must be 'squared' or 'huber'.")
