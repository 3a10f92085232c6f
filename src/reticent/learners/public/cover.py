"""Releases a classifier with the help of public unlabelled points (L4)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from reticent._numbers import real
from reticent._sklearn import Interval, MatrixLike, StrOptions, fit_context
from reticent.errors import InvalidParameterError
from reticent.estimators import UnitIds
from reticent.hypotheses import HypothesisClass, cover_of
from reticent.learners.public.points import check_public, first_rows
from reticent.learners.selection.candidates import (
    SELECTIONS,
    ListedCandidates,
    select,
)
from reticent.learners.selection.exponential import CandidateClassifier
from reticent.mechanisms import noise_source


@dataclass(eq=False, repr=False)
class PublicCoverClassifier(CandidateClassifier):
    r"""Private classifier over the labelings of public unlabelled points.

    Infinite classes, such as thresholds on the line, have no private learner that
    works for every distribution. With unlabelled points from a public population close
    to the private one there is such a learner: one hypothesis for each labeling of
    these points represents the class, and the exponential mechanism chooses among them.

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class, from `reticent.hypotheses`.
    epsilon : float, default=1.0
        Privacy cost of the released model.
    radius : float, default=0.0
        Keep hypotheses so that every labeling differs from that of a kept one on at
        most this share of the public points. 0 keeps one for each labeling; a larger
        radius gives fewer candidates, hence less noise, and adds up to `radius` error.
    n_public : int or None, default=None
        Number of public rows that are used, the first ones; None uses all. A plan sets
        it, because its error bound holds for this number.
    penalty, selection, classes, random_state
        As for `ExponentialMechanismClassifier`; a `penalty` is a function of a
        hypothesis.

    Attributes
    ----------
    hypothesis_, certificate_, n_candidates_, classes_, n_units_
        As for `ExponentialMechanismClassifier`.

    Guarantee
    ---------
    As for `ExponentialMechanismClassifier`: the cover is a function of the public
    points. Functions or a class of your own make it conditional (ROWWISE_QUERIES).
    Private rows may come from a different distribution; this costs accuracy,
    not privacy. The points must be public: points taken from the private rows void the
    certificate.

    References
    ----------
    :cite:`WangLeiFienberg2016`, Ex. 7; THEOREMS L4.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent.hypotheses import Thresholds
    >>> public = np.linspace(-1, 1, 50)[:, None]
    >>> X = np.linspace(-1, 1, 900)[:, None]
    >>> model = PublicCoverClassifier(Thresholds(), epsilon=1.0, classes=[False, True])
    >>> model = model.fit(X, X[:, 0] > 0.2, public=public)
    >>> model.n_candidates_
    51
    """

    hypotheses: Any
    epsilon: float = 1.0
    _: KW_ONLY
    radius: float = 0.0
    n_public: int | None = None
    penalty: Any = None
    selection: str = "exponential"
    classes: ArrayLike | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hypotheses": [HypothesisClass],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "radius": [Interval(Real, 0, 1, closed="left")],
        "n_public": [Interval(Integral, 1, None, closed="left"), None],
        "penalty": [callable, None],
        "selection": [StrOptions(set(SELECTIONS))],
        "classes": ["array-like", None],
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
        """Draw and release one hypothesis of the public points' cover.

        Parameters
        ----------
        X, y, units
            Private data, as for `ExponentialMechanismClassifier`.
        public : array-like of shape (n_public, n_features)
            Public unlabelled rows; required.
        """
        check_public("PublicCoverClassifier", public, X)
        rows = self._rows(X, reset=True)
        candidates, examples, labels, law = self._law(rows, y, units, public)
        source = noise_source(self.random_state)
        self.certificate_ = self._certificate(
            examples, self.epsilon, self.selection, candidates.count, source.seeded
        )
        self._release(candidates, law, source, examples, labels)
        return self

    def candidates(self, public: MatrixLike) -> ListedCandidates:
        """Return the cover that these public points give."""
        radius = real("PublicCoverClassifier", "radius", self.radius)
        if not 0 <= radius < 1:
            raise InvalidParameterError(f"radius={radius!r} must be in [0, 1).")
        given = first_rows("PublicCoverClassifier", np.asarray(public), self.n_public)
        columns = 1 if given.ndim == 1 else int(given.shape[-1])
        projection = self.hypotheses.on(columns).project(given)
        kept = cover_of(projection, radius) if radius > 0 else None
        return ListedCandidates(projection, kept)

    def response(
        self,
        X: MatrixLike,
        y: MatrixLike,
        units: UnitIds = None,
        *,
        public: MatrixLike | None = None,
    ) -> Any:
        """Return the exact law of what `fit` would release; as secret as the data."""
        check_public("PublicCoverClassifier", public, X)
        return self._law(self._rows(X, reset=False), y, units, public)[-1]

    def _law(self, rows: Any, y: Any, units: UnitIds, public: Any) -> Any:
        candidates = self.candidates(public)
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
