"""What durability and privacy cost a service, and what a service can do.

One row a request through a 250-model linear ensemble, every charge and every answer
durable and checkpoints on, as in a default home, against

- bare: the same application with no ledger and no model,
- floor: the same server with an application that reads and sends the same bytes,
  without framework.

All in one run, in turns, on SQLite and PostgreSQL with 1 and 2 workers, with 32
connections and with 128. Then the time of an answer at 200 requests a second and at
60 % of the highest rate; and for a ledger of 10^6 entries, the processor time of a
verified start and the rate against that of an empty one. Prints one JSON object, with
the aims and whether they are met. Takes about ten minutes.

A percentile is the median of those of short turns, so that one pause of the machine
does not decide it; the floor has turns at the same rate in between, and its percentile
says what the machine itself does to an answer.

    python benchmarks/speed/bench_service.py [--quick] [--output FILE]

A busy machine spoils this more than most: a sync of the disk then waits for a
processor. `busy_before` says how much of the processors others used just before, and
`stolen_s` how long a host kept this machine from them while answers were timed.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).parents[2]))


from benchmarks.speed.bench_ledger import bench_charges, bench_start, write_chain
from benchmarks.speed.http_load import (
    CONCURRENCY,
    busy,
    load,
    processor_seconds,
    steady,
    stolen_seconds,
)
from benchmarks.speed.service_applications import PLENTY
from reticent.datasets import load_adult_sample
from reticent.home import BudgetSettings, Settings, SQLKeys, cap_of, client_account
from reticent.ledger import Balance
from reticent.prediction import PrivateVotingClassifier
from reticent.schemas import Encoder
from reticent.signing import new_key
from reticent.storage import save_model

HERE = Path(__file__)
N_MODELS = 250
EPSILON = 0.1
MANY = 128


# ----- the servers -----------------------------------------------------------


FACTORIES = {
    "floor": "benchmarks.speed.service_applications:floor_application",
    "bare": "benchmarks.speed.service_applications:bare_application",
    "durable": "reticent.service.serving:application",
}


@contextlib.contextmanager
def server(config: Path, kind: str, workers: int) -> Iterator[tuple[int, int]]:
    """Run a server in processes of its own; give its port and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    call = f"run({FACTORIES[kind]!r}, port={port}, workers={workers}"
    code = f"from reticent.service.serving import run; {call}, log_level='critical')"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "RETICENT_CONFIG": str(config)}
    with (config.parent / "server.log").open("ab") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=HERE.parents[2], stderr=log, stdout=log
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/v2/health/ready", process)
        time.sleep(1.0)  # for the other workers
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), urllib.request.urlopen(url) as answer:
            if answer.status == 200:
                return
        if process.poll() is not None:
            raise SystemExit("the server did not start")
        time.sleep(0.1)
    raise SystemExit("the server did not become ready")


# ----- the comparison --------------------------------------------------------


def prepare(folder: Path, ledger: str, model: Path, key: str) -> tuple[Path, str]:
    """Write settings and make an API key; return both."""
    config = folder / "settings.json"
    # On the disk that `--folder` names; each comparison has a ledger of its own.
    second_place = model.parent / f"{folder.name}.checkpoint"
    settings = {
        "models": {"adult": str(model)},
        "datasets": {"adult": PLENTY},
        "ledger": ledger,
        "checkpoints": str(second_place),
        "secret": new_key(),
        "model_key": key,
        "rate": 0,
    }
    config.touch(0o600)
    config.write_text(json.dumps(settings))
    loaded = Settings.load(config)
    book = loaded.open_ledger()
    cap = cap_of(BudgetSettings(**PLENTY), "replace-one")
    balance: Balance = book.open_account(client_account("load"), cap)
    assert balance.cap == cap
    book.close()
    store = SQLKeys(ledger)
    text, _ = loaded.keyring(store).create("load")
    store.close()
    return config, text


Runs: TypeAlias = dict[str, list[dict[str, float]]]


def compare(
    ledger: str,
    model: Path,
    key: str,
    row: dict[str, Any],
    workers: int,
    quick: bool,
    helpers: list[int],
) -> dict[str, Any]:
    """Measure the servers in turns; report medians, and the median ratio of a turn.

    Turns are short: a machine that works faster at times does so for all of them.
    """
    seconds, turns = (1, 2) if quick else (2, 5)  # wrk takes whole seconds
    with (
        tempfile.TemporaryDirectory(prefix="reticent-bench-") as name,
        contextlib.ExitStack() as stack,
    ):
        config, api_key = prepare(Path(name), ledger, model, key)
        running = {
            kind: stack.enter_context(server(config, kind, workers))
            for kind in FACTORIES
        }

        def take_turns(connections: int, turns: int) -> Runs:
            runs: Runs = {kind: [] for kind in FACTORIES}
            for _ in range(turns):
                for kind, (port, process) in running.items():
                    used = processor_seconds([process, *helpers])
                    done = load(port, api_key, row, seconds, connections=connections)
                    used = processor_seconds([process, *helpers]) - used
                    done["cpu_us"] = used / (done["per_second"] * seconds) * 1e6
                    runs[kind].append(done)
            return runs

        for port, _ in running.values():
            load(port, api_key, row, 1)
        before = busy(0.5)
        few = take_turns(CONCURRENCY, turns)
        many = take_turns(MANY, max(2, turns // 3))
        top = statistics.median(run["per_second"] for run in few["durable"])
        calm: dict[str, Any] = {}
        for name, rate in (("200/s", 200.0), ("60 % of the top", 0.6 * top)):
            times: dict[str, list[float]] = {"durable": [], "floor": []}
            stolen = stolen_seconds()
            for _ in range(turns):
                for kind, found in times.items():
                    port = running[kind][0]
                    done = steady(port, api_key, row, rate, 2 * seconds)
                    found.append(round(done["p99_ms"], 2))
            stolen = stolen_seconds() - stolen
            calm[f"p99_ms at {name}"] = statistics.median(times["durable"])
            calm[f"p99_ms at {name}, each turn"] = times["durable"]
            calm[f"p99_ms at {name}, floor"] = statistics.median(times["floor"])
            # Pauses of the whole machine decide a percentile if there are any.
            calm[f"stolen_s at {name}"] = round(stolen, 2)
    return {
        **summary(few),
        **calm,
        f"{MANY} connections": summary(many),
        "turns": turns,
        "busy_before": round(before, 2),
    }


def summary(results: Runs) -> dict[str, Any]:
    """Return medians per server, and the medians of ratios within a turn."""
    fields = ("per_second", "p50_ms", "p99_ms", "errors", "cpu_us")
    found: dict[str, Any] = {
        kind: {
            field: round(statistics.median(run[field] for run in runs), 2)
            for field in fields
        }
        for kind, runs in results.items()
    }

    def ratios(over: str, under: str, field: str = "per_second") -> list[float]:
        pairs = zip(results[over], results[under], strict=True)
        return [a[field] / b[field] for a, b in pairs]

    each = ratios("durable", "bare")
    found["durable / bare"] = round(statistics.median(each), 3)
    found["durable / bare, lowest and highest"] = [
        round(min(each), 3),
        round(max(each), 3),
    ]
    for over, under in (("durable", "floor"), ("bare", "floor")):
        found[f"{over} / {under}"] = round(statistics.median(ratios(over, under)), 3)
    used = ratios("bare", "durable", "cpu_us")
    found["bare / durable, processor time"] = round(statistics.median(used), 3)
    return found


def long_ledger(
    new_url: Callable[[], str], folder: Path, quick: bool
) -> dict[str, Any]:
    """Return the verified start of a long ledger, and its rate against an empty one."""
    requests, url = (5_000 if quick else 500_000), new_url()
    write_chain(url, requests)
    place = folder / "long.checkpoint"
    place.unlink(missing_ok=True)
    start = bench_start(url, place, "full")
    charges = bench_charges(url, place, new_url, 3 if quick else 35)
    return {"entries": 2 * requests, "start": start, "charges": charges}


def aims(result: dict[str, Any]) -> dict[str, Any]:
    """Return what is aimed at, what was measured, and whether that is enough."""
    found = {}
    for name, part in result.items():
        if not isinstance(part, dict):
            continue
        if "durable / bare" in part:
            for what, aim in (("durable / bare", 0.8), ("durable / floor", 0.45)):
                found[f"{name}: {what}"] = [aim, part[what], part[what] >= aim]
            for what in ("p99_ms at 200/s", "p99_ms at 60 % of the top"):
                found[f"{name}: {what}"] = [50, part[what], part[what] <= 50]
        elif "start" in part:
            used = part["start"]["processor_seconds"]
            found[f"{name}: start, processor seconds"] = [10, used, used <= 10]
            kept = part["charges"]["long / empty"]
            found[f"{name}: rate, long / empty"] = [0.9, kept, kept >= 0.9]
    return found


def train(folder: Path, key: str) -> tuple[Path, dict[str, Any]]:
    """Store 250 logistic models; return their directory and a row."""
    columns, schema = load_adult_sample()
    table, encoder = schema.table(columns, labelled=True), Encoder(schema)
    model = PrivateVotingClassifier(
        LogisticRegression(), EPSILON, schema.classes, n_shards=N_MODELS
    ).fit(encoder.transform(table), schema.classes[table.label])
    save_model(folder / "adult", model, schema, signing_key=key, dataset="adult")
    row = {name: columns[name].tolist()[0] for name in schema.columns}
    return folder / "adult", row


def postgresql(
    model: Path, key: str, row: dict[str, Any], workers: list[int], quick: bool
) -> dict[str, Any]:
    """Measure on one PostgreSQL with several numbers of workers."""
    from tests.postgres import NoPostgresError, PostgresServer

    try:
        started = PostgresServer()
    except NoPostgresError as reason:
        return {"postgresql": f"not measured: {reason}"}
    found = {}
    with contextlib.closing(started), contextlib.ExitStack() as stack:
        process = (started.folder / "data" / "postmaster.pid").read_text().split()[0]
        for number in workers:
            with started.database() as url:
                found[f"postgresql, {number} workers"] = compare(
                    url, model, key, row, number, quick, [int(process)]
                )
        found["postgresql, long ledger"] = long_ledger(
            lambda: stack.enter_context(started.database()), model.parent, quick
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="shorter, less certain")
    parser.add_argument("--folder", help="where the SQLite file goes: a real disk")
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--output", type=Path, help="also write the result there")
    given = parser.parse_args()
    key = new_key()
    result: dict[str, Any] = {
        "concurrency": CONCURRENCY,
        "models": N_MODELS,
        "load": "wrk" if shutil.which("wrk") else "python",
        "cores": os.cpu_count(),
        "sqlite_version": sqlite3.sqlite_version,
    }
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        model, row = train(Path(name), key)
        if given.only != "postgresql":
            for number in given.workers:
                url = f"sqlite:///{name}/ledger-{number}.db"
                label = "sqlite" if number == 1 else f"sqlite, {number} workers"
                result[label] = compare(url, model, key, row, number, given.quick, [])
            count = itertools.count()
            result["sqlite, long ledger"] = long_ledger(
                lambda: f"sqlite:///{name}/long-{next(count)}.db",
                Path(name),
                given.quick,
            )
        if given.only != "sqlite":
            result.update(postgresql(model, key, row, given.workers, given.quick))
    result["aims"] = aims(result)
    text = json.dumps(result, indent=2)
    if given.output is not None:
        given.output.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
