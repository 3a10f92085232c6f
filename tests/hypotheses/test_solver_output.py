"""Solvers print nothing, whatever the numbers; nor does anything else get lost."""

import ctypes
import os
import threading
from contextlib import nullcontext, suppress

import numpy as np
import pytest

from reticent.errors import SolverError
from reticent.hypotheses import Halfspaces
from reticent.hypotheses.oracles import integer_programs
from reticent.hypotheses.oracles.integer_programs import ConstraintRows, solve
from reticent.hypotheses.oracles.solver_output import without_solver_output

LIBC = ctypes.CDLL(None)


def ill_scaled(trial):
    """A small integer program whose numbers span forty orders of magnitude."""
    rng = np.random.default_rng(trial)
    n, m = rng.integers(2, 9, size=2)
    table = rng.normal(size=(m, n)) * 10.0 ** rng.integers(-14, 15, size=(m, n))
    rows = ConstraintRows(int(n))
    for row in table:
        rows.add(0, np.arange(n), row, float(rng.normal() * 10.0 ** rng.integers(9)))
    cost = rng.normal(size=n) * 10.0 ** rng.integers(-6, 12)
    bounds = np.full(n, -1e3), np.full(n, 1e6)
    return cost, rows, rng.integers(0, 2, n), bounds


def test_a_solver_prints_nothing_whatever_the_numbers(capfd):
    for trial in range(30):
        with suppress(SolverError):
            solve(*ill_scaled(trial), time_limit=5.0)
    LIBC.fflush(None)
    assert capfd.readouterr() == ("", "")


def test_without_silence_the_solver_does_print(capfd, monkeypatch):
    # The control: if a later solver prints nothing by itself, silence can go.
    monkeypatch.setattr(integer_programs, "without_solver_output", nullcontext)
    for trial in range(30):
        with suppress(SolverError):
            solve(*ill_scaled(trial), time_limit=5.0)
    LIBC.fflush(None)
    assert "Highs" in capfd.readouterr().out


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e300])
def test_an_oracle_prints_nothing(capfd, scale):
    X = np.random.default_rng(0).normal(size=(8, 2))
    X[:, 0] *= scale
    X[0] *= 1e7
    with suppress(SolverError):
        Halfspaces(2, method="milp").minimise(X, np.arange(8) % 2)
    LIBC.fflush(None)
    assert capfd.readouterr() == ("", "")


def test_compiled_code_is_silenced_and_only_in_the_block(capfd):
    LIBC.puts(b"before")
    with without_solver_output():
        LIBC.puts(b"within")
        with without_solver_output():
            LIBC.puts(b"deeper")
        LIBC.puts(b"still within")
        os.write(2, b"an error is heard\n")
    LIBC.puts(b"after")
    LIBC.fflush(None)
    assert capfd.readouterr() == ("before\nafter\n", "an error is heard\n")


def test_many_threads_leave_the_terminal_as_it_was(capfd):
    def work():
        for _ in range(50):
            with without_solver_output():
                LIBC.puts(b"within")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    LIBC.puts(b"after")
    LIBC.fflush(None)
    assert capfd.readouterr().out == "after\n"


def test_a_failure_in_the_block_restores_the_terminal(capfd):
    with pytest.raises(RuntimeError, match="on purpose"), without_solver_output():
        raise RuntimeError("on purpose")
    LIBC.puts(b"after")
    LIBC.fflush(None)
    assert capfd.readouterr().out == "after\n"
