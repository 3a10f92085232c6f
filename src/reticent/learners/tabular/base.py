"""What released models of tables share: fitting them, and scores (L12, L13, L14)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from reticent._arrays import Floats
from reticent._numbers import positive
from reticent._sklearn import (
    Interval,
    MatrixLike,
    StrOptions,
    UnweightedEstimator,
)
from reticent.errors import InvalidParameterError
from reticent.estimators import (
    POSITIVE_OR_AUTO,
    RELATIONS,
    REST_SHARE,
    SPREAD_SHARE,
    TABLE,
    TREE_SHARE,
    CodedColumns,
    ColumnFacts,
    PartitionModel,
    ReleaseExpectation,
    RoundBudget,
    Rounds,
    UnitIds,
    UnitRows,
    fit_release,
    noisy_shares,
    release_signal,
    unit_positions,
    warn_of_clipped,
)
from reticent.guarantees import Certificate, gaussian_to_zcdp
from reticent.learners.tabular.label_weights import weighted
from reticent.learners.tabular.pure import fit_pure
from reticent.mechanisms import RandomSource, UnitFilter, noise_source


@dataclass(eq=False, repr=False)
class PrivateTabular(UnweightedEstimator):
    """What released models of tables share."""

    #: The kind of promise by which many runs are accounted for best.
    run_promise: ClassVar[str] = "gaussian"

    epsilon: float = 1.0
    _: KW_ONLY
    delta: float = 1e-6
    columns: Sequence[ColumnFacts] | None = None
    relation: str = "replace-one"
    signal: float | str = "auto"
    detail: float = 1.0
    interactions: float = TREE_SHARE
    pace: float = 1.0
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "columns": ["array-like", list, tuple, None],
        "relation": [StrOptions(set(RELATIONS))],
        "signal": POSITIVE_OR_AUTO,
        "detail": [Interval(Real, 0, None, closed="neither")],
        "interactions": [Interval(Real, 0, 0.9, closed="both")],
        "pace": [Interval(Real, 0, None, closed="neither")],
    }
    _logistic: ClassVar[bool] = True

    def _release(
        self,
        X: Floats,
        targets: Floats,
        units: UnitIds,
        *,
        n_labels: int,
        labels_from_data: bool,
        label_weights: Floats | str | None = None,
    ) -> None:
        """Learn a model, all of which may be shared."""
        owner = type(self).__name__
        epsilon, delta = positive(owner, "epsilon", self.epsilon), float(self.delta)
        pure = delta == 0
        if pure:
            self._check_pure(len(targets), label_weights)
        else:
            budget = RoundBudget.of(owner, epsilon, delta, str(self.relation))
        columns = CodedColumns.of(self.columns, X.shape[1])
        warn_of_clipped(self.columns, columns, X)
        source = noise_source(self.random_state)
        positions, n_units = unit_positions(units, len(X))
        self.expectation_: ReleaseExpectation | None = None
        if not pure:
            signal = release_signal(n_units, budget)
            self.expectation_ = ReleaseExpectation.of(
                signal / TABLE, labels=n_labels, units=n_units, columns=X.shape[1]
            )
            self.expectation_.warn(epsilon)
        rows = UnitRows.of(columns.encode(X), targets, positions, n_units, source)
        if pure:
            model, certificate = fit_pure(
                rows,
                columns,
                epsilon=epsilon,
                source=source,
                labels_from_data=labels_from_data,
            )
        else:
            model = self._descend(rows, columns, budget, source, label_weights)
            certificate = budget.certificate(
                n=rows.n_units,
                delta=delta,
                scope="model",
                labels_from_data=labels_from_data,
                seeded=source.seeded,
            )
        self.columns_: CodedColumns = columns
        self.model_: PartitionModel = model
        self.certificate_: Certificate[Any] = certificate
        self.n_units_ = rows.n_units
        # Another fit is another release, even of the same numbers: storage names it.
        self.__dict__.pop("identity_", None)
        self._add_up_better(pure)

    def _add_up_better(self, pure: bool) -> None:
        """Keep the certificates that add up better; a pure release has none."""
        for stale in ("gaussian_certificate_", "zcdp_certificate_"):
            self.__dict__.pop(stale, None)
        if not pure:
            self.gaussian_certificate_ = self.certificate_.premises[0]
            self.zcdp_certificate_ = gaussian_to_zcdp(self.gaussian_certificate_)

    def _descend(
        self,
        rows: UnitRows,
        columns: CodedColumns,
        budget: RoundBudget,
        source: RandomSource,
        label_weights: Floats | str | None,
    ) -> PartitionModel:
        """Spend a budget of rounds on the model."""
        rounds = Rounds(budget, UnitFilter(rows.n_units, budget.cap), source)
        rows = weighted(rows, rounds, label_weights)
        shares = noisy_shares(rows, columns, rounds, share=SPREAD_SHARE)
        owner = type(self).__name__
        return fit_release(
            rows,
            columns,
            shares,
            rounds,
            logistic=self._logistic,
            share=REST_SHARE,
            pace=positive(owner, "pace", self.pace),
            signal=self._asked_signal(),
            detail=positive(owner, "detail", self.detail),
            interactions=float(self.interactions),
        )

    def _check_pure(self, n_scores: int, weights: Any) -> None:
        """Refuse what a pure release does not offer."""
        if not self._logistic or n_scores > 1 or weights is not None:
            raise InvalidParameterError(
                f"{type(self).__name__} with delta=0 is for two labels without "
                "class_weight. Give a delta above 0, or use ObjectivePerturbation* "
                "on an encoded table."
            )
        if self.relation != "replace-one":
            raise InvalidParameterError(
                f"{type(self).__name__} with delta=0 certifies replacing one unit; got "
                f"relation={self.relation!r}. Give a delta above 0."
            )

    def settled(self, *, n_units: int, epsilon: float, delta: float) -> dict[str, Any]:
        """Return what "auto" stands for at another price; by public facts.

        A search tries settings at a small price that are meant for a larger one.

        Parameters
        ----------
        n_units : int
            Number of units.
        epsilon, delta : float
            The price.
        """
        if self._asked_signal() is not None:
            return {}
        owner = type(self).__name__
        budget = RoundBudget.of(owner, epsilon, delta, str(self.relation))
        return {"signal": release_signal(n_units, budget)}

    def _asked_signal(self) -> float | None:
        if self.signal == "auto":
            return None
        return positive(type(self).__name__, "signal", self.signal)

    def _checked(self, X: MatrixLike, *, reset: bool) -> Floats:
        if not reset:
            check_is_fitted(self, "model_")
        return np.asarray(
            validate_data(
                self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan"
            )
        )

    def _scores(self, X: MatrixLike) -> Floats:
        """Return the scores of rows, of shape (n_scores, n_rows)."""
        return self.model_.scores(self.columns_.encode(self._checked(X, reset=False)))

    @abstractmethod
    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return one answer per row; free, because the model was paid for."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # the fit draws fresh noise
        tags.input_tags.allow_nan = True
        return tags
