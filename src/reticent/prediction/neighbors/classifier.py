"""Any number of private labels, from the units near a question (P10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import validate_data

from reticent._sklearn import MatrixLike, fit_context
from reticent.estimators import (
    CodedColumns,
    PartitionModel,
    UnitIds,
    UnitRows,
    checked_labels,
)
from reticent.prediction.neighbors.base import FLOATS, LocalPredictor
from reticent.prediction.neighbors.votes import ONE, ManyLabels, TwoLabels, Votes


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateNeighborsClassifier(ClassifierMixin, LocalPredictor):
    r"""Classifier whose answers, however many, are private together.

    Only units near a question contribute to its answer, and each pays for that from a
    budget of its own. A unit whose budget is spent no longer contributes; nobody is
    told, and no question is refused. So local evidence becomes less over time, and
    every answer says how much it had. Where there is little, the released model
    answers.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-6
        What the fit and all answers cost together.
    columns : sequence, default=None
        Public facts, one entry per column: a range ``(low, high)``, a number of levels
        (cells are then 0, 1, 2, ...), or a column of `reticent.schemas`. Numbers
        outside go to the ends of their range. None declares all ranges as (-1, 1).
        `fit` warns with a `ClippedValuesWarning` if that leaves out any value, or a
        declaration most values of its column. It looks at the rows without noise for
        that, so the warning is for you only; nothing of it is kept.
    classes : array-like, default=None
        The public labels. None reads them from `y` and assumes them public.
    relation : {"replace-one", "zero-out"}, default="replace-one"
        Which neighbours the certificate is about.
    questions : int, default=10000
        How many questions the noise is planned for. More may be asked; later answers
        then have less evidence.
    prior : bool, default=True
        Whether a model is released first, from the same budget. Votes are then
        corrected by it, and it answers where evidence is missing.
    local : {"auto", "always", "never"}, default="auto"
        Whether units near a question vote. "auto" lets them if `n_units` times the mu
        of the budget is at least 20,000, if questions look for at most one unit in 500
        (`local_questions` says for how many that is so), and if the mean squared error
        of the prior, which is measured with noise from the same budget, is at least
        0.03. Otherwise a model that is released from nearly the whole budget is better:
        it answers, and the evidence is 0.
    client_share : float, default=1.0
        The share of a unit's budget that questions of one client may use.
    constant_time : bool, default=False
        Whether every question looks at all rows, so that its time reveals nothing.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    certificate_ : Certificate
        What the fit and all answers promise together, however many there are.
    classes_ : ndarray
        The public labels.
    n_units_ : int
        Number of privacy units.
    local_ : bool
        Whether units near a question vote; if not, the released model answers.
    local_reason_ : str
        Why, from public facts and released numbers. Not known of a stored model.
    expectation_ : ReleaseExpectation or None
        What the released model can be worth, from public facts alone. `fit` warns with
        a `NearChanceWarning`, before it draws noise, if that is near chance.

    Guarantee
    ---------
    All that `fit` and `predict` ever release is (`epsilon`, `delta`)-DP. *Proof.* Every
    round is a noisy sum over units. What a unit contributes depends on its own rows, on
    what it has spent itself, and on numbers released before; what shapes a round is
    public or released. A unit contributes only while its own sum of squared norms over
    squared scales stays within its budget, this round included. Contributions and
    noise are whole numbers, and the noise is a rounded Gaussian. G24 does the rest; for
    replacing a unit, rounds whose contributions may point apart cost twice (rule
    G24-rounds). Neighbourhoods are balls: whether a unit is in one depends on no other
    unit.

    Notes
    -----
    The state lives in this process. Fitted models are not pickled. `reticent.storage`
    and a ledger keep the state on disk.

    References
    ----------
    :cite:`FeldmanZrnic2021`; THEOREMS P10.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> model = PrivateNeighborsClassifier(2.0, classes=[0, 1], questions=500)
    >>> print(model.fit(X, y).certificate_.headline())
    (2, 1e-06)-DP for all answers, replace one unit of 3000; proved
    >>> len(model.ask(X[:4]).evidence)
    4
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LocalPredictor._parameter_constraints,
        "classes": ["array-like", None],
    }

    classes: ArrayLike | None = None

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Release what shapes later answers, and keep the rows inside.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers and codes of levels; NaN is a missing value. Floats may lie in a
            file that is mapped into memory: only their codes, two bytes each, are
            kept.
        y : array-like of shape (n_rows,)
            Labels.
        units : array-like of shape (n_rows,), default=None
            The id of the unit that each row belongs to. None makes each row a unit.
        """
        X = validate_data(
            self, X, dtype=FLOATS, ensure_all_finite="allow-nan", reset=True
        )
        labels, y = checked_labels(self.classes, y)
        places = labels.indices(y)
        n_labels = len(labels)
        targets = (places == 1).astype(np.float64)[None]
        if n_labels > 2:
            targets = (places[None] == np.arange(n_labels)[:, None]).astype(np.float64)
        self._fit_law(
            CodedColumns.of(self.columns, X.shape[1]),
            X,
            targets,
            units,
            classes=labels.classes,
            labels_from_data=self.classes is None,
        )
        self.classes_ = labels.classes
        return self

    def _votes(self, rows: UnitRows, model: PartitionModel | None) -> Votes:
        if len(rows.targets) > 1:
            said = rows.targets.argmax(axis=0).astype(np.int16)
            return ManyLabels(said, np.zeros(0, dtype=np.int64), len(rows.targets))
        expected = np.full(len(rows.codes), ONE // 2, dtype=np.int64)
        if model is not None:
            expected = np.rint(model.mean(rows.codes)[0] * ONE).astype(np.int64)
        return TwoLabels(rows.targets[0].astype(np.int8), expected)

    def _usual_vote(self, classes: NDArray[Any] | None) -> dict[str, Any]:
        if classes is not None and len(classes) > 2:
            return {"vote": 1.0, "acute": True}
        return {"vote": 0.5, "acute": False}
