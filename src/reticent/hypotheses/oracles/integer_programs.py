"""Integer programs whose optimum is proved, through SciPy's HiGHS."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array

from reticent._arrays import Floats, Ints
from reticent.errors import SolverError
from reticent.hypotheses.oracles.solver_output import without_solver_output

# Objectives are whole numbers up to this size, so that the solver's tolerances (1e-6
# and finer, on coefficients of at least one) stay far below the half that a proof
# needs.
_LARGEST_TOTAL = 2**30


class ConstraintRows:
    """Sparse inequality rows ``a @ x <= upper``, collected block by block."""

    def __init__(self, n_columns: int) -> None:
        self.n_columns = n_columns
        self._parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._upper: list[Floats] = []
        self._n_rows = 0

    def add(self, row: Any, column: Any, value: Any, upper: Any) -> None:
        """Append rows given by their entries; `row` counts from 0 in this block."""
        limits = np.atleast_1d(np.asarray(upper, dtype=np.float64))
        entries = np.broadcast_arrays(row, column, np.asarray(value, dtype=np.float64))
        rows, columns, values = (np.atleast_1d(entry).ravel() for entry in entries)
        self._parts.append((rows + self._n_rows, columns, values))
        self._upper.append(limits)
        self._n_rows += len(limits)

    def constraints(self) -> list[LinearConstraint]:
        """Return all rows as SciPy wants them; an empty list if there are none."""
        if not self._parts:
            return []
        row, column, value = (
            np.concatenate([part[i] for part in self._parts]) for i in range(3)
        )
        shape = (self._n_rows, self.n_columns)
        table = csr_array(coo_array((value, (row, column)), shape=shape))
        return [LinearConstraint(table, -np.inf, np.concatenate(self._upper))]


@dataclass(frozen=True, slots=True)
class Solution:
    """The best point found, and a bound that no feasible point is below."""

    x: Floats
    bound: float


def solve(
    cost: Floats,
    rows: ConstraintRows,
    integrality: NDArray[Any],
    bounds: tuple[NDArray[Any], NDArray[Any]],
    time_limit: float,
) -> Solution:
    """Minimise ``cost @ x`` to a gap of zero, or raise SolverError."""
    options = {"mip_rel_gap": 0.0, "presolve": True}
    if time_limit < math.inf:
        options["time_limit"] = time_limit
    with without_solver_output():
        result = milp(
            cost,
            integrality=integrality,
            bounds=Bounds(*bounds),
            constraints=rows.constraints(),
            options=options,
        )
    bound = getattr(result, "mip_dual_bound", None)
    if result.status != 0 or result.x is None or bound is None:
        raise SolverError(
            "the integer program ended without a proof of optimality "
            f"(solver status {result.status}, time_limit={time_limit}). Raise "
            "time_limit, use fewer rows, or choose a smaller class."
        )
    return Solution(np.asarray(result.x, dtype=np.float64), float(bound))


def require_proof(value: int, bound: float) -> None:
    """Raise unless a whole-numbered `value` is the least possible above `bound`."""
    if not value - bound < 0.5:
        raise SolverError(
            "the solver's best labels and its bound do not meet, so a zero gap is not "
            "proven. Rescale the features or use fewer rows."
        )


def coarse_costs(ones: Ints) -> tuple[Ints, bool]:
    """Return small whole-number costs in proportion, and whether they are exact."""
    divisor = int(np.gcd.reduce(np.abs(ones)))
    if divisor == 0:
        return ones, True
    reduced = ones // divisor
    total = int(np.abs(reduced).sum())
    if total <= _LARGEST_TOTAL:
        return reduced, True
    unit = 2.0 ** math.ceil(math.log2(total / _LARGEST_TOTAL))
    return np.rint(reduced / unit).astype(np.int64), False
