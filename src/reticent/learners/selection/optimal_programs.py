"""Linear programs over private tables, and their exactly private repair (L8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from reticent._numbers import exact
from reticent.errors import SolverError
from reticent.hypotheses import without_solver_output
from reticent.mechanisms import exp_bounds

# Probabilities are whole multiples of this, so that a row of floats adds up to one
# without rounding.
_UNIT_BITS = 53
_UNITS = 1 << _UNIT_BITS
# Bits of exp(-epsilon), rounded up, where floats cannot decide.
_BITS = 256
# For a larger epsilon the program is solved for this one: its optimum is below 1e-12
# anyway, and the solver refuses coefficients above 1e15.
_STEEPEST = 30.0
# If more of the uniform law than this must be mixed in, the program was not solved.
_MOST_MIXED = 2.0**-7


def block_rows(values: NDArray[np.float64]) -> sparse.csr_matrix:
    """Return a matrix whose row i has values[i] at the variables of dataset i."""
    n_rows, width = values.shape
    columns = np.arange(n_rows * width)
    starts = np.arange(n_rows + 1) * width
    return sparse.csr_matrix(
        (values.ravel(), columns, starts), shape=(n_rows, n_rows * width)
    )


@dataclass(frozen=True)
class Privacy:
    """Epsilon-DP of a table of probabilities, one row per dataset."""

    # Shape (n_smaller, n_points); for each dataset that lacks a unit, the datasets with
    # one unit more; two datasets are neighbours if and only if they complete a common
    # one.
    completions: NDArray[np.int64]
    n_outputs: int  # number of columns
    group: int  # number of adjacent columns that add up to one
    epsilon: float  # largest log-ratio within a column

    #: For a larger epsilon the program is solved for this one.
    steepest: ClassVar[float] = _STEEPEST

    @property
    def n_datasets(self) -> int:
        """Number of rows."""
        return int(self.completions.max()) + 1

    def rows(self) -> sparse.csr_matrix:
        r"""Write privacy with one centre for each dataset that lacks a unit.

        The probabilities :math:`p_S` of an output on all completions `S` of one
        smaller dataset are within :math:`e^\varepsilon` of one another if and only if
        some centre `v` has :math:`p_S \le v \le e^\varepsilon p_S`: their maximum. For
        `d` elements these are `2 d` constraints where pairs are `d (d - 1)`. Written
        like this, the solver's tolerance on the second constraint is divided by
        :math:`e^\varepsilon` where it matters, at small probabilities.
        """
        n_centres, n_points = self.completions.shape
        width = self.n_datasets * self.n_outputs
        outputs = np.arange(self.n_outputs)
        law = (self.completions[:, :, None] * self.n_outputs + outputs).ravel()
        places = np.repeat(np.arange(n_centres), n_points)[:, None] * self.n_outputs
        centre = width + (places + outputs).ravel()
        total = width + n_centres * self.n_outputs
        growth = math.exp(min(self.epsilon, self.steepest))
        return sparse.vstack(
            [
                _two_entries(law, 1.0, centre, -1.0, total),
                _two_entries(centre, 1.0, law, -growth, total),
            ]
        )

    def limits(self, n_rows: int) -> NDArray[np.float64]:
        """Return the right sides of the rows of privacy."""
        return np.zeros(n_rows)

    def solve(
        self, risks: Any, reference: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float]:
        """Minimise the largest of ``risks @ p - reference`` over private tables `p`.

        Returns the table, exactly private, and the solver's minimum.
        """
        privacy = self.rows()
        n_privacy, n_variables = privacy.shape
        width = self.n_datasets * self.n_outputs
        n_groups = width // self.group
        spare = sparse.csr_matrix((risks.shape[0], n_variables - width))
        bound = sparse.csr_matrix(-np.ones((risks.shape[0], 1)))
        upper = sparse.vstack(
            [
                sparse.hstack([privacy, sparse.csr_matrix((n_privacy, 1))]),
                sparse.hstack([risks, spare, bound]),
            ]
        ).tocsr()
        one = block_rows(np.ones((n_groups, self.group)))
        padding = sparse.csr_matrix((n_groups, n_variables - width + 1))
        cost = np.zeros(n_variables + 1)
        cost[-1] = 1.0
        with without_solver_output():
            solved = linprog(
                cost,
                A_ub=upper,
                b_ub=np.concatenate([self.limits(n_privacy), reference]),
                A_eq=sparse.hstack([one, padding]),
                b_eq=np.ones(n_groups),
                bounds=[(0, 1)] * n_variables + [(None, None)],
                method="highs-ipm",
            )
        if solved.status != 0:
            raise SolverError(f"the linear program was not solved: {solved.message}")
        return self.repaired(np.asarray(solved.x[:width])), float(solved.fun)

    def repaired(self, law: NDArray[np.float64]) -> NDArray[np.float64]:
        r"""Return a table close to `law` that is exactly private.

        A solver keeps constraints up to a tolerance, and may leave a zero where a
        neighbour has none. Mixed with a small part `w` of the uniform law, every ratio
        falls; then probabilities are rounded to multiples of :math:`2^{-53}` that add
        up to one, and all ratios are checked in whole numbers. `w` is doubled until
        they hold.

        Raises
        ------
        SolverError
            If this takes more than one part in 128: then the program was not solved.
        """
        shape = (self.n_datasets, self.n_outputs)
        table = np.maximum(law, 0.0).reshape(-1, self.group)
        table /= table.sum(axis=1, keepdims=True)
        mixed = 2.0 ** (1 - _UNIT_BITS)
        while mixed <= _MOST_MIXED:
            units = _rounded((1 - mixed) * table + mixed / self.group)
            if self.holds(units.reshape(shape)):
                return np.asarray(units.reshape(shape) * 2.0**-_UNIT_BITS)
            mixed *= 2
        raise SolverError(
            f"the linear program's solution at epsilon={self.epsilon!r} is too far "
            "from private to be repaired. Use fewer units, or a larger epsilon."
        )

    def holds(self, units: NDArray[np.int64]) -> bool:
        """Return whether whole multiples of one unit are exactly private."""
        near = units[self.completions]
        low, high = near.min(axis=1).ravel(), near.max(axis=1).ravel()
        # Products of floats are good to a few 2^-53; the rest is decided in integers.
        shrunk = high * math.exp(-self.epsilon)
        if (shrunk * (1 - 1e-12) > low).any():
            return False
        unsure = np.flatnonzero(shrunk * (1 + 1e-12) > low)
        _, factor = exp_bounds(exact(self.epsilon), _BITS)
        pairs = {(int(high[i]), int(low[i])) for i in unsure}
        return all(most * factor <= least << _BITS for most, least in pairs)


def whole_of_one() -> int:
    """Return how many units of probability add up to one."""
    return _UNITS


def _rounded(table: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return rows of whole units that add up to one exactly."""
    units = np.maximum(np.rint(table * float(_UNITS)), 1).astype(np.int64)
    largest = units.argmax(axis=1)
    units[np.arange(len(units)), largest] += _UNITS - units.sum(axis=1)
    return units


def _two_entries(
    first: NDArray[np.int64], a: float, second: NDArray[np.int64], b: float, width: int
) -> sparse.csr_matrix:
    n_rows = len(first)
    rows = np.repeat(np.arange(n_rows), 2)
    columns = np.stack([first, second], axis=1).ravel()
    return sparse.csr_matrix(
        (np.tile([a, b], n_rows), (rows, columns)), shape=(n_rows, width)
    )
