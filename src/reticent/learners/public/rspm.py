"""Releases a minimiser under noise on a set that identifies all hypotheses (M5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from reticent._sklearn import MatrixLike, fit_context
from reticent.errors import InvalidParameterError
from reticent.estimators import UnitIds
from reticent.hypotheses import HypothesisClass
from reticent.learners.public.rrspm import SeparatorClassifier
from reticent.learners.public.teaching_sets import identification_set
from reticent.learners.selection.candidates import refuse_training_rows


@dataclass(eq=False, repr=False, kw_only=True)
class RSPMClassifier(SeparatorClassifier):
    r"""Private classifier from an oracle and a universal identification set.

    Like `RRSPMClassifier`, but instead of public rows it uses points that distinguish
    all hypotheses of the class. Labels of these points identify the minimiser, so that
    it is released itself; no public data are needed. Such sets exist for finite classes
    and on finite domains (see `identification_set`).

    Parameters
    ----------
    hypotheses : HypothesisClass
        The class, from `reticent.hypotheses`.
    epsilon, delta, noise, scale_by, slack, classes, random_state
        As for `RRSPMClassifier`.
    points : array-like of shape (n_points, n_features), default=None
        The identification set; never the data.
    domain : array-like of shape (n_points, n_features), default=None
        All possible rows; a set is chosen from them if `points` are not given. None
        takes the domain of a `FiniteClass.from_table`.

    Attributes
    ----------
    hypothesis_, certificate_, points_, labels_, noise_scale_, classes_, n_units_
        As for `RRSPMClassifier`.

    Guarantee
    ---------
    As for `RRSPMClassifier`. It holds for any `points`, and for rows outside the
    `domain`; a set that does not identify hypotheses costs accuracy, not privacy.

    References
    ----------
    :cite:`NeelRothWu2019`; :cite:`BlockEtAl2024`, Alg. 5; THEOREMS M5.

    Examples
    --------
    >>> import numpy as np
    >>> from itertools import product
    >>> from reticent.hypotheses import Conjunctions
    >>> cube = np.array(list(product([0, 1], repeat=3)))
    >>> X = np.tile(cube, (250, 1))
    >>> model = RSPMClassifier(
    ...     Conjunctions(negations=False, method="enumerate"),
    ...     domain=cube,
    ...     classes=[False, True],
    ... ).fit(X, (X[:, 0] == 1) & (X[:, 2] == 1))
    >>> model.hypothesis_, len(model.points_)
    (Conjunction(positive=(0, 2), negated=()), 3)
    """

    points: ArrayLike | None = None
    domain: ArrayLike | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SeparatorClassifier._parameter_constraints,
        "hypotheses": [HypothesisClass],
        "points": ["array-like", None],
        "domain": ["array-like", None],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Release the minimiser; parameters as for other releases."""
        refuse_training_rows("points", self.points, X)
        refuse_training_rows("domain", self.domain, X)
        if not isinstance(self.hypotheses, HypothesisClass):
            raise InvalidParameterError(
                f"hypotheses={self.hypotheses!r} must be a class of "
                "reticent.hypotheses, such as Thresholds()."
            )
        if self.points is not None and self.domain is not None:
            raise InvalidParameterError("give one of points and domain; got both.")
        points: Any = self.points
        if points is None:
            points = identification_set(self.hypotheses, self.domain)
        return self._release(X, y, units, points)
