"""Releases the labels that a minimiser under noise gives to public points (M4)."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from reticent._arrays import Floats
from reticent._numbers import below_one, nonnegative
from reticent._sklearn import HasMethods, Interval, MatrixLike, StrOptions, fit_context
from reticent._text import one_of
from reticent.errors import InvalidParameterError, RuleError
from reticent.estimators import UnitIds, two_labels, unit_positions
from reticent.hypotheses import HypothesisClass, distinct_rows, point_matrix
from reticent.learners.public.points import check_public, first_rows
from reticent.learners.public.separator_noise import (
    NOISES,
    SeparatorFacts,
    SeparatorNoise,
    gaussian_separator_noise,
    laplace_separator_noise,
)
from reticent.learners.public.separator_oracles import (
    OracleClassifier,
    SeparatorOracle,
    oracle_for,
)
from reticent.mechanisms import GridLaw, noise_source

SCALES = ("teaching", "points")


@dataclass(eq=False, repr=False)
class SeparatorClassifier(OracleClassifier):
    """The base of classifiers that release labels of public points."""

    hypotheses: Any
    epsilon: float = 1.0
    _: KW_ONLY
    delta: float = 0.0
    noise: str = "auto"
    scale_by: str = "teaching"
    slack: float = 0.0
    classes: ArrayLike | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hypotheses": [HypothesisClass, HasMethods(["fit", "predict"])],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "noise": [StrOptions({"auto", *NOISES})],
        "scale_by": [StrOptions(set(SCALES))],
        "slack": [Interval(Real, 0, None, closed="left")],
        "classes": ["array-like", None],
    }

    def _release(
        self, X: MatrixLike, y: MatrixLike, units: UnitIds, points: MatrixLike
    ) -> Self:
        rows = np.asarray(validate_data(self, X, dtype=np.float64, reset=True))
        labels, y = two_labels("A class of hypotheses", self.classes, rows, y)
        positions, n_units = unit_positions(units, len(rows))
        oracle = oracle_for(self.hypotheses, rows.shape[1])
        public, _ = distinct_rows(point_matrix(points, rows.shape[1]))
        source = noise_source(self.random_state)
        noise = self._noise(oracle, public, n_units, source.seeded)
        if units is None:
            weights = np.full(len(rows), noise.steps, dtype=np.int64)
        else:
            # Rounded down, so that a unit's mistakes weigh at most `steps`.
            weights = (
                noise.steps // np.bincount(positions, minlength=n_units)[positions]
            )
        won = oracle.labels(
            np.concatenate([rows, public]),
            np.concatenate([labels.indices(y), np.zeros(len(public), dtype=np.int64)]),
            np.concatenate([weights, noise.draw(source)]),
            public,
            noise.steps,
        )
        # From here on only the labels of public points depend on the data.
        self._family = deepcopy(self.hypotheses)
        self.hypothesis_ = oracle.release(public, won)
        self.certificate_ = noise.certificate
        self.points_ = public
        self.labels_ = labels.classes[won]
        self.noise_scale_ = noise.scale / noise.steps
        self.classes_ = labels.classes
        self.n_units_ = n_units
        return self

    def _noise(
        self, oracle: SeparatorOracle, points: Floats, n_units: int, seeded: bool
    ) -> SeparatorNoise:
        chosen = self._noise_laws()
        one_of("scale_by", self.scale_by, *SCALES)
        facts = SeparatorFacts(
            n=n_units,
            points=len(points),
            taught=(
                oracle.taught(points) if self.scale_by == "teaching" else len(points)
            ),
            labelings=oracle.labelings(points) if "gaussian" in chosen else 1,
            room=oracle.room,
            oracle=oracle.name,
            exact_oracle=oracle.exact,
            own_functions=oracle.own_functions,
            frozen=oracle.frozen,
            slack=nonnegative(type(self).__name__, "slack", self.slack),
        )
        assumed = {"labels_from_data": self.classes is None, "seeded": seeded}
        found = []
        if "laplace" in chosen:
            found.append(
                laplace_separator_noise(facts, epsilon=self.epsilon, **assumed)
            )
        if "gaussian" in chosen:
            try:
                found.append(
                    gaussian_separator_noise(
                        facts, epsilon=self.epsilon, delta=self.delta, **assumed
                    )
                )
            except (InvalidParameterError, RuleError):
                # For example, too many labelings. This choice depends on public facts.
                if not found:
                    raise
        return min(found, key=_variance)

    def _noise_laws(self) -> tuple[str, ...]:
        delta = below_one(type(self).__name__, "delta", self.delta)
        one_of("noise", self.noise, "auto", *NOISES)
        if self.noise == "gaussian" and not delta > 0:
            raise InvalidParameterError(
                f"noise='gaussian' needs delta > 0; got delta={delta!r}. Use "
                "noise='laplace' for pure differential privacy."
            )
        if self.noise == "laplace" or delta == 0:
            return ("laplace",)
        return NOISES if self.noise == "auto" else ("gaussian",)


@dataclass(eq=False, repr=False, kw_only=True)
class RRSPMClassifier(SeparatorClassifier):
    r"""Private classifier from an oracle and public unlabelled points.

    Public points get random costs, of either sign, for label 1. One call of the oracle
    minimises the mistakes on the private rows plus these costs. Only the minimiser's
    labels of the public points are kept, and the class's representative of these labels
    is released. This needs an oracle but no list of candidates, so it works for large
    classes and large data.

    Parameters
    ----------
    hypotheses : HypothesisClass or classifier
        The class, from `reticent.hypotheses`. Or any scikit-learn classifier that
        takes `sample_weight`, as a heuristic: a copy is fitted with flipped labels
        where weights are negative, and another copy, fitted on the public points with
        the labels of the first, is released.
    epsilon : float, default=1.0
        Privacy cost of the released model.
    delta : float, default=0.0
        Slack of Gaussian noise; 0 for pure differential privacy.
    noise : {"auto", "laplace", "gaussian"}, default="auto"
        Law of the costs. "auto" takes the one of smaller variance; Laplace, hence
        pure differential privacy, if `delta` is 0.
    scale_by : {"teaching", "points"}, default="teaching"
        Whether the noise is scaled to the number of points that distinguish a labeling
        from all others, or to the number of all points, as in S4.
    slack : float, default=0.0
        By how many weighted mistakes the oracle's result may exceed the minimum. The
        noise grows by the factor ``1 + slack``, and a certificate that assumes an exact
        oracle then assumes one within this slack.
    n_public : int or None, default=None
        Number of public rows that are used, the first ones; None uses all. A plan sets
        it, because its error bound holds for this number.
    classes : array-like of shape (2,), default=None
        The two public labels. None reads them from `y` and assumes them public.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    hypothesis_ : object
        The released hypothesis, or the classifier fitted on the public points.
    certificate_ : Certificate
        What the model promises, for any number of predictions.
    points_, labels_ : ndarray
        The distinct public points and their labels, which determine the hypothesis.
    noise_scale_ : float
        Scale of the noise, in mistakes; public.
    classes_ : ndarray of shape (2,)
        The public labels, sorted.
    n_units_ : int
        Number of privacy units.

    Guarantee
    ---------
    `PureDP(epsilon)` for the model under Laplace noise, `ApproxDP(epsilon, delta)`
    under Gaussian noise, replace-one. Rules M4-laplace and M4-gaussian have the
    proofs. Mistakes and noise are whole numbers and are added exactly; ties may be
    broken in any way.

    ============================================  ====================================
    oracle                                        certificate
    ============================================  ====================================
    thresholds, intervals, stumps, rectangles,    proved
    finite classes from a table; halfspaces and
    conjunctions with ``method="enumerate"``
    finite classes of functions                   assumes ROWWISE_QUERIES
    other halfspaces and conjunctions             assumes EXACT_ORACLE: HiGHS proves
                                                  its bound in floating point
    your own class                                assumes EXACT_ORACLE and
                                                  ROWWISE_QUERIES
    a scikit-learn classifier                     assumes EXACT_ORACLE, which a
                                                  heuristic need not meet, and
                                                  PUBLIC_PARTS if a part is frozen
    the last three with ``slack > 0``               assumes ORACLE_WITHIN_SLACK instead
    ============================================  ====================================

    How the public points relate to the private rows affects only accuracy. They must be
    public: points taken from the private rows void the certificate. With `units` a
    unit's loss is the mean over its rows, rounded down.

    References
    ----------
    :cite:`BlockEtAl2024`, Alg. 4; :cite:`NeelRothWu2019`; THEOREMS M4.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent.hypotheses import Stumps
    >>> rng = np.random.default_rng(0)
    >>> X, public = rng.normal(size=(5000, 3)), rng.normal(size=(40, 3))
    >>> model = RRSPMClassifier(Stumps(), epsilon=1.0, classes=[False, True])
    >>> model = model.fit(X, X[:, 1] > 0.3, public=public)
    >>> print(model.certificate_.headline())
    1-DP for the model, replace one unit of 5000; proved
    """

    n_public: int | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SeparatorClassifier._parameter_constraints,
        "n_public": [Interval(Integral, 1, None, closed="left"), None],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: MatrixLike,
        y: MatrixLike,
        units: UnitIds = None,
        *,
        public: MatrixLike | None = None,
    ) -> Self:
        """Release a hypothesis.

        Parameters
        ----------
        X, y, units
            Private data, as for `ExponentialMechanismClassifier`.
        public : array-like of shape (n_public, n_features)
            Public unlabelled rows; required. Duplicates count once.
        """
        check_public("RRSPMClassifier", public, X)
        points = first_rows("RRSPMClassifier", public, self.n_public)
        return self._release(X, y, units, points)


def _variance(noise: SeparatorNoise) -> float:
    own = noise.scale / noise.steps
    return 2 * own**2 if noise.law is GridLaw.LAPLACE else own**2
