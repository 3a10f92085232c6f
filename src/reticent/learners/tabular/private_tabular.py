"""Released models of tables beyond additive ones: random partitions (L12, L13, L14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin

from reticent._arrays import Floats
from reticent._sklearn import (
    MatrixLike,
    StrOptions,
    fit_context,
)
from reticent.estimators import (
    TargetRange,
    UnitIds,
    check_bounds,
    checked_labels,
    checked_targets,
)
from reticent.guarantees import PureDP
from reticent.learners.tabular.base import PrivateTabular
from reticent.learners.tabular.label_weights import label_weights


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateTabularClassifier(ClassifierMixin, PrivateTabular):
    r"""Classifier of declared columns, released as a sum over parts of the table.

    Give it public facts about the columns and a budget. It divides the rows by single
    columns and by random trees that ask several columns each, all drawn without looking
    at the rows except for a noisy histogram of each numeric column. Then noisy gradient
    descent learns what each part adds to the score. The depth of the trees and the
    length of the steps follow from the number of units and the budget.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-6
        What releasing the model costs. A delta of 0 makes a pure release, for two
        labels: an additive model, and what 50 random trees add to it if there is
        signal for them.
    columns : sequence, default=None
        Public facts, one entry per column: a range ``(low, high)``, a number of levels
        (cells are then 0, 1, 2, ...), or a column of `reticent.schemas`. Numbers
        outside go to the ends of their range. None declares all ranges as (-1, 1).
        `fit` warns with a `ClippedValuesWarning` if that leaves out any value, or a
        declaration most values of its column. It looks at the rows without noise for
        that, so the warning is for you only; nothing of it is kept.
    relation : {"replace-one", "zero-out"}, default="replace-one"
        Which neighbours the certificate is about.
    signal : float or "auto", default="auto"
        The signal that the model is made for, about the number of units times the mu of
        the budget; "auto" takes what there is. Little makes it nearly linear; much
        makes it divide columns finely, and trees ask many questions.
    detail : float, default=1.0
        Above 1 the model is less linear than the rule says, below 1 more.
    interactions : float, default=0.45
        Share of trees, which ask several columns, in what is not linear; at most 0.9.
        0 makes an additive model.
    pace : float, default=1.0
        How long gradients are followed, in terms of what the rule says: more fits the
        rows and the noise more closely. A pure release has none of these settings.
    classes : array-like, default=None
        The public labels. None reads them from `y` and assumes them public.
    class_weight : {"balanced"}, mapping or None, default=None
        Public weights of labels. "balanced" counts the labels, with noise that is part
        of the budget, and makes all of them count the same. Probabilities are then
        those of a table in which labels have these weights.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    model_ : PartitionModel
        The released model.
    certificate_ : Certificate
        (epsilon, delta)-DP of the model.
    gaussian_certificate_, zcdp_certificate_ : Certificate
        The same as Gaussian and as concentrated DP: the better ones to add up. A pure
        release has neither.
    classes_, n_units_
        The labels, and the number of units.
    expectation_ : ReleaseExpectation or None
        What to expect from public facts alone; None for a pure release. `fit` warns
        with a `NearChanceWarning`, before it draws noise, if that is near chance.

    Guarantee
    ---------
    The model, and all noisy sums that led to it, are (`epsilon`, `delta`)-DP. *Proof.*
    Each sum is a round of individual accounting (G24): a unit adds whole numbers that
    depend on its own rows and on released numbers, and takes part only while its own
    sum of squared norms over squared scales stays within its budget. With delta 0, see
    `reticent.learners.tabular.pure.fit_pure`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> model = PrivateTabularClassifier(1.0, classes=[0, 1]).fit(X, y)
    >>> print(model.certificate_.headline())
    (1, 1e-06)-DP for the model, replace one unit of 2000; proved
    """

    classes: ArrayLike | None = None
    class_weight: Mapping[Any, float] | str | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateTabular._parameter_constraints,
        "classes": ["array-like", None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Learn and release the model.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers and codes of levels; NaN is a missing value.
        y : array-like of shape (n_rows,)
            Labels.
        units : array-like of shape (n_rows,), default=None
            The id of the unit that each row belongs to. None makes each row a unit.
        """
        rows = self._checked(X, reset=True)
        labels, y = checked_labels(self.classes, y)
        places = labels.indices(y)
        chosen = [1] if len(labels) == 2 else range(len(labels))
        targets = np.stack([places == label for label in chosen]).astype(np.float64)
        self._release(
            rows,
            targets,
            units,
            n_labels=len(labels),
            labels_from_data=self.classes is None,
            label_weights=label_weights(self.class_weight, labels.classes),
        )
        self.classes_ = labels.classes
        return self

    def predict_proba(self, X: MatrixLike) -> Floats:
        """Return probabilities of the labels, of shape (n_rows, n_labels)."""
        scores = self._scores(X)
        if isinstance(self.certificate_.guarantee, PureDP):
            mean = np.asarray(expit(scores))
        else:
            mean = self.model_.from_scores(scores)
        if len(mean) == 1:
            return np.stack([1 - mean[0], mean[0]], axis=1)
        return np.asarray((mean / mean.sum(axis=0)).T)

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return the most likely label of each row; free, the model was paid for."""
        scores = self._scores(X)
        best = (scores[0] > 0).astype(np.intp) if len(scores) == 1 else scores.argmax(0)
        return np.asarray(self.classes_[best])


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateTabularRegressor(RegressorMixin, PrivateTabular):
    r"""Regressor of declared columns, released as a sum over parts of the table.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-6
        What releasing the model costs.
    bounds : (float, float), default=(0.0, 1.0)
        Public bounds on the target, known without looking at the data. Targets and
        predictions outside are clipped.
    columns, relation, signal, detail, interactions, pace, random_state
        As for `PrivateTabularClassifier`.

    Attributes
    ----------
    model_, certificate_, n_units_, expectation_
        As for `PrivateTabularClassifier`.

    Guarantee
    ---------
    As for `PrivateTabularClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> model = PrivateTabularRegressor(1.0, bounds=(-1, 1)).fit(X, X[:, 0])
    >>> print(model.certificate_.headline())
    (1, 1e-06)-DP for the model, replace one unit of 2000; proved
    """

    bounds: tuple[float, float] = (0.0, 1.0)

    _logistic = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrivateTabular._parameter_constraints,
        "bounds": ["array-like"],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Learn and release the model.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers and codes of levels; NaN is a missing value.
        y : array-like of shape (n_rows,)
            Numbers.
        units : array-like of shape (n_rows,), default=None
            The id of the unit that each row belongs to. None makes each row a unit.
        """
        low, high = check_bounds(self.bounds)
        rows = self._checked(X, reset=True)
        targets = TargetRange(low, high).centred(checked_targets(y))[None]
        self._release(rows, targets, units, n_labels=1, labels_from_data=False)
        self.bounds_ = (low, high)
        return self

    def predict(self, X: MatrixLike) -> Floats:
        """Return one number per row; free, the model was paid for."""
        mean = self.model_.from_scores(self._scores(X)[0])
        return np.asarray(TargetRange(*self.bounds_).restored(mean))
