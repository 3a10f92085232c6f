"""Many processes that compete for the last slots of one account.

Run as a script like `tests.ledger.crashes`: one thread that forks all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from sqlalchemy import select, update

from reticent.errors import BudgetExhaustedError
from reticent.ledger import Balance, Ledger, MemoryLedger, Request, SQLLedger
from reticent.ledger.sql import schema
from reticent.ledger.sql.store import Store
from tests.ledger.accounts_and_requests import DATASET, MODEL, asking, opened

WORKERS = 64


class CheckThenSpend:
    """The mistake to find: it looks at the balance, and writes it back later."""

    def __init__(self, url: str) -> None:
        self._store = Store(url)

    def charge(self, request: Request) -> None:
        accounts, cost = schema.accounts, request.charge.epsilon or 0
        here = accounts.c.name == str(DATASET)
        with self._store.reading() as connection:
            row = connection.execute(select(accounts).where(here)).one()
        if row.spent_epsilon + cost > row.limit_epsilon:
            raise BudgetExhaustedError("nothing left")
        time.sleep(0.001)
        changed = (
            update(accounts).where(here).values(spent_epsilon=row.spent_epsilon + cost)
        )
        self._store.write(lambda connection: connection.execute(changed))

    def close(self) -> None:
        self._store.close()


class CheckThenSpendInMemory(MemoryLedger):
    """The same mistake between threads."""

    def charge(self, request: Request) -> Any:
        seen = self.balance(DATASET)
        if not seen.answers_left(request.charge):
            raise BudgetExhaustedError("nothing left")
        time.sleep(0.001)
        spent = seen.spent.plus(seen.cap.cost(request.charge, 1))
        with self._locked_state() as state:
            state.accounts[str(DATASET)] = Balance(DATASET, seen.cap, spent)


def rush(ledger: Any, name: str, tries: int) -> int:
    """Charge until refused or tired; return how often it worked."""
    won = 0
    for number in range(tries):
        try:
            ledger.charge(asking(f"{name}.{number}", accounts=(DATASET, MODEL)))
            won += 1
        except BudgetExhaustedError:
            pass
    return won


def threads_rush(ledger: Ledger, tries: int) -> int:
    """Let 64 threads rush; return how many charges went through."""
    won: list[int] = []
    gate = threading.Barrier(WORKERS)

    def run(number: int) -> None:
        gate.wait()
        won.append(rush(ledger, f"t{number}", tries))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(won)


def processes_rush(url: str, tries: int, *, broken: bool) -> int:
    """Let 64 processes rush, all let go at once; return how many charges won."""
    gate_read, gate = os.pipe()
    report_read, report = os.pipe()
    children = []
    for number in range(WORKERS):
        child = os.fork()
        if child == 0:
            os.close(gate)
            ledger: Any = CheckThenSpend(url) if broken else SQLLedger(url)
            os.write(report, b"r")
            os.read(gate_read, 1)  # returns when the parent closes the gate
            won = rush(ledger, f"p{number}", tries)
            ledger.close()
            os.write(report, b"w" * won + b"d")
            os._exit(0)
        children.append(child)
    os.close(report)
    seen = b""
    while seen.count(b"r") < WORKERS:
        seen += os.read(report_read, 65536)
    os.close(gate)
    while chunk := os.read(report_read, 65536):
        seen += chunk
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * WORKERS, codes
    return seen.count(b"w")


def main() -> None:
    order = json.load(sys.stdin)
    with SQLLedger(order["url"]) as ledger:
        opened(ledger, epsilon=order["slots"] / 10)
    won = processes_rush(order["url"], order["tries"], broken=order["broken"])
    sys.stdout.write(json.dumps({"won": won}))


def charge_from_many_processes(**order: Any) -> int:
    """Start many processes; return how many of their charges went through."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.ledger.concurrent_charges"],
        input=json.dumps(order),
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return int(json.loads(done.stdout)["won"])


if __name__ == "__main__":
    main()
