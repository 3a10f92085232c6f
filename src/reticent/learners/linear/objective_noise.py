"""Linear models released by tilting their objective at random: pure and accurate."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import ArrayLike

from reticent._numbers import positive
from reticent.estimators import (
    POSITIVE,
    BoundedLoss,
    LearnedLinear,
    LinearExamples,
    ReleasedLinear,
    ReleasedLinearClassifier,
    ReleasedLinearRegressor,
    regression_loss,
)
from reticent.learners.linear.noise_plans import ObjectivePlan


class _ObjectivePerturbation(ReleasedLinear):
    """The plan: tilt the regularised risk, minimise it, add noise for the solver."""

    def _learned(self, examples: LinearExamples) -> LearnedLinear:
        # No ball bounds predictions here; the losses have bounded slopes without one.
        loss = self._loss(reach=1.0)
        limit = self.l1_bound
        if limit is not None:
            limit = positive(type(self).__name__, "l1_bound", limit)
        data = self._in_ball(examples, l1_bound=limit)
        plan = ObjectivePlan.of(self, loss, data.facts)
        found = plan.coefficients(data.rows, data.targets, data.weights, data.source)
        self.tilt_scale_ = plan.tilt_scale
        self.regularization_ = plan.regularization
        return LearnedLinear(found, plan.certificate, data.facts.n_units)


class ObjectivePerturbationClassifier(_ObjectivePerturbation, ReleasedLinearClassifier):
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
        **ReleasedLinearClassifier._parameter_constraints,
        "l1_bound": [POSITIVE, None],
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


class ObjectivePerturbationRegressor(_ObjectivePerturbation, ReleasedLinearRegressor):
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
    >>> model = ObjectivePerturbationRegressor(1.0, bounds=(0, 400), norm_bound=0.25)
    >>> print(model.fit(X, y).certificate_.headline())
    1-DP for the model, replace one unit of 442; proved
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ReleasedLinearRegressor._parameter_constraints,
        "l1_bound": [POSITIVE, None],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        bounds: tuple[float, float] = (0.0, 1.0),
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

    def _loss(self, reach: float) -> BoundedLoss:
        return regression_loss("huber", self.width, reach)
