"""Classifiers that are decoded from a few of their examples (R1)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from reticent._arrays import Bools, Ints
from reticent._sklearn import (
    Interval,
    MatrixLike,
    StrOptions,
    UnweightedEstimator,
    fit_context,
)
from reticent._text import one_of
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators import UnitIds, check_label_type, unit_positions
from reticent.generalization.compression.boosting import BoostingScheme
from reticent.generalization.compression.kept_examples import (
    KeptExamples,
    canonical_order,
)
from reticent.generalization.compression.perceptron import PerceptronScheme
from reticent.generalization.compression.rectangle import RectangleScheme
from reticent.generalization.compression.refitting import SubsampleScheme, SVMScheme
from reticent.generalization.compression.rules import (
    kept_error,
    kept_examples,
    kept_to_robust,
)
from reticent.generalization.compression.scheme import (
    Candidate,
    LabelledRows,
    Labelling,
    Scheme,
)
from reticent.generalization.compression.side_information import BitReader, width
from reticent.generalization.compression.threshold_interval import (
    IntervalScheme,
    ThresholdScheme,
)
from reticent.generalization.confidence import failure_of
from reticent.guarantees import Certificate, RobustGeneralization
from reticent.mechanisms import noise_source

_SCHEMES: dict[str, type[Scheme]] = {
    "threshold": ThresholdScheme,
    "interval": IntervalScheme,
    "rectangle": RectangleScheme,
    "perceptron": PerceptronScheme,
    "svm": SVMScheme,
    "boosting": BoostingScheme,
    "subsample": SubsampleScheme,
}


@dataclass(eq=False, repr=False)
class CompressionClassifier(ClassifierMixin, UnweightedEstimator):
    """A classifier that is decoded from a few of its training examples.

    Its predictions are a function of the kept examples and of counted side information,
    so anything that is computed from it overfits by at most its certificate. It is
    *not* private: the kept examples are training records, and anybody who has the model
    can find them.

    Parameters
    ----------
    scheme : str or Scheme, default="boosting"
        How examples are chosen and decoded: "threshold", "interval", "rectangle",
        "perceptron", "svm", "boosting" or "subsample". A name stands for the scheme
        with its default parameters, for example ``BoostingScheme()``.
    max_kept : int or None, default=None
        The largest number of examples to keep, below the scheme's own limit.
    minimise : {"error", "bound"}, default="error"
        Which of the scheme's candidates to take: the one with the fewest mistakes on
        the training data, or the one with the smallest certified error (training error
        plus bound). The certificate holds for both.
    confidence : float, default=0.95
        Probability, over the sample, that the certified bound holds.
    report_error : bool, default=True
        Whether to publish the training error. The kept examples do not determine it, so
        the certificate counts it as an answer; without it the bound is smaller.
    classes : array-like or None, default=None
        The public list of labels. None reads it from `y`, and the certificate assumes
        that it is public.
    random_state : None, int, RandomState or Generator, default=None
        For schemes that draw examples. No secret depends on it, so a seed does not
        weaken the certificate.

    Attributes
    ----------
    kept_ : KeptExamples
        What was kept; `decode` needs nothing else.
    certificate_ : Certificate
        Robust generalization of everything that is computed from the model.
    training_error_ : float
        Share of mistakes on the training data (a unit with several rows counts once),
        rounded up to a multiple of ``1/n_units_``. Only with `report_error`.
    error_at_most_ : float
        Training error plus bound: the error on new data, with the given confidence.
        Only with `report_error`.
    classes_ : ndarray
        The labels.
    n_units_ : int
        Number of independent units.
    n_features_in_ : int
        Number of features.

    Guarantee
    ---------
    With probability `confidence` over a sample of independent units, every function
    ``h`` with values in [0, 1] that is chosen after seeing the model, the kept examples
    and their positions satisfies ``|h(S) - h(D)| <= certificate_.guarantee.epsilon``,
    by rule R1, where the proof is. The code cannot check these conditions: the rows are
    a sample; parameters were fixed before looking at it (use an `AdaptiveSession` to
    try several sets of parameters: it counts them); and preprocessing of the rows
    before `fit`, such as scaling, did not depend on them. Put scalers inside the weak
    learner, as a pipeline. With an estimator or a scheme of your own the certificate is
    conditional (FIXED_DECODER): one that was fitted on the rows before would know all
    of them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CompressionClassifier("threshold", classes=[False, True])
    >>> model = model.fit(X[:, 2:3], y == 0)
    >>> len(model.kept_), model.training_error_
    (1, 0.0)
    >>> print(model.certificate_.guarantee)
    (0.223844, 0.05)-robust generalization
    >>> again = model.decode(model.kept_)
    >>> bool((again.predict(X[:, 2:3]) == model.predict(X[:, 2:3])).all())
    True
    """

    scheme: str | Scheme = "boosting"
    _: KW_ONLY
    max_kept: int | None = None
    minimise: str = "error"
    confidence: float = 0.95
    report_error: bool = True
    classes: ArrayLike | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "scheme": [StrOptions(set(_SCHEMES)), Scheme],
        "max_kept": [Interval(Integral, 1, None, closed="left"), None],
        "minimise": [StrOptions({"error", "bound"})],
        "confidence": [Interval(Real, 0, 1, closed="neither")],
        "report_error": ["boolean"],
        "classes": ["array-like", None],
        "random_state": ["random_state", np.random.Generator],
    }

    kept_: KeptExamples = field(init=False)
    certificate_: Certificate[RobustGeneralization] = field(init=False)

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Choose examples to keep, decode the model from them, issue the certificate.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,)
            Labels.
        units : array-like of shape (n_rows,), default=None
            Which independent unit each row belongs to; None makes each row one.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_label_type(y)
        scheme = self._scheme()
        self.classes_ = self._classes(scheme, y)
        positions, self.n_units_ = unit_positions(units, len(y))
        data = LabelledRows(X + 0.0, self._places(y), len(self.classes_))
        most = self.most_kept(*X.shape)
        candidates = scheme.compress(data, most, noise_source(self.random_state))
        best = min(candidates, key=lambda candidate: self._rank(candidate, most, data))
        rows, side = best.finish()
        self.kept_ = KeptExamples(data.X[rows], y[rows], side, rows)
        self._labelling = self._decoded(scheme, self.kept_)
        self.certificate_ = kept_to_robust(
            kept_examples(
                scheme=type(scheme).__name__,
                kept=len(rows),
                n=self.n_units_,
                rows=len(y),
                side_bits=len(side),
                sizes=scheme.sizes(most),
                reports=self._reports(self.n_units_),
                labels_from_data=self.classes is None,
                own_decoder=_is_own(scheme),
            ),
            beta=failure_of(self.confidence),
        )
        if self.report_error:
            self._report(self._labelling(data.X) != data.y, positions)
        return self

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return the decoded hypothesis' label for each row."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self.classes_[self._labelling(X + 0.0)]

    def decode(self, kept: KeptExamples) -> DecodedHypothesis:
        """Rebuild a hypothesis from kept examples, in any order, and their side bits.

        Works before `fit` if `classes` is given. Parameters must be those of the
        encoder.
        """
        if self.classes is None:
            check_is_fitted(self)
            classes = self.classes_
        else:
            classes = np.unique(self.classes)
        labelling = self._decoded(self._scheme(), kept, classes)
        return DecodedHypothesis(classes, labelling, kept.X.shape[1])

    def most_kept(self, n_rows: int, n_features: int) -> int:
        """Return how many examples may be kept, from public numbers alone."""
        scheme = self._scheme()
        natural = scheme.most(n_rows, n_features)
        if self.max_kept is None:
            return natural
        if not (isinstance(self.max_kept, Integral) and self.max_kept >= 1):
            raise InvalidParameterError(
                f"max_kept={self.max_kept!r} must be a whole number of at least 1."
            )
        return scheme.lower_most(natural, int(self.max_kept))

    def most_bits(self, n_rows: int, n_features: int, n_units: int) -> int:
        """Return the bits that side information and reports take, at most."""
        bits = self._scheme().most_bits(self.most_kept(n_rows, n_features))
        return bits + width(self._reports(n_units))

    def _reports(self, n_units: int) -> int:
        """Count the values that the training error could have."""
        return n_units + 1 if self.report_error else 1

    def _report(self, wrong: Bools, positions: Ints) -> None:
        """Publish the training error, as one of ``n_units_ + 1`` values."""
        shares = np.bincount(positions, wrong) / np.bincount(positions)
        # A sum of shares 0 and 1 is exact; other sums may be too large by rounding.
        mistakes = int(np.ceil(shares.sum() * (1 - 1e-12)))
        self.training_error_ = mistakes / self.n_units_
        bound = self.certificate_.guarantee.epsilon
        self.error_at_most_ = min(1.0, self.training_error_ + bound)

    def _scheme(self) -> Scheme:
        if isinstance(self.scheme, Scheme):
            scheme: Scheme = clone(self.scheme)
        elif self.scheme in _SCHEMES:
            scheme = _SCHEMES[self.scheme]()
        else:
            raise InvalidParameterError(
                f"scheme={self.scheme!r} is unknown; choose one of "
                f"{', '.join(sorted(_SCHEMES))} or a Scheme."
            )
        scheme.check()
        return scheme

    def _classes(self, scheme: Scheme, y: NDArray[Any]) -> NDArray[Any]:
        classes = np.unique(y if self.classes is None else self.classes)
        if not np.isin(y, classes).all():
            raise InvalidDataError("y has labels that are not in `classes`.")
        if len(classes) < 2:
            raise InvalidDataError(
                "CompressionClassifier needs at least two classes; got one class. Name "
                "the others in `classes`."
            )
        if scheme.binary_only and len(classes) > 2:
            raise InvalidDataError(
                "Only binary classification is supported. The type of the target is "
                f"multiclass; {type(scheme).__name__} has two labels. Use scheme="
                "'boosting', 'svm' or 'subsample' for more."
            )
        return classes

    def _places(self, y: NDArray[Any]) -> Ints:
        return np.searchsorted(self.classes_, y).astype(np.int64)

    def _rank(
        self, candidate: Candidate, most: int, data: LabelledRows
    ) -> tuple[Any, ...]:
        """Order candidates: what to minimise first, then the shorter description."""
        size = (candidate.n_kept, candidate.n_bits)
        if one_of("minimise", self.minimise, "error", "bound") == "error":
            return (candidate.mistakes, *size)
        bound = kept_error(
            kept=candidate.n_kept,
            side_bits=candidate.n_bits + width(self._reports(self.n_units_)),
            sizes=self._scheme().sizes(most),
            n=self.n_units_,
            beta=failure_of(self.confidence),
        )
        return (candidate.mistakes / len(data) + bound, *size)

    def _decoded(
        self, scheme: Scheme, kept: KeptExamples, classes: NDArray[Any] | None = None
    ) -> Labelling:
        classes = self.classes_ if classes is None else classes
        if not np.isin(kept.y, classes).all():
            raise InvalidDataError("the kept examples have labels outside `classes`.")
        X = check_array(kept.X, dtype=np.float64, ensure_min_samples=0) + 0.0
        y = np.searchsorted(classes, kept.y).astype(np.int64)
        order = canonical_order(X, y)
        reader = BitReader(kept.side)
        labelling = scheme.decode(
            LabelledRows(X[order], y[order], len(classes)), reader
        )
        reader.finish()
        return labelling

    def __getstate__(self) -> dict[str, Any]:
        # Only the kept examples are saved; the labelling is decoded again.
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_labelling", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "kept_" in self.__dict__:
            self._labelling = self._decoded(self._scheme(), self.kept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        scheme = _SCHEMES.get(str(self.scheme), self.scheme)
        tags.classifier_tags.multi_class = not getattr(scheme, "binary_only", False)
        # A rule about one feature cannot score well on scikit-learn's test data.
        tags.classifier_tags.poor_score = getattr(scheme, "one_feature", False)
        return tags


def _is_own(scheme: Scheme) -> bool:
    """Whether the caller gave the code that decodes, which may know the data."""
    given = getattr(scheme, "estimator", None) is not None
    return given or type(scheme) not in _SCHEMES.values()


class DecodedHypothesis:
    """A hypothesis that was rebuilt from kept examples alone.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    """

    def __init__(
        self, classes: NDArray[Any], labelling: Labelling, n_features: int
    ) -> None:
        self.classes_ = classes
        self._labelling = labelling
        self._n_features = n_features

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return the label of each row."""
        X = check_array(X, dtype=np.float64)
        if X.shape[1] != self._n_features:
            raise InvalidDataError(
                f"X has {X.shape[1]} features; the kept examples have "
                f"{self._n_features}."
            )
        return self.classes_[self._labelling(X + 0.0)]
