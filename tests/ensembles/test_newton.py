"""Newton's method on stacks of problems: optima, whatever the scale of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from reticent.ensembles.newton import StackedLogisticLoss, minimise, solve_each


def stacked(seed, *, n_scores, n_problems=30, n_rows=40, heavy=False):
    rng = np.random.default_rng(seed)
    draw = rng.standard_cauchy if heavy else rng.normal
    design = draw(size=(n_problems, n_rows, 4))
    design[:, :, -1] = 1
    if n_scores == 1:
        target = rng.integers(0, 2, size=(n_problems, n_rows, 1)).astype(float)
    else:
        label = rng.integers(0, n_scores, size=(n_problems, n_rows, 1))
        target = (label == np.arange(n_scores)).astype(float)
    return design, target


@pytest.mark.parametrize("n_scores", [1, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_derivatives_are_those_of_the_loss(n_scores, fit_intercept, seed):
    design, target = stacked(seed, n_scores=n_scores, n_problems=1)
    loss = StackedLogisticLoss(penalty=0.7, fit_intercept=fit_intercept)
    weights = np.random.default_rng(seed).normal(size=(1, n_scores, 4))

    def at(flat):
        return loss.value(design, target, flat.reshape(weights.shape))[0]

    def slope(flat):
        return loss.gradient(design, target, flat.reshape(weights.shape))[0].ravel()

    gradient, share = loss.gradient(design, target, weights)
    assert np.allclose(approx_fprime(weights.ravel(), at), gradient.ravel(), atol=1e-4)
    hessian = loss.hessian(design, share)[0]
    if fit_intercept:  # without the curvature that is lent to flat directions
        lent = 40 * (1e-12 if n_scores == 1 else 1 / n_scores)
        hessian[np.ix_([3, 7, 11][:n_scores], [3, 7, 11][:n_scores])] -= lent
    expected = approx_fprime(weights.ravel(), slope)
    assert np.allclose(expected, hessian, atol=1e-4)


@pytest.mark.parametrize("n_scores", [1, 3])
@pytest.mark.parametrize("heavy", [False, True], ids=["normal", "heavy"])
@pytest.mark.parametrize("penalty", [1.0, 1e-4])
def test_every_problem_reaches_its_optimum(n_scores, heavy, penalty, seed):
    design, target = stacked(seed, n_scores=n_scores, heavy=heavy)
    loss = StackedLogisticLoss(penalty=penalty, fit_intercept=True)
    weights = minimise(loss, design, target, tol=1e-9, max_iter=200)
    gradient, _ = loss.gradient(design, target, weights)
    assert np.abs(gradient).max() <= 1e-9 * 40
    assert np.abs(weights[:, :, -1].sum(axis=1)).max() < 1e-6 or n_scores == 1


def rugged(seed):
    """Return four rows of three columns, on which full steps often overshoot."""
    rng = np.random.default_rng(seed)
    size = (3000, 4, 3)
    design = np.exp(3 * rng.normal(size=size)) * rng.choice([-1, 1], size=size)
    design[:, :, -1] = 1
    return design, rng.integers(0, 2, size=(3000, 4, 1)).astype(float)


def test_problems_on_which_full_steps_overshoot_reach_their_optimum(seed):
    design, target = rugged(seed)
    loss = StackedLogisticLoss(penalty=0.01, fit_intercept=True)
    weights = np.zeros((3000, 1, 3))
    overshot = np.zeros(3000, dtype=bool)
    for _ in range(8):
        gradient, share = loss.gradient(design, target, weights)
        step = solve_each(loss.hessian(design, share), -gradient.swapaxes(1, 2))
        further = weights + step.swapaxes(1, 2)
        before = loss.value(design, target, weights)
        overshot |= loss.value(design, target, further) > before + 1e-3
        weights = np.where(overshot[:, None, None], weights, further)
    assert overshot.any()
    solved = minimise(loss, design, target, tol=1e-7, max_iter=200)
    gradient, _ = loss.gradient(design, target, solved)
    mixed = (target.sum(axis=1) % 4 != 0)[:, 0]  # both labels present
    assert np.abs(gradient[mixed & overshot]).max() <= 1e-7 * 4


def test_a_singular_system_leaves_the_others_alone():
    regular = np.array([[4.0, 1.0], [1.0, 3.0]])
    stack = np.stack([regular, np.ones((2, 2)), regular * 1e200, np.zeros((2, 2))])
    right = np.ones((4, 2, 1))
    solved = solve_each(stack, right)
    assert np.isnan(solved[[1, 3]]).all()
    assert np.array_equal(solved[0], np.linalg.solve(regular, right[0]))
    assert np.allclose(solved[2] * 1e200, solved[0], rtol=1e-12)


def test_columns_of_very_different_size_are_solved(seed):
    design, target = stacked(seed, n_scores=1)
    design *= [1e-9, 1.0, 1e9, 1.0]
    loss = StackedLogisticLoss(penalty=1e-3, fit_intercept=True)
    weights = minimise(loss, design, target, tol=1e-9, max_iter=200)
    gradient, _ = loss.gradient(design, target, weights)
    assert (np.abs(gradient) / np.abs(design).max(axis=(0, 1))).max() <= 1e-6


def test_a_stack_is_solved_as_its_problems_alone(seed):
    design, target = stacked(seed, n_scores=3, heavy=True)
    loss = StackedLogisticLoss(penalty=0.1, fit_intercept=True)
    together = minimise(loss, design, target, tol=1e-9, max_iter=200)
    for place in range(0, 30, 7):
        some = slice(place, place + 1)
        alone = minimise(loss, design[some], target[some], tol=1e-9, max_iter=200)
        assert np.array_equal(alone[0], together[place])


def test_a_problem_that_runs_out_of_steps_keeps_its_last_point(seed):
    design, target = stacked(seed, n_scores=1)
    loss = StackedLogisticLoss(penalty=0.1, fit_intercept=True)
    early = minimise(loss, design, target, tol=0.0, max_iter=2)
    assert np.isfinite(early).all()
    assert (loss.value(design, target, early) < 40 * np.log(2)).all()
