"""Linear models released by tilting their objective at random: pure and accurate."""

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
    ObjectivePlan,
    bounded_rows,
    unit_weights,
)
from reticent.mechanisms import noise_source

_POSITIVE = Interval(Real, 0, None, closed="neither")
_CONSTRAINTS: dict[str, list[Any]] = {
    "epsilon": [_POSITIVE],
    "width": [_POSITIVE],
    "norm_bound": [_POSITIVE],
    "l1_bound": [_POSITIVE, None],
    "regularization": [StrOptions({"auto"}), _POSITIVE],
    "fit_intercept": ["boolean"],
}


class _ObjectivePerturbation(ReleasedLinear):
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
        limit = self.l1_bound
        if limit is not None:
            limit = positive(type(self).__name__, "l1_bound", limit)
        rows, sum_bound, largest = bounded_rows(
            X, self.norm_bound, limit, self.fit_intercept
        )
        weights, n_units = unit_weights(units, len(rows))
        source = noise_source(self.random_state)
        plan = ObjectivePlan.of(
            self,
            loss,
            n_units=n_units,
            dimension=rows.shape[1],
            l1_bound=sum_bound,
            feature_bound=largest,
            labels_from_data=labels_from_data,
            seeded=source.seeded,
        )
        self.certificate_ = plan.certificate
        self.n_units_ = n_units
        self.tilt_scale_ = plan.tilt_scale
        self.regularization_ = plan.regularization
        return plan.coefficients(rows, targets, weights, source)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every fit draws fresh noise
        return tags


class ObjectivePerturbationClassifier(ReleasedLinearClassifier, _ObjectivePerturbation):
    r"""Linear classifier released by tilting its objective at random.

    A linear term with Laplace coefficients is added to the regularised risk before it
    is minimised. The most accurate pure release of a linear model here, above all for
    encoded tables: their rows have few entries that are not zero, so that their sum
    is bounded well below the root of their number.

    Parameters
    ----------
    epsilon : float, default=1.0
        What releasing the model costs; no delta.
    loss : {"logistic", "hinge"}, default="logistic"
        The loss; the hinge is smoothed over `width`.
    width : float, default=1.0
        Where the hinge bends.
    norm_bound : float, default=1.0
        Public bound on the Euclidean norm of a row, known without looking at the
        data. Longer rows are scaled down when training.
    l1_bound : float or None, default=None
        Public bound on the sum of a row's absolute entries; longer rows are scaled
        down. For rows of a `reticent.schemas.Encoder` it is the number of the
        schema's columns. None takes what the norm bound implies.
    regularization : float or "auto", default="auto"
        Strength of the penalty, for rows divided by `norm_bound`; "auto" weighs it
        against the noise.
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
    classes_, n_units_, tilt_scale_, regularization_
        Labels, number of units, scale of the tilt and strength of the penalty.

    Guarantee
    ---------
    The model is `epsilon`-DP under replacement of one unit. *Proof.* L-objective for
    the exact minimiser; the computed one is within a preset distance of it, and a
    little noise covers that distance (L-objective-solver, L-objective-release).

    References
    ----------
    :cite:`ChaudhuriMonteleoniSarwate2011`, :cite:`KiferSmithThakurta2012`,
    :cite:`IyengarEtAl2019`.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(3000, random_state=0)
    >>> model = ObjectivePerturbationClassifier(1.0, norm_bound=5.0, classes=[0, 1])
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
        *,
        loss: str = "logistic",
        width: float = 1.0,
        norm_bound: float = 1.0,
        l1_bound: float | None = None,
        regularization: float | str = "auto",
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.loss = loss
        self.width = width
        self.norm_bound = norm_bound
        self.l1_bound = l1_bound
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
            Numbers; rows beyond the bounds are scaled down.
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
            "ObjectivePerturbationClassifier",
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


class ObjectivePerturbationRegressor(ReleasedLinearRegressor, _ObjectivePerturbation):
    """Linear regressor with Huber's loss, released by tilting its objective.

    Parameters
    ----------
    epsilon
        As for `ObjectivePerturbationClassifier`.
    bounds : (float, float), default=(0.0, 1.0)
        Public bounds on the target, known without looking at the data. Targets and
        predictions outside are clipped.
    width : float, default=0.25
        Where Huber's loss, of targets whose bounds are mapped to -1 and 1, turns from
        a square into a straight line.
    norm_bound, l1_bound, regularization, fit_intercept, random_state
        As for `ObjectivePerturbationClassifier`.

    Attributes
    ----------
    coef_, intercept_ : ndarray and float
        The released model, in the target's units.
    certificate_, n_units_, tilt_scale_, regularization_
        As for `ObjectivePerturbationClassifier`.

    Guarantee
    ---------
    As for `ObjectivePerturbationClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ObjectivePerturbationRegressor(1.0, (0, 400), norm_bound=0.25)
    >>> print(model.fit(X, y).certificate_.headline())
    1-DP for the model, replace one unit of 442; proved
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_CONSTRAINTS,
        "bounds": ["array-like"],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        bounds: tuple[float, float] = (0.0, 1.0),
        *,
        width: float = 0.25,
        norm_bound: float = 1.0,
        l1_bound: float | None = None,
        regularization: float | str = "auto",
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.width = width
        self.norm_bound = norm_bound
        self.l1_bound = l1_bound
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: Any = None) -> Self:
        """Train the model and release it.

        Parameters
        ----------
        X, units
            As for `ObjectivePerturbationClassifier`.
        y : array-like of shape (n_rows,)
            Targets; values outside the bounds are clipped.

        Raises
        ------
        SolverError
            If the preset tolerance is not reached.
        """
        bounds = check_bounds(self.bounds)
        loss = regression_loss("huber", self.width, 1.0)
        X = validate_data(self, X, dtype=np.float64)
        y = checked_targets(y)
        check_consistent_length(X, y)
        found = self._perturbed(
            X, centred(y, bounds), loss, units, labels_from_data=False
        )
        constant = CONSTANT if self.fit_intercept else None
        self._release_numbers(found, constant, self.norm_bound, bounds)
        return self
