"""Linear models released with noise on their coefficients (P3)."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length, validate_data

from reticent._numbers import positive
from reticent._sklearn import Interval, MatrixLike, StrOptions, fit_context
from reticent.ensembles import check_bounds
from reticent.estimators import (
    BoundedLoss,
    Float,
    ReleasedLinear,
    ReleasedLinearClassifier,
    ReleasedLinearRegressor,
    centred,
    checked_targets,
    classification_loss,
    regression_loss,
    two_labels,
)
from reticent.learners.linear.noise_plans import (
    CONSTANT,
    LONGEST_ROW,
    OutputPlan,
    bounded_rows,
    unit_weights,
)
from reticent.mechanisms import noise_source

_POSITIVE = Interval(Real, 0, None, closed="neither")
_CONSTRAINTS: dict[str, list[Any]] = {
    "epsilon": [_POSITIVE],
    "delta": [Interval(Real, 0, 1, closed="left")],
    "width": [_POSITIVE],
    "norm_bound": [_POSITIVE],
    "radius": [_POSITIVE],
    "regularization": [StrOptions({"auto"}), _POSITIVE],
    "fit_intercept": ["boolean"],
}


class _OutputPerturbation(ReleasedLinear):
    """What both estimators share."""

    def _perturbed(
        self,
        X: Float,
        targets: Float,
        loss: BoundedLoss,
        units: Any,
        *,
        labels_from_data: bool,
    ) -> Float:
        rows, _, largest = bounded_rows(X, self.norm_bound, None, self.fit_intercept)
        weights, n_units = unit_weights(units, len(rows))
        source = noise_source(self.random_state)
        plan = OutputPlan.of(
            self,
            loss,
            n_units=n_units,
            dimension=rows.shape[1],
            feature_bound=largest,
            labels_from_data=labels_from_data,
            seeded=source.seeded,
        )
        self.certificate_ = plan.noise.certificate
        self.n_units_ = n_units
        self.noise_scale_ = plan.noise.scale
        self.regularization_ = plan.problem.regularization
        return plan.coefficients(rows, targets, weights, source)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every fit draws fresh noise
        return tags


class OutputPerturbationClassifier(ReleasedLinearClassifier, _OutputPerturbation):
    r"""Linear classifier released with noise on its coefficients.

    The regularised minimiser over a ball is so regular that one unit hardly moves it;
    noise hides the rest. The simplest release. `ObjectivePerturbationClassifier` is
    more accurate at the same pure epsilon, `NoisyGradientClassifier` at the same
    epsilon and delta.

    Parameters
    ----------
    epsilon : float, default=1.0
        What releasing the model costs.
    delta : float, default=0.0
        Above 0 the noise is Gaussian; at 0 each coefficient gets Laplace noise for
        the move of all in l1, about 1.4 times as long as noise of uniform direction
        and Gamma length, which no grid can be drawn from exactly.
    loss : {"logistic", "hinge"}, default="logistic"
        The loss; the hinge is smoothed over `width`.
    width : float, default=1.0
        Where the hinge bends.
    norm_bound : float, default=1.0
        Public bound on the Euclidean norm of a row, known without looking at the
        data. Longer rows are scaled down when training.
    radius : float, default=10.0
        Bound on the norm of the coefficients, for rows divided by `norm_bound`.
    regularization : float or "auto", default="auto"
        Strength of the penalty; "auto" weighs it against the noise.
    fit_intercept : bool, default=True
        Whether a constant feature of half of `norm_bound` is added.
    classes : array-like of shape (2,), default=None
        The two public labels. None reads them from `y` and assumes them public.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The released model.
    certificate_ : Certificate
        What the model promises.
    classes_, n_units_, noise_scale_, regularization_
        Labels, number of units, scale of the noise and strength of the penalty.

    Guarantee
    ---------
    The model is `epsilon`-DP, or (`epsilon`, `delta`)-DP, under replacement of one
    unit. *Proof.* P3 bounds the move of the coefficients, the solver's preset
    tolerance included; L-output states it for all of them; G5 adds noise for it.

    References
    ----------
    :cite:`ChaudhuriMonteleoniSarwate2011`, :cite:`DworkFeldman2018`; THEOREMS P3, G5.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(3000, random_state=0)
    >>> model = OutputPerturbationClassifier(1.0, norm_bound=5.0, classes=[0, 1])
    >>> print(model.fit(X, y).certificate_.headline())
    1-DP for the model, replace one unit of 3000; proved
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_CONSTRAINTS,
        "loss": [StrOptions({"logistic", "hinge"})],
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        loss: str = "logistic",
        width: float = 1.0,
        norm_bound: float = 1.0,
        radius: float = 10.0,
        regularization: float | str = "auto",
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.width = width
        self.norm_bound = norm_bound
        self.radius = radius
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: Any = None) -> Self:
        """Train the model and release it.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers; rows beyond `norm_bound` are scaled down.
        y : array-like of shape (n_rows,)
            Two labels.
        units : array-like of shape (n_rows,), default=None
            The person, or other unit, that each row belongs to. A unit's loss is the
            mean over its rows. None makes every row a unit.

        Raises
        ------
        SolverError
            If the preset tolerance is not reached.
        """
        loss = classification_loss(self.loss, self.width)
        X = validate_data(self, X, dtype=np.float64)
        labels, y = two_labels(
            "OutputPerturbationClassifier",
            self.classes,
            X,
            y,
            "; use NoisyGradientClassifier for more",
        )
        found = self._perturbed(
            X,
            labels.indices(y).astype(np.float64),
            loss,
            units,
            labels_from_data=self.classes is None,
        )
        constant = CONSTANT if self.fit_intercept else None
        self._release(found[:, None], constant, self.norm_bound, labels.classes)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class OutputPerturbationRegressor(ReleasedLinearRegressor, _OutputPerturbation):
    """Linear regressor released with noise on its coefficients.

    Parameters
    ----------
    epsilon, delta
        As for `OutputPerturbationClassifier`.
    bounds : (float, float), default=(0.0, 1.0)
        Public bounds on the target, known without looking at the data. Targets and
        predictions outside are clipped.
    loss : {"huber", "squared"}, default="huber"
        The loss, of targets whose bounds are mapped to -1 and 1.
    width : float, default=0.25
        Where Huber's loss turns from a square into a straight line.
    norm_bound, radius, regularization, fit_intercept, random_state
        As for `OutputPerturbationClassifier`; `radius` for targets mapped to [-1, 1].

    Attributes
    ----------
    coef_, intercept_ : ndarray and float
        The released model, in the target's units.
    certificate_, n_units_, noise_scale_, regularization_
        As for `OutputPerturbationClassifier`.

    Guarantee
    ---------
    As for `OutputPerturbationClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = OutputPerturbationRegressor(1.0, 1e-4, (0, 400), norm_bound=0.25)
    >>> print(model.fit(X, y).certificate_.headline())
    (1, 0.0001)-DP for the model, replace one unit of 442; proved
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_CONSTRAINTS,
        "bounds": ["array-like"],
        "loss": [StrOptions({"huber", "squared"})],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: tuple[float, float] = (0.0, 1.0),
        *,
        loss: str = "huber",
        width: float = 0.25,
        norm_bound: float = 1.0,
        radius: float = 3.0,
        regularization: float | str = "auto",
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.loss = loss
        self.width = width
        self.norm_bound = norm_bound
        self.radius = radius
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: Any = None) -> Self:
        """Train the model and release it.

        Parameters
        ----------
        X, units
            As for `OutputPerturbationClassifier`.
        y : array-like of shape (n_rows,)
            Targets; values outside the bounds are clipped.

        Raises
        ------
        SolverError
            If the preset tolerance is not reached.
        """
        bounds = check_bounds(self.bounds)
        radius = positive(type(self).__name__, "radius", self.radius)
        loss = regression_loss(self.loss, self.width, LONGEST_ROW * radius)
        X = validate_data(self, X, dtype=np.float64)
        y = checked_targets(y)
        check_consistent_length(X, y)
        found = self._perturbed(
            X, centred(y, bounds), loss, units, labels_from_data=False
        )
        constant = CONSTANT if self.fit_intercept else None
        self._release_numbers(found, constant, self.norm_bound, bounds)
        return self
