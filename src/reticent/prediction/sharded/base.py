"""What every predictor over shards shares: rows, labels, and the fit itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import (
    validate_data,
)

from reticent._sklearn import MatrixLike
from reticent.errors import InvalidDataError
from reticent.estimators import (
    as_table,
    canonical_table,
    check_column_types,
    needs_no_validation,
    partition_rows,
    unit_positions,
)
from reticent.guarantees import (
    PUBLIC_LABELS,
    SEEDED_NOISE,
    ZCDP,
    ApproxDP,
    Assumption,
    BoundedRange,
    Certificate,
    Conclusion,
    PureDP,
    Sensitivity,
    rule,
)
from reticent.mechanisms import RandomSource, noise_source
from reticent.prediction.law import AnswerLaw, LawfulPredictor, blank_of
from reticent.prediction.sharded.counts import ShardChoice, choose_shards


@rule(
    "P1",
    name="models on disjoint shards",
    statement="units are dealt to shards by position alone, so one replaced unit "
    "retrains one model",
    source="S1 Thm 4.1",
    takes=(PureDP, BoundedRange, ApproxDP, ZCDP, Sensitivity),
    gives=(PureDP, BoundedRange, ApproxDP, ZCDP, Sensitivity),
    same_kind=True,
    later=("public_types",),
)
def over_shards(
    premise: Certificate[Any],
    *,
    shards: int,
    labels_from_data: bool,
    seeded: bool,
    frozen: bool = False,
    public_types: bool = False,
) -> Conclusion[Any]:
    """Carry a mechanism's promise over to the rows behind its voters.

    `labels_from_data` says that the labels were read from the data, `seeded` that the
    deal and the noise follow from a seed, `frozen` that parts of the base pipeline
    came fitted, `public_types` that shards see types of columns that their cells do
    not show; each is an assumption then.
    """
    return Conclusion(
        premise.guarantee,
        premise.relation,
        premise.scope,
        Assumption.collect(
            (PUBLIC_LABELS, labels_from_data),
            (SEEDED_NOISE, seeded),
            (PUBLIC_PARTS, frozen),
            (PUBLIC_TYPES, public_types),
        ),
    )


PUBLIC_PARTS = Assumption(
    "PUBLIC_PARTS",
    "the parts of the pipeline that keep what they learned when cloned learned it "
    "from public data",
)
PUBLIC_TYPES = Assumption(
    "PUBLIC_TYPES",
    "the types of the table's columns, lists of categories included, are public",
)


def keeps_what_it_learned(estimator: Any) -> bool:
    """Whether a clone of `estimator`, or of a part, is not a blank one.

    Frozen estimators carry their fitted state into every shard; if it was learned
    from the sensitive rows, one of them touches all shards.
    """
    nested = (
        estimator.get_params(deep=True).values()
        if hasattr(estimator, "get_params")
        else ()
    )
    plain = BaseEstimator.__sklearn_clone__
    return any(
        getattr(type(part), "__sklearn_clone__", plain) is not plain
        for part in (estimator, *nested)
        if not isinstance(part, type)
    )


@dataclass(frozen=True, eq=False, repr=False)
class TableForm:
    """Which tables of queries a predictor over shards takes: a public fact of its fit.

    Attributes
    ----------
    blank : object
        Number and names of the columns, see `blank_of`.
    missing : bool
        Whether values of an array may be missing.
    """

    blank: Any
    missing: bool

    def rows(self, X: MatrixLike) -> MatrixLike:
        """Check the shape of queries; leave their content to the base pipeline."""
        if needs_no_validation(self.blank, X):
            return X
        return _checked_table(self.blank, X, self.missing, reset=False)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ShardLaw(AnswerLaw):
    """A law over models on disjoint shards.

    Attributes
    ----------
    form : TableForm
        Which queries are taken.
    ensemble : ClassifierEnsemble or RegressorEnsemble
        The trained models. Not private.
    """

    form: TableForm
    ensemble: Any

    def votes(self, X: MatrixLike) -> NDArray[np.int64]:
        """Count the shards that vote for each label: not private."""
        return np.asarray(self.ensemble.votes(self.form.rows(X)))


class ShardedPredictor(LawfulPredictor):
    """Common parts of predictors that train one model a shard.

    Subclasses set the constructor parameters `estimator`, `epsilon`, `n_shards`,
    `public_types`, `random_state`, `n_jobs` and `verbose`.

    Guarantee
    ---------
    What a shard's model is, and what it says to a query, is a function of the shard's
    rows and of public facts, to the bit. Public are the parameters, the number of
    rows and units, the kind of container (array, sparse matrix, frame of pandas or
    polars), the number of columns, their names and order; types are read off each
    shard's own cells (`reticent.estimators.tables`). Whether a query is refused is a
    function of the query and of public facts.
    """

    def _deal(
        self, X: MatrixLike, units: Any, n_labels: int, epsilon: float
    ) -> tuple[Any, RandomSource, ShardChoice]:
        """Deal the units of `X` to shards; return the partition and its source."""
        source = noise_source(self.random_state)
        n_rows = X.shape[0]
        _, n_units = unit_positions(units, n_rows)
        choice = self._choose(n_units, n_labels, epsilon)
        partition = partition_rows(n_rows, choice.n_shards, source, units=units)
        return partition, source, choice

    def _choose(self, n_units: int, n_labels: int, epsilon: float) -> ShardChoice:
        return choose_shards(
            self.n_shards,
            n_units=n_units,
            n_labels=n_labels,
            epsilon=epsilon,
            estimator=self.estimator,
        )

    def _rows(self, X: MatrixLike, *, reset: bool) -> MatrixLike:
        """Check the shape of rows; leave their content to the base pipeline.

        Numbers in arrays must be finite unless the base estimator takes missing
        values; what is inside a data frame is for its pipeline to judge.
        """
        X = _checked_table(self, X, _takes_missing(self.estimator), reset=reset)
        if reset:
            check_column_types(X, public_types=bool(self.public_types))
        return X

    def _form(self) -> TableForm:
        """Return which queries are taken, as the rows of the fit were."""
        return TableForm(blank_of(self), _takes_missing(self.estimator))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every answer draws fresh noise
        # A blank, which checks the columns of queries, has no estimator.
        tags.input_tags.allow_nan = _takes_missing(getattr(self, "estimator", None))
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        return tags


def _checked_table(
    model: Any, X: MatrixLike, missing: bool, *, reset: bool
) -> MatrixLike:
    X = as_table(X)
    if isinstance(X, np.ndarray) and X.dtype.kind == "O":
        X = canonical_table(X)  # numbers in a list are checked as numbers
    if hasattr(X, "columns"):
        validate_data(model, X, skip_check_array=True, reset=reset)
        if X.shape[0] < 1:
            raise InvalidDataError("Found array with 0 sample(s); one is needed.")
        return X
    with np.errstate(all="ignore"):  # sums that overflow while being checked
        return validate_data(
            model,
            X,
            accept_sparse="csr",
            dtype=None,
            ensure_all_finite="allow-nan" if missing else True,
            reset=reset,
        )


def _takes_missing(estimator: Any) -> bool:
    try:
        return bool(get_tags(estimator).input_tags.allow_nan)
    except (AttributeError, TypeError, ValueError):
        return True
