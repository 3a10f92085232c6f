"""Linear models by noisy gradient descent: the practical way to release one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax

from reticent._arrays import Floats
from reticent._numbers import positive
from reticent._sklearn import Interval, StrOptions
from reticent._text import one_of
from reticent.estimators import (
    POSITIVE_OR_AUTO,
    RELATIONS,
    CertifiedCoefficients,
    LinearExamples,
    ReleasedLinear,
    ReleasedLinearClassifier,
    ReleasedLinearRegressor,
)
from reticent.learners.linear.gradient_descent import (
    BINARY,
    SOFTMAX,
    SQUARE,
    DescentPlan,
    Shape,
    descent_rows,
    unit_after_unit,
)
from reticent.learners.linear.gradient_sums import ClippedSums, Residual

#: Shape of the loss, number of scores, and from targets to slopes.
Descent: TypeAlias = tuple[Shape, int, Callable[[Floats], Residual]]


@dataclass(eq=False, repr=False)
class _NoisyGradient(ReleasedLinear):
    """The plan: noisy sums of clipped gradients, each at the point they led to."""

    _expects: ClassVar[bool] = True

    #: The kind of promise by which many runs are accounted for best.
    run_promise: ClassVar[str] = "gaussian"

    epsilon: float = 1.0
    _: KW_ONLY
    delta: float = 1e-6
    norm_bound: float = 1.0
    clip: float | str = "auto"
    steps: int | str = "auto"
    learning_rate: float | str = "auto"
    momentum: float = 0.9
    fit_intercept: bool = True
    relation: str = "replace-one"
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ReleasedLinear._parameter_constraints,
        "relation": [StrOptions(set(RELATIONS))],
        "clip": POSITIVE_OR_AUTO,
        "steps": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "learning_rate": POSITIVE_OR_AUTO,
        "momentum": [Interval(Real, 0, 1, closed="left")],
    }

    def _descent(self, n_classes: int) -> Descent:
        """Return what to descend, for `n_classes` labels or (0) for numbers."""
        raise NotImplementedError  # a classifier and a regressor each have their own

    def _private_coefficients(self, examples: LinearExamples) -> CertifiedCoefficients:
        n_classes = 0 if examples.classes is None else len(examples.classes)
        shape, n_scores, residual = self._descent(n_classes)
        rows, targets, starts, n_units = unit_after_unit(
            descent_rows(examples.X, self.norm_bound, self.fit_intercept),
            examples.targets,
            examples.units,
        )
        plan = DescentPlan.of(
            self,
            n_units=n_units,
            n_features=rows.shape[1],
            n_scores=n_scores,
            shape=shape,
            labels_from_data=examples.labels_from_data,
        )
        sums = ClippedSums(rows, plan.clip, plan.grid, starts)
        found = plan.descend(sums, residual(targets))
        self.zcdp_certificate_ = plan.concentrated()
        self.gaussian_certificate_ = plan.gaussian()
        self.n_iter_, self.noise_scale_ = plan.steps, plan.scale
        self.clip_, self.learning_rate_ = plan.clip, plan.learning_rate
        return found, plan.certificate


@dataclass(eq=False, repr=False, kw_only=True)
class NoisyGradientClassifier(_NoisyGradient, ReleasedLinearClassifier):
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
    relation : {"replace-one", "zero-out"}, default="replace-one"
        Which neighbours the certificate is about: another unit in one's place, or one
        that contributes nothing, which needs half the noise.
    classes : array-like, default=None
        The public labels. None reads them from `y` and assumes them public.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The released model; one row for two classes, else one per class.
    certificate_ : Certificate
        (epsilon, delta)-DP of the model.
    gaussian_certificate_ : Certificate
        The same as Gaussian DP, by which `PrivateSearch` accounts for it.
    zcdp_certificate_ : Certificate
        The same release as zCDP, for composing it with others.
    classes_ : ndarray
        The labels.
    n_units_, n_iter_, clip_, learning_rate_, noise_scale_
        Number of units, and the settings used; functions of public quantities.

    Guarantee
    ---------
    The model, and all noisy sums that led to it, are (`epsilon`, `delta`)-DP under
    replacement of one unit, or with "zero-out" if one contributes nothing. *Proof.* A
    unit's contribution to a sum has norm at most `clip`, by exact arithmetic on a
    public grid; L-clipped-sum bounds the sum's move; L-noisy-gradient composes the
    steps exactly. "auto" settings depend on the number of units, epsilon, delta and
    norms alone. A unit's rows count as their average.

    References
    ----------
    :cite:`BassilySmithThakurta2014`, :cite:`DongRothSu2022`.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(3000, random_state=0)
    >>> model = NoisyGradientClassifier(
    ...     1.0, delta=1e-5, norm_bound=5.0, classes=[0, 1]
    ... )
    >>> print(model.fit(X, y).certificate_.headline())
    (1, 1e-05)-DP for the model, replace one unit of 3000; proved
    >>> model.coef_.shape
    (1, 20)
    """

    classes: ArrayLike | None = None

    _multi_class = True

    def _descent(self, n_classes: int) -> Descent:
        if n_classes == 2:
            return BINARY, 1, _binary_residual

        def residual(targets: Floats) -> Residual:
            hot = np.eye(n_classes)[targets.astype(np.int64)]
            return lambda scores: np.asarray(softmax(scores, axis=1) - hot)

        return SOFTMAX, n_classes, residual


def _binary_residual(targets: Floats) -> Residual:
    return lambda scores: np.asarray(expit(scores) - targets[:, None])


@dataclass(eq=False, repr=False, kw_only=True)
class NoisyGradientRegressor(_NoisyGradient, ReleasedLinearRegressor):
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
    norm_bound, clip, steps, learning_rate, momentum, fit_intercept, relation
        As for `NoisyGradientClassifier`.
    random_state
        As for `NoisyGradientClassifier`.

    Attributes
    ----------
    coef_, intercept_ : ndarray and float
        The released model, in the target's units.
    bounds_ : (float, float)
        What predictions are clipped to.
    certificate_, gaussian_certificate_, zcdp_certificate_, n_units_, n_iter_
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
    >>> model = NoisyGradientRegressor(
    ...     2.0, delta=1e-4, bounds=(0, 400), norm_bound=0.25
    ... )
    >>> print(model.fit(X, y).certificate_.headline())
    (2, 0.0001)-DP for the model, replace one unit of 442; proved
    """

    bounds: tuple[float, float] = (0.0, 1.0)
    loss: str = "squared"
    width: float = 0.25

    def _descent(self, n_classes: int) -> Descent:
        limit = self._steepest()

        def residual(targets: Floats) -> Residual:
            return lambda scores: np.clip(scores - targets[:, None], -limit, limit)

        return SQUARE, 1, residual

    def _steepest(self) -> float:
        """Return the largest slope of the loss."""
        if one_of("loss", self.loss, "squared", "huber") == "squared":
            return np.inf
        return positive(type(self).__name__, "width", self.width)
