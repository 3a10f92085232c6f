"""What durability and privacy cost a service: requests a second, with and without.

One row a request through a 250-model linear ensemble, every charge and every answer
durable, against the same application with no ledger and no model: both in one run, in
turns, at concurrency 32. SQLite and PostgreSQL with 1, 2 and 4 workers.
The floor is the same server with an application that reads and sends the same bytes,
without framework; "uvicorn" is that application on uvicorn's own protocol. Checkpoints
are on, as in a default home. Prints one JSON object.

    python benchmarks/speed/bench_service.py [--quick] [--output FILE]

A busy machine spoils this more than most: a sync of the disk then waits for a
processor. `busy_before` says how much of the processors others used just before.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).parents[2]))


from benchmarks.speed.http_load import (
    CONCURRENCY,
    busy,
    load,
    processor_seconds,
    steady,
)
from reticent.datasets import load_adult_sample
from reticent.home import BudgetSettings, Settings, SQLKeys, cap_of, client_account
from reticent.ledger import Balance, Outcome, Receipt, Request
from reticent.ledger.decisions import settled
from reticent.prediction import PrivateVotingClassifier
from reticent.schemas import Encoder
from reticent.signing import new_key
from reticent.storage import save_model

HERE = Path(__file__)
N_MODELS = 250
EPSILON = 0.1
# Budgets that no benchmark can spend.
PLENTY = {"epsilon": 1e8, "method": "basic"}


# ----- the servers -----------------------------------------------------------


class NoLedger:
    """Remembers nothing and refuses nothing: what the ledger's work is measured by."""

    def __init__(self) -> None:
        from reticent.ledger import MemoryLedger

        self._memory = MemoryLedger()
        plenty = cap_of(BudgetSettings(**PLENTY), "replace-one")
        self._balances = (Balance(client_account("load"), plenty),)
        self.balance = self._memory.balance
        self.balances = self._memory.balances
        self.open_account = self._memory.open_account

    async def acharge(self, request: Request) -> Receipt:
        places = tuple(range(len(request.queries)))
        return Receipt(
            key=request.key,
            outcome=Outcome.DRAW,
            sequence=1,
            entry_hash="",
            charge=request.charge,
            accounts={},
            remaining=self._balances,
            draw=places,
            answers=(None,) * len(places),
            places=places,
        )

    async def asettle(self, receipt: Receipt, answers: Any) -> Receipt:
        return settled(receipt, list(answers))

    async def aanswer(self, request: Request, draw: Any, about: Any) -> Receipt:
        receipt = await self.acharge(request)
        (answers,) = draw([(about, receipt)])
        return await self.asettle(receipt, answers)

    def close(self) -> None:
        self._memory.close()


def bare_application() -> Any:
    """Return the same application with no ledger and no model."""
    from reticent.home import open_registry
    from reticent.service import create_app
    from reticent.service.telemetry import configure_logging

    configure_logging()
    settings = Settings.load()
    registry = open_registry(settings)
    for served in registry:
        label = json.dumps(served.stored.classes[0]).encode()
        # The first label, whatever is asked; `draw` is kept where it was computed.
        vars(served)["draw"] = lambda table, label=label: [label] * len(table)
    app = create_app(
        settings,
        ledger=NoLedger(),
        keys=SQLKeys(settings.ledger),
        registry=registry,
    )
    gc.collect()
    gc.freeze()
    return app


# What an answer is made of, as the service sends it.
SAME_HEADERS = [
    (b"content-type", b"application/json"),
    (b"x-request-id", b"0123456789abcdef"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; " + b"x" * 155),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]
SAME_BODY = json.dumps(
    {
        "model": "adult",
        "answers": ["<=50K"],
        "certificate": "0" * 32,
        "charge": {
            "answers": 1,
            "each": {"per": "answer", "epsilon": 0.1, "delta": 0.0, "rho": 0.005},
        },
        "answers_left": 999_990_000,
        "sequence": 10_000,
        "request_id": "0123456789abcdef",
    }
).encode()


def floor_application() -> Any:
    """Return an application without framework that reads and sends the same bytes."""
    headers = [*SAME_HEADERS, (b"content-length", b"%d" % len(SAME_BODY))]

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": SAME_BODY})

    return application


FACTORIES = {
    "uvicorn": "benchmarks.speed.bench_service:floor_application",
    "floor": "benchmarks.speed.bench_service:floor_application",
    "bare": "benchmarks.speed.bench_service:bare_application",
    "durable": "reticent.service.serving:application",
}


@contextlib.contextmanager
def server(config: Path, kind: str, workers: int) -> Iterator[tuple[int, int]]:
    """Run a server in processes of its own; give its port and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    call = f"run({FACTORIES[kind]!r}, port={port}, workers={workers}"
    # "uvicorn" is the floor on uvicorn's own protocol instead of ours.
    http = ", http='httptools'" if kind == "uvicorn" else ""
    code = (
        f"from reticent.service.serving import run; {call}{http}, log_level='critical')"
    )
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
    seconds, turns = (1.0, 5) if quick else (2.0, 12)
    results: dict[str, list[dict[str, float]]] = {kind: [] for kind in FACTORIES}
    before = []
    with (
        tempfile.TemporaryDirectory(prefix="reticent-bench-") as name,
        contextlib.ExitStack() as stack,
    ):
        config, api_key = prepare(Path(name), ledger, model, key)
        running = {
            kind: stack.enter_context(server(config, kind, workers))
            for kind in FACTORIES
        }
        for port, _ in running.values():
            load(port, api_key, row, 1.0)
        for _ in range(turns):
            before.append(busy(0.5))
            for kind, (port, process) in running.items():
                used = processor_seconds([process, *helpers])
                done = load(port, api_key, row, seconds)
                used = processor_seconds([process, *helpers]) - used
                done["cpu_us"] = used / (done["per_second"] * seconds) * 1e6
                results[kind].append(done)
        port, top = running["durable"][0], results["durable"]
        most = statistics.median(run["per_second"] for run in top)
        calm = {
            f"p99_ms at {name}": round(
                steady(port, api_key, row, rate, 3 * seconds)["p99_ms"], 2
            )
            for name, rate in (("200/s", 200.0), ("60 % of the top", 0.6 * most))
        }
    fields = ("per_second", "p50_ms", "p99_ms", "errors", "cpu_us")
    summary: dict[str, Any] = {
        kind: {
            field: round(statistics.median(run[field] for run in runs), 2)
            for field in fields
        }
        for kind, runs in results.items()
    }
    rate = {kind: [run["per_second"] for run in runs] for kind, runs in results.items()}

    def ratios(over: str, under: str) -> list[float]:
        return [a / b for a, b in zip(rate[over], rate[under], strict=True)]

    each = ratios("durable", "bare")
    return {
        **summary,
        "durable / bare": round(statistics.median(each), 3),
        "durable / bare, lowest and highest": [
            round(min(each), 3),
            round(max(each), 3),
        ],
        "durable / uvicorn": round(statistics.median(ratios("durable", "uvicorn")), 3),
        "durable / floor": round(statistics.median(ratios("durable", "floor")), 3),
        **calm,
        "bare / floor": round(statistics.median(ratios("bare", "floor")), 3),
        "turns": turns,
        "busy_before": round(statistics.median(before), 2),
    }


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
    with contextlib.closing(started):
        process = (started.folder / "data" / "postmaster.pid").read_text().split()[0]
        for number in workers:
            with started.database() as url:
                found[f"postgresql, {number} workers"] = compare(
                    url, model, key, row, number, quick, [int(process)]
                )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="shorter, less certain")
    parser.add_argument("--folder", help="where the SQLite file goes: a real disk")
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
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
    if given.output is not None and given.output.exists():
        result = {**json.loads(given.output.read_text()), **result}
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        model, row = train(Path(name), key)
        workers = [1, 2] if given.quick else given.workers
        if given.only != "postgresql":
            for number in workers:
                url = f"sqlite:///{name}/ledger-{number}.db"
                label = "sqlite" if number == 1 else f"sqlite, {number} workers"
                result[label] = compare(url, model, key, row, number, given.quick, [])
        if given.only != "sqlite":
            result.update(postgresql(model, key, row, workers, given.quick))
    text = json.dumps(result, indent=2)
    if given.output is not None:
        given.output.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
