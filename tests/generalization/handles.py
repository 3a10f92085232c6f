"""Four processes, each with its own handle on one holdout, board, session or model.

Run as a script, like `tests.ledger.concurrent_charges`. All handles are
opened before the first question. A process may be killed just before or just after
its write is durable; it is then started again and goes on.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from reticent import Budget
from reticent.errors import BudgetExhaustedError, ReticentWarning, SolverError
from reticent.generalization import AdaptiveSession, Ladder, ReusableHoldout
from reticent.generalization.holdout import holdout as holdout_module
from reticent.generalization.holdout import ladder as ladder_module
from reticent.generalization.session import core as session_core
from reticent.generalization.shared_state import SharedState
from reticent.ledger import SQLLedger
from reticent.prediction import PredictionInterface, PrivateVotingClassifier
from tests.prediction.learners import Table

WORKERS = 4
TRIES = 4
ALLOWED = 5
N = 400


class OverwritingState(SharedState):
    """The mistake to find: it reads the state once, and later writes over others'."""

    def __init__(self, start, log=None):
        super().__init__(start, log)
        super().latest()

    def latest(self):
        return self._known

    def swap(self, version, state):
        while not self._log.write(len(self._log), state):
            pass
        self._known = version + 1, state
        return True


class Holdout:
    def __init__(self, ledger, method="rounding", name="holdout"):
        self.guard = ReusableHoldout(
            np.zeros((N, 1)),
            method=method,
            threshold=0.4,
            scale=1e-3 if method == "laplace" else None,
            queries=1000,
            overfits=ALLOWED,
            ledger=ledger,
            name=name,
        )

    def ask(self):
        answer = self.guard.query(lambda X, y: np.ones(len(X)), guess=0.0)
        return answer.overfit

    def left(self):
        return self.guard._state.read()["left"]


class Failing(Holdout):
    def __init__(self, ledger):
        super().__init__(ledger, "rounding", "failing")

    def ask(self):
        with contextlib.suppress(SolverError):
            self.guard.query(lambda X, y: 1 / 0, guess=0.0)
        return True


class Laplace(Holdout):
    def __init__(self, ledger):
        super().__init__(ledger, "laplace", "laplace")


class Board:
    """Each submission is better than what was shown before it: the scores count."""

    worker = 0  # processes hand in different scores

    def __init__(self, ledger, step=0.01, name="board"):
        self.guard = Ladder(
            np.zeros(N, int), step=step, improvements=ALLOWED, ledger=ledger, name=name
        )

    def ask(self):
        right = round((self.guard.best + 0.05 + 0.01 * Board.worker) * N)
        return self.guard.submit((np.arange(N) >= right).astype(int))

    def left(self):
        return ALLOWED - self.guard._state.read()["rises"]


class Free(Board):
    def __init__(self, ledger):
        super().__init__(ledger, None, "free")


class Session:
    def __init__(self, ledger):
        self.guard = AdaptiveSession(
            np.zeros((N, 1)), kept=ALLOWED, bits=1000.0, ledger=ledger, name="session"
        )

    def ask(self):
        self.guard.keep(lambda X, y: [0], at_most=1)
        return True

    def left(self):
        return ALLOWED - self.guard.spent.kept


@functools.cache
def fitted():
    """One model, fitted before the processes fork."""
    model = PrivateVotingClassifier(Table(), 0.5, (0, 1), 2, rule="geometric")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReticentWarning)  # two shards are near chance
        return model.fit(np.array([[0], [1]] * 20), np.array([0, 1] * 20))


class Interface:
    def __init__(self, ledger):
        self.guard = PredictionInterface(
            fitted(), Budget(epsilon=ALLOWED * 0.5), ledger=ledger
        )
        self.asked = os.getpid() * 1000

    def ask(self):
        self.asked += 1
        self.guard.predict(np.array([[self.asked]]))
        return True

    def left(self):
        return self.guard.remaining()


KINDS = {
    kind.__name__.lower(): kind
    for kind in (Holdout, Failing, Laplace, Board, Free, Session, Interface)
}


USUAL = {"broken": False, "rounds": [[None] * WORKERS], "kinds": list(KINDS)}


class Deadly:
    """A ledger whose process dies at its n-th write, before or after it is durable."""

    def __init__(self, ledger: SQLLedger, write: int, durable: bool) -> None:
        self._ledger, self._left, self._durable = ledger, write, durable

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def post(self, request, answers):
        return self._written(request, lambda: self._ledger.post(request, answers))

    def charge(self, request):
        return self._written(request, lambda: self._ledger.charge(request))

    def _written(self, request, write):
        if "/note/0" not in request.key:
            self._left -= 1
        if self._left == 0 and not self._durable:
            os.kill(os.getpid(), signal.SIGKILL)
        written = write()
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return written


def work(kind: str, url: str, gate: int, report: int, death: Any) -> None:
    """Ask until refused or tired, and report each answer."""
    with SQLLedger(url) as ledger:
        handle = KINDS[kind](Deadly(ledger, *death) if death else ledger)
        os.write(report, b"ready\n")
        os.read(gate, 1)  # returns when the parent closes the gate
        for _ in range(TRIES):
            with contextlib.suppress(BudgetExhaustedError):
                os.write(report, f"{handle.ask()}\n".encode())


def rush(kind: str, url: str, deaths: list[Any]) -> list[str]:
    """Let four processes rush, all let go at once; return what they reported."""
    gate_read, gate = os.pipe()
    report_read, report = os.pipe()
    children = []
    for worker, death in enumerate(deaths):
        child = os.fork()
        if child == 0:
            Board.worker = worker
            os.close(gate)
            os.close(report_read)
            try:
                work(kind, url, gate_read, report, death)
            except BaseException:  # noqa: BLE001 - the outer edge of a process
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append((child, death))
    os.close(report)
    seen = b""
    while seen.count(b"ready") < len(deaths) and (chunk := os.read(report_read, 4096)):
        seen += chunk
    os.close(gate)
    while chunk := os.read(report_read, 4096):
        seen += chunk
    for child, death in children:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code == 0 or (death and code == -signal.SIGKILL), code
    os.close(report_read)
    os.close(gate_read)
    return [line for line in seen.decode().split() if line != "ready"]


def main() -> None:
    order = json.load(sys.stdin)
    if order["broken"]:
        for module in (holdout_module, ladder_module, session_core):
            module.SharedState = OverwritingState
    fitted()
    found = {}
    for kind in order["kinds"]:
        seen = [rush(kind, order["url"], deaths) for deaths in order["rounds"]]
        with SQLLedger(order["url"]) as ledger:
            left = KINDS[kind](ledger).left()
        found[kind] = {"seen": [line for lines in seen for line in lines], "left": left}
    with SQLLedger(order["url"]) as ledger:
        ledger.verify()
    sys.stdout.write(json.dumps(found))


def handles(**order: Any) -> dict[str, dict[str, Any]]:
    """Start the processes; return what each kind reported, and what is left."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.generalization.handles"],
        input=json.dumps({**USUAL, **order}),
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    main()
