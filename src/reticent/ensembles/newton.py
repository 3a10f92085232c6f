"""Newton's method for many small logistic regressions at once.

Every array has the problem as its first axis, every product is a stack of separate
matrix products, and a problem that has converged is not changed. So the result of one
problem does not depend on the others, to the last bit.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from reticent._arrays import Floats

# Armijo's condition: accept a step that gains this share of what the slope predicts.
_SHARE = 1e-4
_HALVINGS = 40

# Relative to the loss, gains below this are rounding errors and cannot be tested.
_NOISE = 1e-13


@dataclass(frozen=True, slots=True)
class StackedLogisticLoss:
    """Sum of logistic losses plus ``penalty / 2`` times the squared weights.

    Problems are stacked: designs of shape (problems, rows, columns) and targets of
    shape (problems, rows, scores). With one score the target is 0 or 1, with more it
    is the indicator of a label. The last column of a design is the intercept's and
    is not penalised. A row of zeros has no effect.
    """

    penalty: float
    fit_intercept: bool

    def value(self, design: Floats, target: Floats, weights: Floats) -> Floats:
        """Return the loss of each problem; `weights` is (problems, scores, columns)."""
        scores = design @ weights.swapaxes(1, 2)
        if scores.shape[2] == 1:
            signed = np.where(target > 0, scores, -scores)[..., 0]
            losses = np.logaddexp(0, -signed)
        else:
            top = scores.max(axis=2, keepdims=True)
            spread = np.log(np.exp(scores - top).sum(axis=2)) + top[..., 0]
            losses = spread - (scores * target).sum(axis=2)
        squares = (weights[:, :, : self._n_penalised(weights)] ** 2).sum(axis=2)
        return losses.sum(axis=1) + self.penalty / 2 * squares.sum(axis=1)

    def gradient(
        self, design: Floats, target: Floats, weights: Floats
    ) -> tuple[Floats, Floats]:
        """Return gradients, and the predicted shares of the scores in each row."""
        scores = design @ weights.swapaxes(1, 2)
        share = expit(scores) if scores.shape[2] == 1 else softmax(scores, axis=2)
        gradient = (share - target).swapaxes(1, 2) @ design
        n_penalised = self._n_penalised(weights)
        gradient[:, :, :n_penalised] += self.penalty * weights[:, :, :n_penalised]
        return gradient, share

    def hessian(self, design: Floats, share: Floats) -> Floats:
        """Return the matrices of second derivatives, scores outermost."""
        n_problems, n_rows, n_columns = design.shape
        n_scores = share.shape[2]
        hessian = np.empty((n_problems, n_scores, n_columns, n_scores, n_columns))
        for k in range(n_scores):
            for m in range(k, n_scores):
                rest = 1 - share[..., m] if k == m else share[..., m]
                # The product of a matrix with itself takes half the operations.
                root = design * np.sqrt(share[..., k] * rest)[..., None]
                block = root.swapaxes(1, 2) @ root
                hessian[:, k, :, m] = hessian[:, m, :, k] = block if k == m else -block
        penalised = np.full(n_columns, self.penalty)
        if self.fit_intercept:
            penalised[-1] = 0
            # A common shift of all intercepts does not change the loss, and a single
            # intercept whose rows are all far from the border hardly does. The gradient
            # is zero in a flat direction, so curvature added there moves no solution.
            flat = 1e-12 if n_scores == 1 else 1 / n_scores
            hessian[:, :, -1, :, -1] += n_rows * flat
        for k in range(n_scores):
            hessian[:, k, :, k] += np.diag(penalised)
        size = n_scores * n_columns
        return hessian.reshape(n_problems, size, size)

    def _n_penalised(self, weights: Floats) -> int:
        return weights.shape[2] - self.fit_intercept


def minimise(
    loss: StackedLogisticLoss,
    design: Floats,
    target: Floats,
    *,
    tol: float,
    max_iter: int,
) -> Floats:
    """Minimise every problem's loss from zero; return (problems, scores, columns).

    Stops a problem when no entry of its gradient exceeds `tol` per row, when no step
    makes its loss smaller, or after `max_iter` steps.
    """
    n_problems, n_rows, n_columns = design.shape
    result = np.zeros((n_problems, target.shape[2], n_columns))
    active = np.arange(n_problems)
    for _ in range(max_iter):
        gradient, share = loss.gradient(design, target, result[active])
        steep = np.abs(gradient).max(axis=(1, 2)) > tol * n_rows
        if not steep.all():
            active, design, target = active[steep], design[steep], target[steep]
            gradient, share = gradient[steep], share[steep]
        if not len(active):
            break
        flat = gradient.reshape(len(active), -1, 1)
        step = solve_each(loss.hessian(design, share), -flat)
        slope = (flat * step).sum(axis=(1, 2))
        step = step.reshape(gradient.shape)
        moved = _searched(loss, design, target, result[active], step, slope)
        result[active] += moved
        stuck = ~moved.any(axis=(1, 2))
        if stuck.any():
            active, design, target = active[~stuck], design[~stuck], target[~stuck]
    return result


def _searched(
    loss: StackedLogisticLoss,
    design: Floats,
    target: Floats,
    weights: Floats,
    step: Floats,
    slope: Floats,
) -> Floats:
    """Return each step, halved until the loss falls by a share of what the slope says.

    A problem whose matrix could not be solved, or whose loss does not fall, does not
    move.
    """
    start = loss.value(design, target, weights)
    length = np.ones(len(step))
    pending = np.arange(len(step))
    for _ in range(_HALVINGS):
        tried = weights[pending] + length[pending, None, None] * step[pending]
        reached = loss.value(design[pending], target[pending], tried)
        enough = start[pending] + _SHARE * length[pending] * slope[pending]
        noise = _NOISE * (1 + np.abs(start[pending]))
        pending = pending[~(reached <= enough + noise)]
        if not len(pending):
            break
        length[pending] /= 2
    length[pending] = 0
    return np.where(length[:, None, None] > 0, length[:, None, None] * step, 0)


def solve_each(matrices: Floats, right: Floats) -> Floats:
    """Solve a stack of positive definite systems, NaN where one is singular.

    Rows and columns are scaled by powers of two, which rounds nothing, to diagonals
    near one: columns of very different size would look singular otherwise.
    """
    diagonal = np.diagonal(matrices, axis1=1, axis2=2)
    scale = np.ldexp(1.0, -(np.frexp(diagonal)[1] // 2))
    scaled = matrices * scale[:, :, None] * scale[:, None, :]
    target = right * scale[:, :, None]
    try:
        solved = np.linalg.solve(scaled, target)
    except np.linalg.LinAlgError:
        solved = np.full_like(right, np.nan)
        for place in range(len(scaled)):
            with suppress(np.linalg.LinAlgError):
                one = slice(place, place + 1)
                solved[one] = np.linalg.solve(scaled[one], target[one])
    return np.asarray(solved * scale[:, :, None], dtype=np.float64)
