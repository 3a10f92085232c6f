"""Processes that use a ledger and are ended at a bad moment.

Run as a script, this is a nursery: a process with one thread that forks short-lived
workers and ends them. (Forking pytest itself, with its threads, would not be safe.)
Workers write what they saw to a diary, a file that survives them; `findings` compares
the diary with the ledger.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from reticent.errors import LedgerError
from reticent.ledger import Outcome, Receipt, Request, SQLLedger
from reticent.ledger.sql import engines, statements
from reticent.ledger.sql import pipeline as journeys
from tests.ledger.accounts_and_requests import (
    DATASET,
    EVERYBODY,
    MEMORY,
    asking,
    opened,
)
from tests.ledger.faulty_disk import Fault, FaultyDisk

KILLED = 9
_RETRIED = 3


class Diary:
    """Lines that survive a killed process; each is one write to an appended file.

    A kill can cut a write short where it crosses a page. Such a line has no end mark:
    the process did not get beyond it, so nothing was noted.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.listener: int | None = None

    def note(self, what: str, key: str, detail: str = "") -> None:
        os.write(self._handle, f"\n{what} {key} {detail} .".encode())
        self.tell()

    def tell(self) -> None:
        """Let whoever waits to kill us know that something happened."""
        if self.listener is not None:
            os.write(self.listener, b"!")

    def lines(self) -> list[list[str]]:
        lines = self._path.read_text().splitlines()
        return [line.split(" ")[:3] for line in lines if line.endswith(" .")]


def serve(ledger: SQLLedger, diary: Diary, key: str, *, broken: str = "") -> None:
    """Answer one request as a service does, or as it must not (`broken`)."""
    request = asking(key, key[-3:].encode(), memory=MEMORY if "m" in key else None)
    token = os.urandom(8).hex()
    if key[1:2] == "a" and not broken:
        serve_at_once(ledger, diary, request, token)
        return
    if broken == "reply first":
        diary.note("replied", key, token)
        os.kill(os.getpid(), signal.SIGKILL)
    if broken == "acknowledge first":
        diary.note("charged", key)
        os.kill(os.getpid(), signal.SIGKILL)
    receipt = ledger.charge(request)
    if receipt.sequence is not None:
        diary.note("charged", key)
    if broken == "draw again" and receipt.outcome is Outcome.SPENT:
        diary.note("drawn", key, token)
    if receipt.outcome is Outcome.DRAW:
        diary.note("drawn", key, token)
        if broken == "draw again":
            os.kill(os.getpid(), signal.SIGKILL)
        receipt = ledger.settle(receipt, [token.encode()])
    if receipt.outcome is Outcome.ANSWERED:
        (answer,) = receipt.answers
        diary.note("replied", key, (answer or b"").decode())


def serve_at_once(
    ledger: SQLLedger, diary: Diary, request: Request, token: str
) -> None:
    """Answer one request as a service does that leaves the order to the ledger."""

    def draw(asked: Sequence[tuple[str, Receipt]]) -> list[list[bytes]]:
        for key, _ in asked:
            diary.note("charged", key)
            diary.note("drawn", key, token)
        return [[token.encode()] for _ in asked]

    receipt = asyncio.run(ledger.aanswer(request, draw, request.key))
    if receipt.outcome is Outcome.ANSWERED:
        (answer,) = receipt.answers
        diary.note("replied", request.key, (answer or b"").decode())


def work(url: str, diary: Diary, seed: int, *, broken: str = "") -> None:
    """Retry what earlier workers left, then go on with new keys until killed."""
    with SQLLedger(url) as ledger:
        diary.tell()
        recent = list(dict.fromkeys(line[1] for line in diary.lines()))[-_RETRIED:]
        for key in recent:
            serve(ledger, diary, key, broken=broken)

        def loop(thread: int) -> None:
            for number in range(10**9):
                kind = ("m" if number % 2 else "k") + "a" * thread
                serve(
                    ledger, diary, f"{kind}{seed}.{thread}.{number:02d}", broken=broken
                )

        threads = [threading.Thread(target=loop, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def forked(action: Any) -> int:
    """Run `action` in a child; return the child."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            action()
        os._exit(0)
    return child


def kill_repeatedly(url: str, diary: Diary, kills: int, seed: int) -> int:
    """Kill worker after worker at random points; return how many died of it.

    A point is a number of things that happened and a random time on top, so that
    kills fall everywhere however fast the machine is.
    """
    chance, died = random.Random(seed), 0
    for number in range(kills):
        listen, diary.listener = os.pipe()
        child = forked(lambda n=number: work(url, diary, n))
        os.close(diary.listener)
        for _ in range(chance.randrange(12)):
            os.read(listen, 1)
        time.sleep(chance.uniform(0.0, 0.008))
        os.kill(child, signal.SIGKILL)
        os.close(listen)
        _, status = os.waitpid(child, 0)
        died += os.WIFSIGNALED(status)
    diary.listener = None
    return died


def lose_power_after_the_reply(url: str, diary: Diary) -> int:
    """Serve one request to the end, then lose power; return the exit code."""

    def action() -> None:
        disk = FaultyDisk(Fault.POWER, at=-1)
        with SQLLedger(url) as ledger:
            serve(ledger, diary, "k1")
            disk.at = disk.count + 1
            disk.boundary()

    _, status = os.waitpid(forked(action), 0)
    return os.waitstatus_to_exitcode(status)


def fail_everywhere(url: str, diary: Diary, fault: str) -> dict[str, Any]:
    """Run one request again and again, with a fault at each write boundary in turn.

    Returns how many boundaries there are, in how many runs the process ended or the
    request failed there, and how often anything was answered after a failure.
    """
    counts = {"boundaries": 0, "ended": 0, "failed": 0, "late": 0, "after": 0}
    for way in ("m", "ma"):  # step by step, and at once
        _fail_everywhere(url, diary, fault, way, counts)
    return counts


def _fail_everywhere(
    url: str, diary: Diary, fault: str, way: str, counts: dict[str, int]
) -> None:
    for at in count(1):
        # Queries, the ends of keys, that nobody asked before.
        key = f"{way}{fault}.{at + 500 * (way == 'ma'):03d}"
        read, write = os.pipe()

        def action(at: int = at, key: str = key, write: int = write) -> None:
            disk: Any = (
                Statements(at) if fault == "statement" else FaultyDisk(Fault(fault), at)
            )
            told = _one_request(url, diary, key, disk)
            os.write(write, json.dumps({"fired": disk.fired, **told}).encode())

        child = forked(action)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            told = json.loads(pipe.read() or "{}")
        _, status = os.waitpid(child, 0)
        ended = os.waitstatus_to_exitcode(status) == KILLED
        with SQLLedger(url) as ledger:  # on a good disk, the same request again
            serve(ledger, diary, key)
        if not ended and not told["fired"]:
            return
        counts["boundaries"] += 1
        counts["ended"] += ended
        counts["failed"] += told.get("failed", 0)
        counts["late"] += told.get("late", 0)
        counts["after"] += told.get("after", 0)


def _one_request(url: str, diary: Diary, key: str, disk: Any) -> dict[str, int]:
    """Serve one request on a failing disk, then try others; count late answers."""
    failed = late = after = 0
    with SQLLedger(url) as ledger:
        disk.count = 0  # opening only reads; the boundaries are those of the request
        try:
            serve(ledger, diary, key)
        except LedgerError:
            failed = 1
            for number in range(3):
                with contextlib.suppress(LedgerError):
                    serve(ledger, diary, f"{key}late{number}")
                    late += 1
        else:
            # What still happens, at the close, concerns nobody who was answered.
            after = int(not disk.fired)
            disk.boundary()
    return {"failed": failed, "late": late, "after": after}


class Watched:
    """A driver's connection that tells of every statement, before and after."""

    def __init__(self, driver: Any, tell: Callable[[], None]) -> None:
        self.tell, self.driver = tell, driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    def execute(self, *statement: Any) -> Any:
        return self.told(self.driver.execute, statement)

    def executemany(self, *statement: Any) -> Any:
        return self.told(self.driver.executemany, statement)

    def told(self, run: Callable[..., Any], statement: tuple[Any, ...]) -> Any:
        self.tell()
        done = run(*statement)
        self.tell()
        return done


class Statements:
    """Ends the process before or after a chosen statement or commit."""

    def __init__(self, at: int) -> None:
        from sqlalchemy import Engine, event

        self.at, self.count, self.fired = at, 0, False
        for name in ("before_cursor_execute", "after_cursor_execute"):
            event.listen(Engine, name, lambda *_: self.boundary())
        for name in ("begin", "commit", "rollback"):
            event.listen(Engine, name, lambda _: self.boundary())
        given = statements._driver

        def watched(connection: Any) -> Watched:
            return Watched(given(connection), self.boundary)

        statements._driver = watched
        send = journeys._send

        def sent(connection: Any, *statement: Any) -> bool:
            self.boundary()
            prepares = send(connection, *statement)
            # Have the server run it now, not when the journey is complete.
            connection.send_flush_request()
            while connection.flush():
                pass
            select.select([connection.socket], [], [])
            connection.consume_input()
            self.boundary()
            return prepares

        journeys._send = sent

    def boundary(self) -> None:
        self.count += 1
        if self.count == self.at:
            os._exit(KILLED)


def fill_the_disk(url: str, diary: Diary) -> dict[str, Any]:
    """Work under a limit on file sizes until it bites, and on."""
    size = os.path.getsize(url.removeprefix("sqlite:///"))
    read, write = os.pipe()

    def action() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20_000, size + 20_000))
        stopped, late = False, 0
        with SQLLedger(url) as ledger:
            for number in range(300):
                try:
                    serve(ledger, diary, f"k{number}")
                    late += stopped
                except LedgerError:
                    stopped = True
        os.write(write, json.dumps({"stopped": stopped, "late": late}).encode())

    child = forked(action)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return dict(json.loads(told))


def findings(url: str, diary: Diary) -> dict[str, int]:
    """Compare diary and ledger; every number but `charges` and `replies` must be 0."""
    seen: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for what, key, detail in diary.lines():
        seen[what][key].append(detail)
    with SQLLedger(url) as ledger:
        verified = ledger.verify()
        keys = {e.request: e for e in ledger.entries() if e.kind == "charge"}
        spent = {str(b.account): b.spent.answers for b in ledger.balances()}
        stored = {
            key: ledger.charge(asking(key, key[-3:].encode(), memory=_memory(key)))
            for key in seen["replied"].keys() | seen["drawn"].keys()
            if key in keys
        }
    paid = Counter(name for entry in keys.values() for name in entry.costs())
    free = {key for key in seen["replied"] if key not in seen["drawn"]}
    return {
        "charges": verified.charges,
        "replies": len(seen["replied"]),
        "lost charges": len(seen["charged"].keys() - keys.keys()),
        "draws without a charge": len(seen["drawn"].keys() - keys.keys()),
        "double draws": sum(len(tokens) > 1 for tokens in seen["drawn"].values()),
        "changed answers": sum(len(set(a)) > 1 for a in seen["replied"].values()),
        "lost answers": sum(
            stored[key].answers != (answers[0].encode(),)
            for key, answers in seen["replied"].items()
            if key in stored
        ),
        "answers nobody drew": len(
            {a for key in free for a in seen["replied"][key]}
            - {token for tokens in seen["drawn"].values() for token in tokens}
        ),
        "wrong totals": sum(spent[str(a)] != paid[str(a)] for a in EVERYBODY),
    }


def _memory(key: str) -> str | None:
    return MEMORY if "m" in key else None


def main() -> None:
    """Take orders as JSON from standard input, report as JSON."""
    order = json.load(sys.stdin)
    weaker = os.environ.get("RETICENT_TEST_SYNCHRONOUS")
    if weaker:  # for a control: what if the ledger asked less of SQLite?
        engines.sqlite_settings = lambda: tuple(weaker.split())
    url, diary = order["url"], Diary(Path(order["diary"]))
    with SQLLedger(url) as ledger:
        opened(ledger, epsilon=10_000.0)
        assert ledger.balance(DATASET).spent.answers == 0
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page
    done: Any
    if order["act"] == "kill":
        done = kill_repeatedly(url, diary, order["kills"], order["seed"])
    elif order["act"] == "broken":
        for number in range(2):
            # Whatever is broken, the worker kills itself at it.
            child = forked(lambda n=number: work(url, diary, n, broken=order["how"]))
            os.waitpid(child, 0)
        done = 2
    elif order["act"] == "power":
        done = lose_power_after_the_reply(url, diary)
    elif order["act"] == "limit":
        done = fill_the_disk(url, diary)
    else:
        done = fail_everywhere(url, diary, order["fault"])
    report = {"done": done, "findings": findings(url, diary)}
    sys.stdout.write(json.dumps(report))


def nursery(**order: Any) -> dict[str, Any]:
    """Start a nursery with an order; return its report."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.ledger.crashes"],
        input=json.dumps(
            {key: str(v) if isinstance(v, Path) else v for key, v in order.items()}
        ),
        cwd=Path(__file__).parents[2],
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    main()
