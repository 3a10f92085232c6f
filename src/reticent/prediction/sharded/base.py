"""What every law over shards shares: the rule, the models, the form of queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from reticent._sklearn import MatrixLike
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators import (
    as_table,
    canonical_table,
    check_column_types,
    needs_no_validation,
)
from reticent.guarantees import (
    PUBLIC_LABELS,
    PUBLIC_PARTS,
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
from reticent.mechanisms import RandomSource
from reticent.prediction.law import AnswerLaw
from reticent.prediction.sharded.accepted_cells import check_numbers


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
    deal and the noise follow from a seed, `frozen` that parts of the base pipeline came
    already fitted, `public_types` that shards see types of columns that their cells do
    not show. Each of these becomes an assumption.
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


PUBLIC_TYPES = Assumption(
    "PUBLIC_TYPES",
    "the types of the table's columns, lists of categories included, are public",
)


@dataclass(frozen=True, eq=False, repr=False)
class TableForm:
    """Which tables of queries a predictor takes: a public fact of its fit."""

    blank: Any  #: number and names of the columns, see `blank_of`
    missing: bool  #: whether values of an array may be missing
    #: Whether every model refuses cells that are not numbers, as its class declares.
    numbers: bool = False

    @classmethod
    def of_matrix(cls, owner: type, n_columns: int) -> TableForm:
        """Return the form of float matrices, in which any value may be missing.

        `owner` is the class of the predictor, which messages name.
        """
        blank: Any = object.__new__(owner)
        blank.n_features_in_ = n_columns
        return cls(blank, missing=True)

    def rows(self, X: MatrixLike) -> MatrixLike:
        """Check the shape of queries; leave their content to the base pipeline."""
        if needs_no_validation(self.blank, X):
            return X
        return checked_table(self.blank, X, self.missing, reset=False)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TrainedShards:
    """The models of all shards, with the public facts that a certificate names.

    `fit` makes it from what it trained, and a stored model from what was stored; both
    make their law from it, so that both have the same law and certificate.
    """

    ensemble: Any  #: The trained models. Not private.
    n_units: int  #: number of privacy units
    source: RandomSource  #: where the randomness of answers comes from
    form: TableForm  #: which queries are taken
    #: The public labels; None if answers are numbers.
    classes: NDArray[Any] | None = None
    labels_from_data: bool = False  #: whether the labels were read from the data
    frozen: bool = False  #: whether parts of the base pipeline came already fitted

    @property
    def n_shards(self) -> int:
        """Number of shards."""
        return int(self.ensemble.n_shards)

    @property
    def n_labels(self) -> int:
        """Number of labels; 1 if answers are numbers."""
        return 1 if self.classes is None else len(self.classes)

    def certified(self, premise: Certificate[Any]) -> Certificate[Any]:
        """Carry a mechanism's promise over to the rows behind the models."""
        return over_shards(
            premise,
            shards=self.n_shards,
            labels_from_data=self.labels_from_data,
            seeded=self.source.seeded,
            frozen=self.frozen,
            public_types=self.ensemble.columns.public_types,
        )

    def shared(self) -> dict[str, Any]:
        """Return what every law over these models holds."""
        return {
            "source": self.source,
            "classes": self.classes,
            "form": self.form,
            "ensemble": self.ensemble,
        }


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ShardLaw(AnswerLaw):
    """A law over models on disjoint shards."""

    form: TableForm  #: which queries are taken
    ensemble: Any  #: The trained models. Not private.

    def check(self, X: MatrixLike) -> None:
        """Refuse queries with other columns, or with cells that no model takes.

        The number and the names of columns are those that the fit saw. What cells may
        hold follows from the class of the base estimator, where that says so: the
        types that the fit saw do not count, because one record can change them.
        """
        rows = self.ensemble.columns.read(self.form.rows(X))
        if self.form.numbers:
            check_numbers(rows, missing=self.form.missing)

    @property
    def n_shards(self) -> int:
        """Number of shards."""
        return int(self.ensemble.n_shards)

    def votes(self, X: MatrixLike) -> NDArray[np.int64]:
        """Count the shards that vote for each label: not private.

        The columns are in the order of `classes`.

        Raises
        ------
        InvalidParameterError
            If the models predict numbers: those have no votes.
        """
        if self.classes is None:
            raise InvalidParameterError(
                "models that answer with numbers have no votes."
            )
        return np.asarray(self.ensemble.votes(self.form.rows(X)))

    def certified(self, premise: Certificate[Any]) -> Certificate[Any]:
        """Carry another mechanism's promise over to the rows behind these models.

        The shards, and what is assumed of them, are those of this law.
        """
        facts: dict[str, Any] = dict(self.certificate.details)
        return over_shards(premise, **facts)


def checked_table(
    model: Any, X: MatrixLike, missing: bool, *, reset: bool, public_types: bool = False
) -> MatrixLike:
    """Check the shape of a table, and that the numbers of an array are finite.

    With `reset` the types of its columns are checked too; queries are read as the
    columns say.
    """
    X = as_table(X)
    if isinstance(X, np.ndarray) and X.dtype.kind == "O":
        X = canonical_table(X)  # numbers in a list are checked as numbers
    if reset:
        check_column_types(X, public_types=public_types)
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
