"""What durable charges cost, what sharing commits saves, how fast a start is.

Requests per second (one charge and one stored answer each) with 32 threads: durable
commits shared (group commit), one durable commit per operation, a checkpoint signed
with every commit, no durability. The modes take turns, so their ratios are of one run.
Then the verified start of a long ledger, with its memory, and how much slower a long
ledger charges than an empty one, both with a signed checkpoint for every commit.

    python benchmarks/speed/bench_ledger.py [--quick] [--only PART]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from reticent.ledger import (
    AccountId,
    AccountScope,
    Cap,
    Charge,
    Ledger,
    MemoryLedger,
    Outcome,
    Request,
    SQLLedger,
)
from reticent.ledger.decisions import charge, settle
from reticent.ledger.sql.state import flush, load
from reticent.ledger.sql.store import Store
from reticent.ledger.state import Needs
from tests.postgres import NoPostgresError, PostgresServer

THREADS = 32
_EMPTY_FOR = 7  # rounds
DATASET = AccountId(AccountScope.DATASET, "d")
MODEL = AccountId(AccountScope.MODEL, "m")
CLIENTS = [AccountId(AccountScope.CLIENT, f"c{i}") for i in range(THREADS)]
STEP = Charge.loss(epsilon=1e-6, certificate="step")
ROOM = Cap.basic(epsilon=1000.0)


def request(thread: int, number: int) -> Request:
    key = f"{thread}.{number}"
    return Request(
        key=key,
        accounts=(DATASET, MODEL, CLIENTS[thread]),
        charge=STEP,
        queries=(key.encode(),),
        memory="d/m",
    )


def opened(ledger: Ledger) -> Ledger:
    for account in (DATASET, MODEL, *CLIENTS):
        ledger.open_account(account, ROOM)
    return ledger


def serve(ledger: Ledger, thread: int, numbers: range) -> None:
    for number in numbers:
        receipt = ledger.charge(request(thread, number))
        if receipt.outcome is not Outcome.DRAW:
            raise RuntimeError("a benchmark request was seen before")
        ledger.settle(receipt, [b"yes"])


def bench_requests(ledger: Ledger, numbers: range) -> float:
    """Return requests per second with all threads at work."""
    threads = [
        threading.Thread(target=serve, args=(ledger, i, numbers))
        for i in range(THREADS)
    ]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return THREADS * len(numbers) / (time.perf_counter() - begun)


@contextmanager
def ledgers(new_url: Callable[[], str], folder: Path) -> Iterator[dict[str, Ledger]]:
    """Open one ledger per mode, each in a database of its own."""
    signed = {"checkpoints": folder / "checkpoint", "signer": b"k" * 32}
    modes: dict[str, Ledger] = {
        "group": opened(SQLLedger(new_url())),
        "one commit each": opened(SQLLedger(new_url(), largest_commit=1)),
        "group, checkpointed": opened(SQLLedger(new_url(), **signed)),
        "no durability": opened(MemoryLedger()),
    }
    try:
        yield modes
    finally:
        for ledger in modes.values():
            ledger.close()


def bench_modes(
    new_url: Callable[[], str], folder: Path, rounds: int
) -> dict[str, Any]:
    """Return requests per second by mode (medians of rounds), and their ratios."""
    # The slow mode gets fewer requests a round, so that rounds stay short.
    each = 20 if rounds > 2 else 8
    sizes = {"one commit each": each // 5}
    seen: dict[str, list[float]] = {}
    with ledgers(new_url, folder) as modes:
        for number in range(rounds):
            for name, ledger in modes.items():
                size = sizes.get(name, each)
                numbers = range(number * size, (number + 1) * size)
                seen.setdefault(name, []).append(bench_requests(ledger, numbers))
    rate = {name: statistics.median(rates) for name, rates in seen.items()}
    return {
        "requests_per_second": {name: round(value, 1) for name, value in rate.items()},
        "ratios": {
            "group / one commit each": rate["group"] / rate["one commit each"],
            "group / no durability": rate["group"] / rate["no durability"],
            "checkpointed / group": rate["group, checkpointed"] / rate["group"],
        },
    }


def write_chain(url: str, requests: int) -> None:
    """Write a ledger of `requests` charges with their answers, in big commits."""
    with SQLLedger(url) as ledger:
        opened(ledger)
    store, done = Store(url), 0
    while done < requests:
        numbers = range(done, min(done + 20_000, requests))

        def work(connection: Any, numbers: range = numbers) -> None:
            names = {str(account) for account in (DATASET, MODEL, *CLIENTS)}
            page = load(connection, Needs(accounts=names))
            before = dict(page.accounts)
            for number in numbers:
                receipt = charge(page, request(number % THREADS, number))
                settle(page, receipt, [b"yes"])
            flush(connection, page, before)

        store.write(work)
        done = numbers.stop
    store.close()


STARTER = """
import json, resource, sys, time
from reticent.ledger import SQLLedger
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
url, start, place = sys.argv[1:]
settings = {"checkpoints": place, "signer": b"k" * 32, "first_checkpoint": True}
before, begun, worked = peak(), time.perf_counter(), time.process_time()
with SQLLedger(url, start=start, **settings) as ledger:
    result = {
        "seconds": round(time.perf_counter() - begun, 3),
        "processor_seconds": round(time.process_time() - worked, 3),
        "mebibytes": peak() - before,
    }
print(json.dumps(result))
"""


def bench_start(url: str, place: Path, start: str) -> dict[str, float]:
    """Open a ledger in a fresh process; return seconds and growth in memory.

    Processor time is told apart, because other work on the machine delays a start.
    """
    done = subprocess.run(
        [sys.executable, "-c", STARTER, url, start, str(place)],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def bench_length(
    new_url: Callable[[], str], folder: Path, sizes: list[int], rounds: int
) -> list[dict[str, Any]]:
    """Return how starts and charges slow down with the length of a ledger."""
    results = []
    for requests in sizes:
        url = new_url()
        write_chain(url, requests)
        place = folder / f"{requests}.checkpoint"
        results.append(
            {
                "entries": 2 * requests + THREADS + 3,
                "full": bench_start(url, place, "full"),
                "tail": bench_start(url, place, "tail"),
                "charges": bench_charges(url, place, new_url, rounds),
            }
        )
        place.unlink()
    return results


def bench_charges(
    long: str, place: Path, new_url: Callable[[], str], rounds: int
) -> dict[str, float]:
    """Return requests per second of a long ledger and of an empty one, in turns.

    A ledger counts as empty for a few rounds; then another one takes its place. A round
    is short and pauses of the disk are not, so a median of fewer than thirty changes by
    a twentieth from one run to the next.
    """
    each, ratios, rates = 40 if rounds > 2 else 8, [], []
    signer = b"k" * 32
    other = place.with_suffix(".empty")
    with SQLLedger(long, checkpoints=place, signer=signer, start="tail") as grown:
        for first in range(0, rounds, _EMPTY_FOR):
            other.unlink(missing_ok=True)
            with SQLLedger(new_url(), checkpoints=other, signer=signer) as fresh:
                opened(fresh)
                for number in range(first, min(first + _EMPTY_FOR, rounds)):
                    # Keys that the long ledger does not hold yet.
                    numbers = range(10**7 + number * each, 10**7 + (number + 1) * each)
                    pair = [bench_requests(one, numbers) for one in (grown, fresh)]
                    rates.append(pair)
                    ratios.append(pair[0] / pair[1])
    other.unlink()
    return {
        "per_second": round(statistics.median(pair[0] for pair in rates), 1),
        "empty_per_second": round(statistics.median(pair[1] for pair in rates), 1),
        "long / empty": round(statistics.median(ratios), 3),
        "rounds": rounds,
    }


PARTS = ("modes", "length")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--only", choices=PARTS)
    given = parser.parse_args()
    parts = PARTS if given.only is None else (given.only,)
    rounds = 2 if given.quick else 35
    sizes = [2_000, 8_000] if given.quick else [125_000, 500_000]
    result: dict[str, Any] = {"threads": THREADS, "rounds": rounds}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = iter(range(1000))

        def sqlite_url() -> str:
            return f"sqlite:///{folder / f'bench{next(count)}.db'}"

        bench_parts(result, "sqlite", sqlite_url, folder, parts, sizes, rounds)
        try:
            server = PostgresServer()
        except NoPostgresError as reason:
            result["postgresql"] = f"not measured: {reason}"
        else:
            with contextlib.closing(server), contextlib.ExitStack() as stack:

                def postgresql_url() -> str:
                    return stack.enter_context(server.database())

                bench_parts(
                    result, "postgresql", postgresql_url, folder, parts, sizes, rounds
                )
    result["peak_mebibytes"] = (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    )
    print(json.dumps(result, indent=2))


def bench_parts(
    result: dict[str, Any],
    name: str,
    new_url: Callable[[], str],
    folder: Path,
    parts: Sequence[str],
    sizes: list[int],
    rounds: int,
) -> None:
    """Measure one kind of database."""
    if "modes" in parts:
        result[name] = bench_modes(new_url, folder, rounds)
        (folder / "checkpoint").unlink()
    if "length" in parts:
        found = bench_length(new_url, folder, sizes, rounds)
        result["start" if name == "sqlite" else f"start, {name}"] = found


if __name__ == "__main__":
    main()
