"""Optimal private algorithms, by linear programming (L8).

For a finite domain, a finite set of outputs, a number of units, an epsilon and a delta,
all private algorithms form a polytope, and the worst-case excess risk is the maximum of
linear functions on it. No private algorithm is better than its minimum.
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

from reticent._numbers import below_one, positive, whole
from reticent._text import one_of
from reticent.errors import InvalidParameterError
from reticent.learners.selection.optimal_approximate import ApproximatePrivacy
from reticent.learners.selection.optimal_programs import Privacy, block_rows

# Where the search for an epsilon starts; below it, the cost of privacy is negligible.
_LEAST_EPSILON = 1e-5
# A larger program does not fit in a workstation's memory.
_MOST_VARIABLES = 2_000_000


@dataclass(frozen=True)
class OptimalAlgorithm:
    """The solution of one of the linear programs.

    Guarantee
    ---------
    `law`, read as exact binary fractions, is exactly (epsilon, delta)-DP: all pairs of
    neighbours are checked in whole numbers. The solver's own solution meets constraints
    only up to a tolerance; it is mixed with the uniform law until it is private, and
    `achieved` includes what this costs.
    """

    #: Worst-case excess risk; no private algorithm has a smaller one, up to the
    #: solver's tolerance of about 1e-7. A bound, not what `law` achieves.
    value: float
    #: Shape (n_datasets, n_points); every dataset of `n` units as counts of the
    #: domain's elements; the order of units does not matter to an optimal algorithm.
    datasets: NDArray[np.int64]
    #: Shape (n_datasets, n_outputs); for a learner, the probability of each hypothesis;
    #: for a predictor, the probability of label 1 at each query, or of each label at
    #: each query, of shape (n_datasets, n_queries, n_labels), if there are more than
    #: two. Multiples of ``2**-53``; the probabilities of a choice add up to one without
    #: rounding.
    law: NDArray[np.float64]
    epsilon: float  #: privacy of the algorithm, replace-one
    achieved: float  #: worst-case excess risk of `law` itself
    delta: float = 0.0  #: the delta of its privacy


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
    """Return, for each dataset of ``n - 1`` units, the datasets with one unit more.

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
    losses: ArrayLike,
    n: int,
    epsilon: float,
    *,
    delta: float = 0.0,
    family: ArrayLike | None = None,
    risk: str = "empirical",
) -> OptimalAlgorithm:
    r"""Return the private learner with the smallest worst-case excess risk.

    Parameters
    ----------
    losses : array-like of shape (n_points, n_hypotheses)
        ``losses[z, h]``, the loss of hypothesis `h` on the domain's element `z`.
    n : int
        Number of units.
    epsilon : float
        Privacy of the released hypothesis, replace-one.
    delta : float, default=0.0
        The delta of that privacy.
    family : array-like of shape (n_distributions, n_points), default=None
        Distributions over the domain; the worst case is then over them (S0 eq. 7).
        None takes the worst dataset (S0 eq. 6 at a fixed epsilon).
    risk : {"empirical", "population"}, default="empirical"
        With a family: "empirical" is S0's eq. 7, the expectation over the dataset of
        the empirical risk minus the smallest empirical risk; "population" is the
        expected risk under the distribution itself, minus the best hypothesis' risk.

    Guarantee
    ---------
    No (epsilon, delta)-DP algorithm that outputs one of the hypotheses has a smaller
    worst case. *Proof.* Averaging an algorithm over the orders of the units keeps its
    privacy and its worst case, so datasets may be taken as multisets; privacy and
    risk are linear in the probabilities.

    Examples
    --------
    >>> losses = [[0, 1], [1, 0]]  # one bit to learn, two constant answers
    >>> round(optimal_learner(losses, n=1, epsilon=1.0).value, 4)  # 1/(1+e)
    0.2689
    >>> fair = [[0.5, 0.5]]  # a fair coin: the empirical minimum is 0, whatever it is
    >>> round(optimal_learner(losses, n=1, epsilon=1.0, family=fair).value, 4)
    0.2689
    """
    table = _checked_losses(losses)
    n, epsilon = whole("optimal_learner", "n", n), positive("L8", "epsilon", epsilon)
    n_points, n_outputs = table.shape
    datasets = _multisets(n_points, n)
    privacy = _privacy(_completions(n_points, n), n_outputs, n_outputs, epsilon, delta)
    rows, reference = _objective(table, datasets, family, risk)
    law, value = privacy.solve(rows, reference)
    achieved = float((rows @ law.ravel() - reference).max())
    return OptimalAlgorithm(value, datasets, law, epsilon, achieved, delta)


def _privacy(
    completions: NDArray[np.int64],
    n_outputs: int,
    group: int,
    epsilon: float,
    delta: float,
) -> Privacy:
    delta = below_one("L8", "delta", delta)
    n_datasets = int(completions.max()) + 1
    if delta == 0:
        _check_size(n_datasets * n_outputs)
        return Privacy(completions, n_outputs, group, epsilon)
    private = ApproximatePrivacy(completions, n_outputs, group, epsilon, delta)
    _check_size(len(private.pairs) * n_outputs)
    return private


def _objective(
    table: NDArray[np.float64],
    datasets: NDArray[np.int64],
    family: ArrayLike | None,
    risk: str,
) -> tuple[Any, NDArray[np.float64]]:
    """Return risks, linear in the law, and what is subtracted from them."""
    one_of("risk", risk, "empirical", "population")
    risks, best = _excess(table, datasets)
    if family is None:
        if risk == "population":
            raise InvalidParameterError(
                "risk='population' is about distributions; give a family of them."
            )
        return block_rows(risks), best
    weights = _weights(family, datasets)
    if risk == "empirical":
        return sparse.csr_matrix(weights) @ block_rows(risks), weights @ best
    true = np.asarray(family, dtype=np.float64) @ table
    rows = weights[:, :, None] * true[:, None, :]
    return sparse.csr_matrix(rows.reshape(len(rows), -1)), true.min(axis=1)


def optimal_predictor(
    labels: ArrayLike, n: int, epsilon: float, *, delta: float = 0.0, n_labels: int = 2
) -> OptimalAlgorithm:
    r"""Return the private predictor with the smallest worst-case excess risk.

    Parameters
    ----------
    labels : array-like of shape (n_queries, n_hypotheses)
        ``labels[x, h]`` from 0 to ``K - 1``, the label that hypothesis `h` gives to
        point `x`. The domain of the data is every point with every label: element
        ``K x + y``.
    n : int
        Number of units.
    epsilon : float
        Privacy of one answer at each fixed query, replace-one.
    delta : float, default=0.0
        The delta of that privacy.
    n_labels : int, default=2
        The number `K` of labels.

    Returns
    -------
    OptimalAlgorithm
        `law` holds the probability of label 1 at each point, or of every label if
        there are more than two; the excess is over the best hypothesis of the class.

    Guarantee
    ---------
    No predictor whose answer at every fixed query is (epsilon, delta)-DP has a smaller
    worst-case excess of the expected mistakes on its own data.

    Examples
    --------
    >>> constant = [[0, 1, 2]]  # one point, three labels: 2/(e + 2)
    >>> round(optimal_predictor(constant, n=1, epsilon=1.0, n_labels=3).value, 4)
    0.4239
    """
    table, k = np.asarray(labels), whole("optimal_predictor", "n_labels", n_labels)
    if table.ndim != 2 or not np.isin(table, range(k)).all() or k < 2:
        known = "0 and 1" if k == 2 else f"labels from 0 to {k - 1}"
        raise InvalidParameterError(
            f"labels of shape {table.shape} must be a table of {known}, one row per "
            "point, one column per hypothesis."
        )
    n, epsilon = whole("optimal_predictor", "n", n), positive("L8", "epsilon", epsilon)
    n_queries = len(table)
    losses = (np.arange(k)[:, None] != table[:, None, :]).reshape(k * n_queries, -1)
    datasets = _multisets(k * n_queries, n)
    privacy = _privacy(_completions(k * n_queries, n), k * n_queries, k, epsilon, delta)
    # At point x a label is wrong as often as the others occur there.
    counts = datasets.reshape(len(datasets), n_queries, k)
    wrong = (counts.sum(axis=2, keepdims=True) - counts) / n
    rows = block_rows(wrong.reshape(len(datasets), -1))
    best = (datasets @ losses / n).min(axis=1)
    every, value = privacy.solve(rows, best)
    achieved = float((rows @ every.ravel() - best).max())
    law = every[:, 1::2] if k == 2 else every.reshape(counts.shape)
    return OptimalAlgorithm(value, datasets, law, epsilon, achieved, delta)


def worst_excess(
    law: ArrayLike, losses: ArrayLike, datasets: NDArray[np.int64]
) -> float:
    """Return the worst excess empirical risk of a learner with this law.

    `law` has one row per dataset of `OptimalAlgorithm.datasets` and one column per
    hypothesis; use it to compare any learner with the optimum.
    """
    risks, best = _excess(np.asarray(losses, dtype=float), datasets)
    return float(((np.asarray(law) * risks).sum(axis=1) - best).max())


def best_epsilon(
    losses: ArrayLike,
    n: int,
    *,
    price: float,
    most: float = 20.0,
    family: ArrayLike | None = None,
    risk: str = "empirical",
) -> tuple[float, float]:
    r"""Minimise excess risk plus ``price * epsilon`` over epsilon (S0 eqs. 6 and 7).

    Parameters
    ----------
    losses, n, family, risk
        As for `optimal_learner`; a family makes it eq. 7.
    price : float
        Price of one epsilon in risk; 1 in the equations.
    most : float, default=20.0
        The largest epsilon.

    Returns
    -------
    (epsilon, value)
        The minimiser up to a thousandth of it, from 1e-5 on, and the minimum. The
        excess risk is convex and falling in ``exp(epsilon)`` only piecewise, so a
        coarse grid is searched first and the best cell refined.
    """
    price = positive("best_epsilon", "price", price)

    def cost(epsilon: float) -> float:
        found = optimal_learner(losses, n, epsilon, family=family, risk=risk)
        return found.value + price * epsilon

    grid = np.geomspace(_LEAST_EPSILON, positive("best_epsilon", "most", most), 32)
    values = [cost(float(epsilon)) for epsilon in grid]
    centre = int(np.argmin(values))
    low, high = grid[max(0, centre - 1)], grid[min(len(grid) - 1, centre + 1)]
    golden = (math.sqrt(5) - 1) / 2
    while high - low > 1e-3 * min(1.0, high):
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
            f"losses of shape {table.shape} must be a finite table: a row per element "
            "of the domain, a column per hypothesis."
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
            f"family of shape {table.shape} must have one distribution per row."
        )
    n = int(datasets[0].sum())
    log_orders = [
        math.lgamma(n + 1) - sum(math.lgamma(count + 1) for count in row)
        for row in datasets.tolist()
    ]
    powers = np.prod(table[:, None, :] ** datasets[None, :, :], axis=2)
    return np.asarray(powers * np.exp(log_orders))
