"""Release a classifier by the exponential mechanism (L1)."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from reticent._arrays import Floats
from reticent._numbers import whole
from reticent._sklearn import (
    Interval,
    MatrixLike,
    StrOptions,
    UnweightedEstimator,
    fit_context,
)
from reticent.errors import InvalidParameterError
from reticent.estimators import Labels, UnitIds, two_labels, unit_positions
from reticent.guarantees import (
    PUBLIC_LABELS,
    ROWWISE_QUERIES,
    Assumption,
    BoundedRange,
    Certificate,
    Conclusion,
    PureDP,
    ReplaceOne,
    Scope,
    rule,
)
from reticent.hypotheses import HypothesisClass, runs_own_functions
from reticent.learners.selection.candidates import (
    SELECTIONS,
    Examples,
    draw_hypothesis,
    public_candidates,
    refuse_training_rows,
    select,
)
from reticent.mechanisms import (
    RandomSource,
    exponential_mechanism_certificate,
    noise_source,
    permute_and_flip_certificate,
)


@rule(
    "L1",
    name="a selected hypothesis",
    statement="candidates and penalties do not depend on the data, and a unit's loss "
    "lies in [0, 1]: one replaced unit moves a score by one loss",
    source="S0 Alg. 1",
    paper="twice the sensitivity",
    takes=(PureDP, BoundedRange),
    gives=(PureDP, BoundedRange),
    same_kind=True,
    relations=(ReplaceOne,),
    scopes=(Scope.MODEL,),
    later=("own_functions",),
)
def selected_hypothesis(
    premise: Certificate[Any],
    *,
    candidates: int,
    labels_from_data: bool,
    own_functions: bool = False,
) -> Conclusion[Any]:
    """Extend the promise of a selection to the rows behind its scores.

    `own_functions` says that the caller's functions label the rows. A unit then moves
    only its own loss if they label each row by that row alone.
    """
    whole("rule L1", "candidates", candidates)
    return Conclusion(
        premise.guarantee,
        premise.relation,
        premise.scope,
        Assumption.collect(
            (PUBLIC_LABELS, labels_from_data), (ROWWISE_QUERIES, own_functions)
        ),
    )


class CandidateClassifier(ClassifierMixin, UnweightedEstimator):
    """The base of classifiers that release one of many candidates.

    Subclasses set the constructor parameters `hypotheses`, `classes` and
    `random_state`. Once fitted, only the selected hypothesis depends on the data.
    """

    def _rows(self, X: MatrixLike, *, reset: bool) -> Floats:
        if not isinstance(self.hypotheses, HypothesisClass):
            raise InvalidParameterError(
                f"hypotheses={self.hypotheses!r} must be a class of "
                "reticent.hypotheses, such as Thresholds()."
            )
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=reset))

    def _examples(
        self, X: Floats, y: Any, units: UnitIds, *, fine: bool = False
    ) -> tuple[Examples, Labels]:
        labels, y = two_labels("A class of hypotheses", self.classes, X, y)
        positions, n_units = unit_positions(units, len(X))
        where = None if units is None else positions
        return Examples.of(X, labels.indices(y), where, n_units, fine=fine), labels

    def _certificate(
        self,
        examples: Examples,
        epsilon: float,
        selection: str,
        candidates: int,
        seeded: bool,
    ) -> Certificate[Any]:
        certify: Any = {
            "exponential": exponential_mechanism_certificate,
            "permute-and-flip": permute_and_flip_certificate,
        }[selection]
        premise = certify(
            n=examples.n_units,
            epsilon=epsilon,
            scope="model",
            sensitivity=examples.steps,
            seeded=seeded,
        )
        return selected_hypothesis(
            premise,
            candidates=candidates,
            labels_from_data=self.classes is None,
            own_functions=runs_own_functions(self.hypotheses),
        )

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return the released hypothesis' label of each row; costs nothing more."""
        check_is_fitted(self)
        rows = np.asarray(validate_data(self, X, dtype=np.float64, reset=False))
        return np.asarray(self.classes_[self._family.predict(self.hypothesis_, rows)])

    def _release(
        self,
        candidates: Any,
        law: Any,
        source: RandomSource,
        examples: Examples,
        labels: Labels,
    ) -> None:
        """Draw one candidate; set the fitted attributes."""
        self.hypothesis_ = draw_hypothesis(candidates, law, source)
        self._family = deepcopy(self.hypotheses.on(self.n_features_in_))
        self.n_candidates_ = candidates.count
        self.classes_ = labels.classes
        self.n_units_ = examples.n_units

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # the class may not fit the data
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class PublicCandidatesClassifier(CandidateClassifier):
    """The base of classifiers with candidates on public points or on a grid."""

    points: ArrayLike | None = None
    bounds: tuple[float, float] | None = None
    resolution: int = 2**32
    classes: ArrayLike | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hypotheses": [HypothesisClass],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "points": ["array-like", None],
        "bounds": ["array-like", None],
        "resolution": [Interval(Integral, 2, None, closed="left")],
        "classes": ["array-like", None],
    }

    def candidates(self, n_features: int) -> Any:
        """Return the public candidates for rows with `n_features` features."""
        return public_candidates(
            self.hypotheses.on(n_features),
            n_features,
            self.points,
            self.bounds,
            self.resolution,
        )


@dataclass(eq=False, repr=False)
class ExponentialMechanismClassifier(PublicCandidatesClassifier):
    r"""Private classifier: one hypothesis of a class, drawn by its mistakes.

    Hypothesis `h` is released with probability proportional to
    :math:`e^{-\varepsilon n F(h)/2}`, with `F` the mean loss of the units plus a
    penalty. The candidates must not depend on the data. They are

    - the members of a `FiniteClass`;
    - one representative for each labeling of public `points`, for any other class;
    - all thresholds or unions of intervals with ends on a public grid of `resolution`
      values between `bounds`, which are counted but never listed.

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class, from `reticent.hypotheses`.
    epsilon : float, default=1.0
        Privacy cost of the released model.
    points : array-like of shape (n_points, n_features), default=None
        Public points; never the data.
    bounds : (float, float), default=None
        Public range of the one feature, for `Thresholds` and `Intervals`.
    resolution : int, default=2**32
        Number of grid values, if `bounds` are given.
    penalty : array-like, callable or None, default=None
        The regulariser :math:`g_n`, in units of the mean loss: a number for each
        candidate, or a function of a hypothesis; on a grid, a number for each number
        of ends. It must not depend on the data.
    selection : {"exponential", "permute-and-flip"}, default="exponential"
        "permute-and-flip" never has a larger error; its certificate is `PureDP`, not of
        bounded range, so several releases compose worse. It needs candidates in a list.
    classes : array-like of shape (2,), default=None
        The two public labels. None reads them from `y` and assumes them public.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    hypothesis_ : object
        The released hypothesis; `hypotheses.predict(hypothesis_, X)` applies it.
    certificate_ : Certificate
        What the model promises, for any number of predictions.
    n_candidates_ : int
        Number of candidates; public.
    classes_ : ndarray of shape (2,)
        The public labels, sorted.
    n_units_ : int
        Number of privacy units.

    Guarantee
    ---------
    `BoundedRange` of `epsilon` for the model, replace-one; `PureDP` for
    permute-and-flip. *Proof.* With `units` a unit's loss is the mean over its rows,
    in fixed point, rounded down; without, that of its row. Either lies in [0, 1], so
    a score of losses moves by at most 1, and half of `epsilon` times that on each
    side of an odds ratio is G2. A `FiniteClass` of functions, and any class that is not
    the library's, make the certificate conditional: it assumes that the label of a row
    depends on that row alone (ROWWISE_QUERIES). The expected excess of the empirical
    `F` is at most ``2 ln(n_candidates_) / (epsilon n)``.

    References
    ----------
    :cite:`WangLeiFienberg2016`, Alg. 1; THEOREMS L1.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent.hypotheses import Thresholds
    >>> heights = np.linspace(140, 200, 600)[:, None]
    >>> tall = (heights[:, 0] > 180).astype(int)
    >>> model = ExponentialMechanismClassifier(
    ...     Thresholds(), epsilon=1.0, bounds=(100, 250), classes=[0, 1]
    ... )
    >>> print(model.fit(heights, tall).certificate_.headline())
    1-bounded-range DP for the model, replace one unit of 600; proved
    """

    hypotheses: Any
    epsilon: float = 1.0
    _: KW_ONLY
    penalty: Any = None
    selection: str = "exponential"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PublicCandidatesClassifier._parameter_constraints,
        "penalty": ["array-like", callable, None],
        "selection": [StrOptions(set(SELECTIONS))],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Draw and release one hypothesis.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,)
            Two labels.
        units : array-like of shape (n_rows,), default=None
            The id of each row's unit; the losses of its rows are averaged. None makes
            every row a separate unit.
        """
        refuse_training_rows("points", self.points, X)
        rows = self._rows(X, reset=True)
        candidates, examples, labels, law = self._law(rows, y, units)
        source = noise_source(self.random_state)
        self.certificate_ = self._certificate(
            examples, self.epsilon, self.selection, candidates.count, source.seeded
        )
        self._release(candidates, law, source, examples, labels)
        return self

    def response(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Any:
        """Return the exact law of what `fit` would release; as secret as the data.

        It is computed from the given data, because a fitted model stores none: a
        `Response` of one row with one label for each of :meth:`candidates`; on a grid
        a law with `draw` and `log_probability`.
        """
        rows = np.asarray(validate_data(self, X, dtype=np.float64, reset=False))
        return self._law(rows, y, units)[3]

    def _law(self, rows: Floats, y: Any, units: UnitIds) -> Any:
        candidates = self.candidates(rows.shape[1])
        fine = self.penalty is not None
        examples, labels = self._examples(rows, y, units, fine=fine)
        law = select(
            candidates,
            examples,
            self.epsilon,
            penalty=self.penalty,
            selection=self.selection,
        )
        return candidates, examples, labels, law
