"""The laws of answers by one linear model: noisy scores, and their signs (P3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from reticent._arrays import Floats
from reticent._sklearn import MatrixLike
from reticent.estimators import needs_no_validation, rows_in_ball
from reticent.mechanisms import GridNoise, Response
from reticent.prediction.bounded_answers import BoundedAnswers
from reticent.prediction.law import AnswerLaw
from reticent.prediction.linear.noisy_sign import noisy_sign


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LinearLaw(AnswerLaw):
    """The law of noisy scores of one linear model."""

    blank: Any  # number and names of the columns of queries, see `blank_of`
    norm_bound: float
    fit_intercept: bool  # how rows become points of the ball
    coefficients: Floats  # The model. Not private.
    noise: GridNoise  # the noise of one score

    def check(self, X: MatrixLike) -> None:
        """Refuse what is not a finite number for each column."""
        self._numbers(X)

    def scores(self, X: MatrixLike) -> Floats:
        """Return the scores before noise: not private."""
        rows = rows_in_ball(self._numbers(X), self.norm_bound, self.fit_intercept)
        return np.asarray(rows @ self.coefficients)

    def _numbers(self, X: MatrixLike) -> Any:
        if needs_no_validation(self.blank, X):
            return X
        return validate_data(self.blank, X, dtype=np.float64, reset=False)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NoisySignLaw(LinearLaw):
    """The law of labels by the sign of a noisy score."""

    reach: float  # public bound on the size of a score

    def response(self, X: MatrixLike) -> Response:
        """Return the exact law of the answers, which is not private."""
        return noisy_sign(self.scores(X), self.noise, reach=self.reach)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NoisyScoreLaw(LinearLaw):
    """The law of numbers by a noisy score."""

    bounds: tuple[float, float]  # public bounds on the target

    def response(self, X: MatrixLike) -> BoundedAnswers:
        """Return the exact law of the answers before clipping: not private."""
        inside = np.clip(self.scores(X), -1.0, 1.0)
        return BoundedAnswers.centred(self.noise.response(inside), self.bounds)
