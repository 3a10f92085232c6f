"""The best private algorithm there is, by linear programming (L8).

For a finite domain, a finite set of outputs, a number of units and an epsilon, all
epsilon-DP algorithms form a polytope, and the worst-case excess empirical risk is the
maximum of linear functions on it. Its minimum is a yardstick: no private algorithm,
known or unknown, does better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import linprog

from reticent.errors import InvalidParameterError, SolverError
from reticent.guarantees.numbers import positive, whole

# Beyond this the program does not fit a workstation's memory.
_MOST_VARIABLES = 2_000_000


@dataclass(frozen=True)
class OptimalAlgorithm:
    """The solution of one of the linear programs.

    Attributes
    ----------
    value : float
        Worst-case excess empirical risk; no epsilon-DP algorithm has a smaller one,
        up to the solver's tolerance of about 1e-7.
    datasets : ndarray of shape (n_datasets, n_points)
        Every dataset of `n` units as counts of the domain's elements; the order of
        units does not matter to an optimal algorithm.
    law : ndarray of shape (n_datasets, n_outputs)
        For a learner, the probability of each hypothesis; for a predictor, the
        probability of label 1 at each query.
    epsilon : float
        Privacy of the algorithm, replace-one.
    """

    value: float
    datasets: NDArray[np.int64]
    law: NDArray[np.float64]
    epsilon: float


@lru_cache(maxsize=16)
def _multisets(n_points: int, n: int) -> NDArray[np.int64]:
    """Return every multiset of size `n`, as counts, in lexicographic order."""
    if math.comb(n_points + n - 1, n) > _MOST_VARIABLES:
        raise InvalidParameterError(
            f"n={n} units over a domain of {n_points} elements make "
            f"{math.comb(n_points + n - 1, n)} datasets, too many for one program. "
            "Use a smaller domain or fewer units."
        )
    rows = list(combinations_with_replacement(range(n_points), n))
    chosen = np.array(rows, dtype=np.int64).reshape(len(rows), n)
    counts = np.zeros((len(rows), n_points), dtype=np.int64)
    for column in range(n):
        np.add.at(counts, (np.arange(len(rows)), chosen[:, column]), 1)
    return counts


@lru_cache(maxsize=16)
def _completions(n_points: int, n: int) -> NDArray[np.int64]:
    """Return for each dataset of ``n - 1`` units those that one more unit makes.

    Two datasets are neighbours if and only if they complete a common one.
    """
    index = {row.tobytes(): i for i, row in enumerate(_multisets(n_points, n))}
    smaller = _multisets(n_points, n - 1)
    larger = smaller[:, None, :] + np.eye(n_points, dtype=np.int64)
    return np.array([[index[row.tobytes()] for row in rows] for rows in larger])


def _excess(losses: NDArray[np.float64], datasets: NDArray[np.int64]) -> Any:
    """Return the excess empirical risk of each output on each dataset."""
    risks = datasets @ losses / datasets[0].sum()
    return risks, risks.min(axis=1)


def optimal_learner(
    losses: ArrayLike, n: int, epsilon: float, *, family: ArrayLike | None = None
) -> OptimalAlgorithm:
    r"""Return the epsilon-DP learner with the smallest worst-case excess risk.

    Parameters
    ----------
    losses : array-like of shape (n_points, n_hypotheses)
        ``losses[z, h]``, the loss of hypothesis `h` on the domain's element `z`.
    n : int
        Number of units.
    epsilon : float
        Privacy of the released hypothesis, replace-one.
    family : array-like of shape (n_distributions, n_points), default=None
        Distributions over the domain. Given, the worst case is over them: the excess
        is that of the expected empirical risk over the best hypothesis' risk. None
        takes the worst dataset.

    Guarantee
    ---------
    No epsilon-DP algorithm that outputs one of the hypotheses has a smaller worst
    case. *Proof.* Averaging an algorithm over the orders of the units keeps its
    privacy and its worst case, so datasets may be taken as multisets; privacy and
    risk are linear in the probabilities.

    Examples
    --------
    >>> losses = [[0, 1], [1, 0]]  # one bit to learn, two constant answers
    >>> round(optimal_learner(losses, n=1, epsilon=1.0).value, 4)  # 1/(1+e)
    0.2689
    """
    table = _checked_losses(losses)
    n, epsilon = whole("optimal_learner", "n", n), positive("L8", "epsilon", epsilon)
    n_points, n_outputs = table.shape
    datasets = _multisets(n_points, n)
    risks, best = _excess(table, datasets)
    _check_size(len(datasets) * n_outputs)
    privacy = _near_a_centre(_completions(n_points, n), n_outputs, epsilon, 1)
    weights = np.eye(len(datasets)) if family is None else _weights(family, datasets)
    rows = sparse.csr_matrix(weights) @ _block_rows(risks)
    reference = weights @ best if family is None else _best_risks(family, table)
    equal = _block_rows(np.ones_like(risks))
    law, value = _solve(privacy, rows, reference, equal)
    return OptimalAlgorithm(value, datasets, law.reshape(risks.shape), epsilon)


def optimal_predictor(labels: ArrayLike, n: int, epsilon: float) -> OptimalAlgorithm:
    r"""Return the private predictor with the smallest worst-case excess risk.

    Parameters
    ----------
    labels : array-like of shape (n_queries, n_hypotheses)
        ``labels[x, h]`` in {0, 1}, the label that hypothesis `h` gives to point `x`.
        The domain of the data is every point with either label: element ``2x + y``.
    n : int
        Number of units.
    epsilon : float
        Privacy of one answer at each fixed query, replace-one.

    Returns
    -------
    OptimalAlgorithm
        `law` holds the probability of label 1 at each point; the excess is over the
        best hypothesis of the class.

    Guarantee
    ---------
    No predictor whose answer at every fixed query is epsilon-DP has a smaller
    worst-case excess of the expected mistakes on its own data.
    """
    table = np.asarray(labels)
    if table.ndim != 2 or not np.isin(table, (0, 1)).all():
        raise InvalidParameterError(
            f"labels of shape {table.shape} must be a table of 0 and 1, one row a "
            "point, one column a hypothesis."
        )
    n, epsilon = whole("optimal_predictor", "n", n), positive("L8", "epsilon", epsilon)
    n_queries = len(table)
    losses = np.stack([table, 1 - table], axis=1).reshape(2 * n_queries, -1)
    datasets = _multisets(2 * n_queries, n)
    _check_size(2 * len(datasets) * n_queries)
    privacy = _near_a_centre(_completions(2 * n_queries, n), n_queries, epsilon, 2)
    # Mistakes at x: count(x, 1) (1 - p) + count(x, 0) p, averaged over the data.
    slope = (datasets[:, 0::2] - datasets[:, 1::2]) / n
    constant = datasets[:, 1::2].sum(axis=1) / n
    best = (datasets @ losses / n).min(axis=1)
    law, value = _solve(privacy, _block_rows(slope), best - constant, None)
    return OptimalAlgorithm(value, datasets, law.reshape(-1, n_queries), epsilon)


def worst_excess(
    law: ArrayLike, losses: ArrayLike, datasets: NDArray[np.int64]
) -> float:
    """Return the worst excess empirical risk of a learner with this law.

    `law` holds one row a dataset of `OptimalAlgorithm.datasets` and one column a
    hypothesis; use it to compare any learner with the optimum.
    """
    risks, best = _excess(np.asarray(losses, dtype=float), datasets)
    return float(((np.asarray(law) * risks).sum(axis=1) - best).max())


def best_epsilon(
    losses: ArrayLike, n: int, *, price: float, most: float = 20.0
) -> tuple[float, float]:
    r"""Minimise excess risk plus ``price * epsilon`` over epsilon (S0 eq. 6).

    Returns
    -------
    (epsilon, value)
        The minimiser up to 1e-3 and the minimum. The excess risk is convex and
        falling in ``exp(epsilon)`` only piecewise, so a coarse grid is searched
        first and the best cell refined.
    """
    price = positive("best_epsilon", "price", price)

    def cost(epsilon: float) -> float:
        return optimal_learner(losses, n, epsilon).value + price * epsilon

    grid = np.geomspace(1e-2, positive("best_epsilon", "most", most), 24)
    values = [cost(float(epsilon)) for epsilon in grid]
    centre = int(np.argmin(values))
    low, high = grid[max(0, centre - 1)], grid[min(len(grid) - 1, centre + 1)]
    golden = (math.sqrt(5) - 1) / 2
    while high - low > 1e-3:
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if cost(left) <= cost(right) else (left, high)
    epsilon = float((low + high) / 2)
    return min(
        (epsilon, cost(epsilon)),
        (float(grid[centre]), values[centre]),
        key=lambda pair: pair[1],
    )


def _checked_losses(losses: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(losses, dtype=np.float64)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise InvalidParameterError(
            f"losses of shape {table.shape} must be a finite table, one row an element "
            "of the domain, one column a hypothesis."
        )
    return table


def _check_size(n_variables: int) -> None:
    if not n_variables <= _MOST_VARIABLES:
        raise InvalidParameterError(
            f"the program has {n_variables} variables, more than {_MOST_VARIABLES}. "
            "Use a smaller domain, fewer hypotheses or fewer units."
        )


def _weights(family: ArrayLike, datasets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the probability of each multiset under each distribution."""
    table = np.asarray(family, dtype=np.float64)
    if table.ndim != 2 or not np.allclose(table.sum(axis=1), 1) or table.min() < 0:
        raise InvalidParameterError(
            f"family of shape {table.shape} must hold one distribution a row."
        )
    n = int(datasets[0].sum())
    log_orders = [
        math.lgamma(n + 1) - sum(math.lgamma(count + 1) for count in row)
        for row in datasets.tolist()
    ]
    powers = np.prod(table[:, None, :] ** datasets[None, :, :], axis=2)
    return np.asarray(powers * np.exp(log_orders))


def _best_risks(family: ArrayLike, losses: NDArray[np.float64]) -> Any:
    return (np.asarray(family, dtype=np.float64) @ losses).min(axis=1)


def _block_rows(values: NDArray[np.float64]) -> sparse.csr_matrix:
    """Return a matrix whose row i holds values[i] in the variables of dataset i."""
    n_rows, width = values.shape
    columns = np.arange(n_rows * width)
    starts = np.arange(n_rows + 1) * width
    return sparse.csr_matrix(
        (values.ravel(), columns, starts), shape=(n_rows, n_rows * width)
    )


@dataclass(frozen=True)
class _Privacy:
    """Linear constraints ``upper @ (p, centres) <= limits``; `width` counts `p`."""

    upper: Any
    limits: NDArray[np.float64]
    width: int


def _near_a_centre(
    completions: NDArray[np.int64], n_outputs: int, epsilon: float, labels: int
) -> _Privacy:
    r"""Write privacy with one centre for each dataset short of a unit.

    The probabilities :math:`p_S` of an output on all completions `S` of one smaller
    dataset are within :math:`e^\varepsilon` of one another if and only if some
    centre `u` has :math:`u \le p_S \le e^\varepsilon u`: their minimum. For `d`
    elements these are `2 d` constraints where pairs are `d (d - 1)`. With two labels
    the same is asked of :math:`1 - p_S`.
    """
    n_centres, n_points = completions.shape
    width = (int(completions.max()) + 1) * n_outputs
    outputs = np.arange(n_outputs)
    law = (completions[:, :, None] * n_outputs + outputs).ravel()
    centre = np.repeat(np.arange(n_centres), n_points)[:, None] * n_outputs + outputs
    blocks, limits = [], []
    total = width + labels * n_centres * n_outputs
    for label in range(labels):
        sign = 1.0 if label == 0 else -1.0
        offset = width + label * n_centres * n_outputs
        column, ones = offset + centre.ravel(), np.ones(len(law))
        # q = p or 1 - p:  u - q <= 0  and  q - e^eps u <= 0.
        blocks.append(_two_entries(column, 1.0, law, -sign, total))
        blocks.append(_two_entries(law, sign, column, -math.exp(epsilon), total))
        limits += [label * ones, -label * ones]
    return _Privacy(sparse.vstack(blocks), np.concatenate(limits), width)


def _two_entries(
    first: NDArray[np.int64], a: float, second: NDArray[np.int64], b: float, width: int
) -> sparse.csr_matrix:
    n_rows = len(first)
    rows = np.repeat(np.arange(n_rows), 2)
    columns = np.stack([first, second], axis=1).ravel()
    return sparse.csr_matrix(
        (np.tile([a, b], n_rows), (rows, columns)), shape=(n_rows, width)
    )


def _solve(
    privacy: _Privacy, rows: Any, reference: NDArray[np.float64], equal: Any
) -> tuple[NDArray[np.float64], float]:
    """Minimise the largest of ``rows @ p - reference`` over private `p`."""
    n_privacy, n_variables = privacy.upper.shape
    spare = n_variables - privacy.width
    bound = sparse.csr_matrix(-np.ones((rows.shape[0], 1)))
    upper = sparse.vstack(
        [
            sparse.hstack([privacy.upper, sparse.csr_matrix((n_privacy, 1))]),
            sparse.hstack([rows, sparse.csr_matrix((rows.shape[0], spare)), bound]),
        ]
    ).tocsr()
    cost = np.zeros(n_variables + 1)
    cost[-1] = 1.0
    fixed = {}
    if equal is not None:
        padding = sparse.csr_matrix((equal.shape[0], spare + 1))
        fixed = {
            "A_eq": sparse.hstack([equal, padding]),
            "b_eq": np.ones(equal.shape[0]),
        }
    solved = linprog(
        cost,
        A_ub=upper,
        b_ub=np.concatenate([privacy.limits, reference]),
        bounds=[(0, 1)] * n_variables + [(None, None)],
        method="highs-ipm",
        **fixed,
    )
    if solved.status != 0:
        raise SolverError(f"the linear program was not solved: {solved.message}")
    return np.asarray(solved.x[: privacy.width]), float(solved.fun)
