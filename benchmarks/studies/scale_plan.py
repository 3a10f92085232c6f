"""How many replicas 10,000 queries a second need, and what 10^9 entries cost.

Costs of a commit, an entry and a checkpoint are measured on this machine; a simulation
of requests, processors, group commits and the one lock of a chain turns them into
throughput and latency for machines that are not at hand.

    python -m benchmarks.studies.scale_plan [--quick] [--output FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import itertools
import json
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed.bench_ledger import DATASET, MODEL, request, write_chain
from benchmarks.speed.bench_ledger import opened as with_accounts
from benchmarks.speed.http_load import busy
from reticent.ledger import SQLLedger
from reticent.ledger.checkpoints import FileCheckpoints, SignedCheckpoints
from reticent.ledger.operations import charging, settling
from reticent.ledger.sql.opening import replay
from reticent.ledger.sql.state import checkpoint_of
from reticent.ledger.sql.store import Store
from reticent.ledger.verification import ChainReplay
from reticent.signing import HMACSigner
from tests.postgres import NoPostgresError, PostgresServer

#: Seconds that a request costs a worker outside the ledger, where the benchmark of the
#: service has left no measurement.
WORKER_SECONDS = 450e-6
SERVICE = Path(__file__).parents[1] / "results" / "service.json"
LARGEST_COMMIT = 256
#: A sync of a disk for servers that keeps its word, in seconds.
SYNC_SECONDS = 1e-3


@dataclass(frozen=True)
class Costs:
    """Seconds that one commit of n operations takes: `fixed` + n * `each`."""

    fixed: float
    each: float

    def commit(self, operations: int) -> float:
        """Return the seconds of a commit."""
        return self.fixed + operations * self.each


# ----- what is measured -------------------------------------------------------


def commit_costs(url: str, rounds: int) -> Costs:
    """Fit the time of commits, charge and answer alike, against their sizes."""
    sizes = (1, 4, 16, 32)
    quickest = []
    with SQLLedger(url) as ledger:
        with_accounts(ledger)
        numbers = itertools.count()
        for size in sizes:
            seen = []
            for _ in range(rounds):
                number = next(numbers)
                asked = [charging(request(place, number)) for place in range(size)]
                begun = time.perf_counter()
                receipts = ledger._store.commit(asked).results
                answers = [settling(receipt, [b"yes"]) for receipt in receipts]
                ledger._store.commit(answers)
                seen.append((time.perf_counter() - begun) / 2)
            # The lower quartile: other work on the machine only ever adds.
            quickest.append(float(np.quantile(seen, 0.25)))
    each, fixed = np.polyfit(sizes, quickest, 1)
    return Costs(max(float(fixed), 0.0), max(float(each), 0.0))


def chain_costs(folder: Path, requests: int) -> dict[str, float]:
    """Return what an entry takes on disk and to verify, and a checkpoint to keep."""
    path = folder / "chain.db"
    url = f"sqlite:///{path}"
    write_chain(url, requests)
    entries = 2 * requests
    store = Store(url)
    begun = time.process_time()
    replay(store, ChainReplay())
    verifying = (time.process_time() - begun) / entries
    second = SignedCheckpoints(
        FileCheckpoints(folder / "second"), HMACSigner(b"k" * 32)
    )
    kept = []
    for number in range(20):
        with store.reading() as connection:
            found = checkpoint_of(connection)
        begun = time.perf_counter()
        second.keep(found, force=number > 0)
        kept.append(time.perf_counter() - begun)
    store.close()
    return {
        "bytes_per_entry": path.stat().st_size / entries,
        "verify_us_per_entry": verifying * 1e6,
        "checkpoint_ms": float(np.quantile(kept, 0.25)) * 1e3,
    }


# ----- what is simulated ------------------------------------------------------


class Clock:
    """Runs what is due, in order of time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._due, (self.now + seconds, next(self._count), action))

    def run(self, until: float) -> None:
        """Let time pass."""
        while self._due and self._due[0][0] <= until:
            self.now, _, action = heapq.heappop(self._due)
            action()


class Server:
    """Does one thing at a time, in the order of arrival: a worker, or a lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._busy = False
        self.used = 0.0

    def serve(self, seconds: float, done: Callable[[], None]) -> None:
        """Be busy for some time, then tell."""
        self._waiting.append((seconds, done))
        if not self._busy:
            self._next()

    def _next(self) -> None:
        self._busy = bool(self._waiting)
        if self._busy:
            seconds, done = self._waiting.popleft()
            self.used += seconds

            def end() -> None:
                done()
                self._next()

            self._clock.after(seconds, end)


class Writer:
    """Group commit of one worker on one chain, under the lock that workers share."""

    def __init__(self, lock: Server, costs: Costs) -> None:
        self._lock = lock
        self._costs = costs
        self._waiting: list[Callable[[], None]] = []
        self._busy = False
        self.commits = 0

    def submit(self, done: Callable[[], None]) -> None:
        """Add an operation to the next commit."""
        self._waiting.append(done)
        if not self._busy:
            self._commit()

    def _commit(self) -> None:
        batch = self._waiting[:LARGEST_COMMIT]
        self._waiting = self._waiting[LARGEST_COMMIT:]
        self._busy = bool(batch)
        if batch:
            self.commits += 1

            def durable() -> None:
                for done in batch:
                    done()
                self._commit()

            self._lock.serve(self._costs.commit(len(batch)), durable)


def simulate(
    rate: float, workers: int, chains: int, costs: Costs, work: float, seconds: float
) -> dict[str, float | None]:
    """Send Poisson requests to workers; return throughput and latency.

    A request takes half of `work` before its charge and half after its answer is
    durable. Every chain has one lock for all workers.
    """
    clock, chance = Clock(), random.Random(workers * 1000 + chains)
    loops = [Server(clock) for _ in range(workers)]
    locks = [Server(clock) for _ in range(chains)]
    writers = [[Writer(lock, costs) for lock in locks] for _ in range(workers)]
    times: list[float] = []
    warm = seconds / 3

    def arrive() -> None:
        clock.after(chance.expovariate(rate), arrive)
        begun, worker = clock.now, chance.randrange(workers)
        writer = writers[worker][chance.randrange(chains)]

        def reply() -> None:
            if begun >= warm:
                times.append(clock.now - begun)

        def answered() -> None:
            loops[worker].serve(work / 2, reply)

        loops[worker].serve(
            work / 2, lambda: writer.submit(lambda: writer.submit(answered))
        )

    arrive()
    clock.run(seconds)
    commits = sum(writer.commits for row in writers for writer in row)
    middle, late = np.quantile(times, [0.5, 0.99]) if times else (None, None)
    return {
        "workers": workers,
        "chains": chains,
        "answered_share": round(len(times) / (rate * (seconds - warm)), 3),
        "p50_ms": None if middle is None else round(1e3 * float(middle), 1),
        "p99_ms": None if late is None else round(1e3 * float(late), 1),
        "commits_per_second": round(commits / seconds, 0),
        "lock_used": round(max(lock.used for lock in locks) / seconds, 2),
        "worker_used": round(max(loop.used for loop in loops) / seconds, 2),
    }


def most_per_second(costs: Costs) -> float:
    """Return the most requests that one chain bears: two operations each."""
    return LARGEST_COMMIT / costs.commit(LARGEST_COMMIT) / 2


# ----- the plan ---------------------------------------------------------------


def worker_seconds() -> float:
    """Return what a request costs a worker without the ledger, as measured."""
    if SERVICE.exists():
        found = json.loads(SERVICE.read_text()).get("sqlite", {})
        if "bare" in found:
            return float(found["bare"]["cpu_us"]) * 1e-6
    return WORKER_SECONDS


def replicas(costs: Costs, quick: bool) -> dict[str, Any]:
    """Return the simulated rows for 10,000 requests a second."""
    work, seconds = worker_seconds(), 1.0 if quick else 3.0
    grid = [(8, 1), (8, 4), (8, 6), (8, 8), (16, 4), (16, 8), (16, 12)]
    return {
        "worker_us_per_request": round(work * 1e6),
        "most_per_chain": round(most_per_second(costs)),
        "rows": [
            simulate(10_000.0, workers, chains, costs, work, seconds)
            for workers, chains in grid
        ],
    }


def billion(chain: dict[str, float], costs: Costs) -> dict[str, Any]:
    """Return what 10^9 entries cost, whole and in segments."""
    entries = 1e9
    verify = chain["verify_us_per_entry"] * 1e-6
    commit, keep = costs.commit(64), chain["checkpoint_ms"] * 1e-3
    return {
        "gigabytes": round(entries * chain["bytes_per_entry"] / 1e9),
        "verify_hours_one_core": round(entries * verify / 3600, 2),
        "segment_entries": 10**7,
        "segments": 100,
        "segment_gigabytes": round(1e7 * chain["bytes_per_entry"] / 1e9, 1),
        "segment_verify_seconds": round(1e7 * verify, 1),
        "days_at_100_requests_a_second": round(entries / 2 / 100 / 86400),
        "checkpoints": [
            {
                "every_commits": every,
                "slowdown": round(1 + keep / commit / every, 3),
                "entries_a_rollback_may_hide": 64 * (every - 1),
            }
            for every in (1, 4, 16, 64)
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--output", type=Path, help="also write the result there")
    given = parser.parse_args()
    rounds = 8 if given.quick else 60
    result: dict[str, Any] = {
        "accounts": [str(DATASET), str(MODEL), "a client each"],
        "busy_before": round(busy(), 2),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        local = commit_costs(f"sqlite:///{folder / 'costs.db'}", rounds)
        chain = chain_costs(folder, 5_000 if given.quick else 100_000)
    result["sqlite"] = asdict(local)
    costs = local
    try:
        server = PostgresServer()
    except NoPostgresError as reason:
        result["postgresql"] = f"not measured: {reason}"
    else:
        with contextlib.closing(server), server.database() as url:
            costs = commit_costs(url, rounds)
        result["postgresql"] = asdict(costs)
    result["chain"] = {name: round(value, 3) for name, value in chain.items()}
    # An assumption, not a measurement: on a server's disk, the fixed part of a commit
    # (syncs and journeys) is at most three syncs. The part of each operation stays.
    planned = Costs(min(costs.fixed, 3 * SYNC_SECONDS), costs.each)
    result["planned"] = asdict(planned)
    result["10,000 a second"] = replicas(planned, given.quick)
    result["10^9 entries"] = billion(chain, planned)
    text = json.dumps(result, indent=2)
    if given.output is not None:
        given.output.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    sys.exit(main())
