"""Stable and private answers by selecting a fresh hypothesis each time (P5, P6)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._sklearn import Interval, MatrixLike, fit_context
from reticent.errors import InvalidParameterError
from reticent.estimators import UnitIds
from reticent.hypotheses import HypothesisClass, runs_own_functions
from reticent.mechanisms import noise_source
from reticent.prediction.law import blank_of
from reticent.prediction.selection.fresh_hypotheses import (
    FreshHypothesisClassifier,
    FreshHypothesisLaw,
)
from reticent.prediction.selection.stable_selection_rules import (
    SelectionPlan,
    plan_for_privacy,
    plan_for_stability,
    private_from_stable,
    stable_selection,
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SelectionLaw(FreshHypothesisLaw):
    """The law of what a fresh hypothesis says (P5, P6)."""

    most_subsets: ClassVar[int] = 200_000

    def answers(
        self, hypothesis: Any, queries: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return what the hypothesis says; the first label if it cannot."""
        return self.search.said(hypothesis, queries)

    def ones(self, hypothesis: Any, queries: NDArray[np.float64]) -> NDArray[Any]:
        """Return what the hypothesis says; it is no longer random."""
        return self.answers(hypothesis, queries)


@dataclass(eq=False, repr=False)
class StableSelectionClassifier(FreshHypothesisClassifier):
    r"""Binary classifier that draws a subset and a hypothesis for each answer.

    A uniform subset of the units gives the candidates: one hypothesis for each way the
    class labels its points, or a cover of these. The exponential mechanism picks one by
    its mistakes on all the data, and it answers. Given `stability`, that is all; given
    `epsilon`, the answer is flipped with a small probability, which makes it private.

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class, from `reticent.hypotheses`.
    stability : float, default=None
        Certify an answer whose law moves by at most this much.
    epsilon : float, default=None
        Certify an `epsilon`-DP answer instead; give one of the two.
    flip : float, default=0.05
        Probability of a flipped answer, if `epsilon` is given. It adds to the error,
        and a smaller one leaves less room for the rest. What is left is split between
        the subset and the selection by S2's bound for the class.
    cover : float, default=0.0
        Keep hypotheses so that every labeling of the subset differs from that of a kept
        one on at most this share of its points (S2 Remark 1). Fewer candidates mean
        less noise; up to `cover` is added to the error on the subset.
    classes : array-like of shape (2,), default=None
        The two public labels. None reads them from `y` and assumes them public.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    certificate_ : Certificate
        What one answer promises: `UniformStability`, or `PureDP`.
    plan_ : SelectionPlan
        Size of the subset, exponent and flip probability; public.
    classes_, n_units_
        As for the other predictors.

    Guarantee
    ---------
    P5 and P6. Every query redraws the subset, the hypothesis and the flip: reusing one
    hypothesis for two queries would cost more than the sum of both. A query never
    fails because of a record: if the labelings of the drawn subset cannot be listed,
    or the drawn hypothesis has no answer, the answer is the first label. *Proof* that
    this costs nothing. Whether a subset can be listed depends on its own points alone.
    A unit outside it then moves nothing; a unit inside is already counted, with the
    share `q`, as moving everything. What a hypothesis says is post-processing. For a
    `FiniteClass` of functions, and a class of your own, the certificate assumes that
    the label of a row depends on that row alone (ROWWISE_QUERIES).

    References
    ----------
    :cite:`DaganFeldman2020`, Thm 1 and Cor. 1; THEOREMS P5, P6.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent.hypotheses import Thresholds
    >>> X = np.linspace(0, 1, 400)[:, None]
    >>> y = (X[:, 0] > 0.3).astype(int)
    >>> model = StableSelectionClassifier(Thresholds(), epsilon=1.0, classes=[0, 1])
    >>> print(model.fit(X, y).certificate_.headline())
    1-DP for one answer, replace one unit of 400; proved
    """

    hypotheses: Any
    stability: float | None = None
    epsilon: float | None = None
    _: KW_ONLY
    flip: float = 0.05
    cover: float = 0.0
    classes: ArrayLike | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hypotheses": [HypothesisClass],
        "stability": [Interval(Real, 0, 1, closed="neither"), None],
        "epsilon": [Interval(Real, 0, None, closed="neither"), None],
        "flip": [Interval(Real, 0, 0.5, closed="neither")],
        "cover": [Interval(Real, 0, 1, closed="left")],
        "classes": ["array-like", None],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Prepare the data and issue the certificate; nothing is released.

        Parameters
        ----------
        X : array-like of shape (n_units, n_features)
            One row per unit.
        y : array-like of shape (n_units,)
            Two labels.
        units : array-like of shape (n_units,), default=None
            Ids of units, all different.
        """
        labels, search = self._prepared(X, y, units, "Stable selection")
        search = replace(search, cover=float(self.cover))
        n = search.n
        source = noise_source(self.random_state)
        plan = self._plan(n, search.hypotheses)
        search.rehearse(plan.subset)
        selected = stable_selection(
            n=n,
            subset=plan.subset,
            exponent=plan.exponent,
            labels_from_data=self.classes is None,
            seeded=source.seeded,
            own_functions=runs_own_functions(search.hypotheses),
        )
        self.law_ = SelectionLaw(
            certificate=(
                selected
                if self.epsilon is None
                else private_from_stable(selected, p=plan.flip)
            ),
            source=source,
            classes=labels.classes,
            blank=blank_of(self),
            plan=plan,
            flip=plan.flip,
            exponent=plan.exponent,
            search=search,
        )
        self.plan_ = plan
        self.classes_ = self.law_.classes
        self.n_units_ = n
        return self

    def _plan(self, n: int, hypotheses: Any) -> SelectionPlan:
        if (self.stability is None) == (self.epsilon is None):
            raise InvalidParameterError(
                "give one of stability and epsilon; got "
                f"stability={self.stability!r}, epsilon={self.epsilon!r}."
            )
        if self.epsilon is None:
            return plan_for_stability(n, float(self.stability or 0.0))
        return plan_for_privacy(n, self.epsilon, self.flip, hypotheses)
