"""What durability and privacy cost a service: requests a second, with and without.

One row a request through a 250-model linear ensemble, every charge and every answer
durable, against the same application with no ledger and no model: both in one run, in
turns, at concurrency 32. The same on PostgreSQL with 2 workers. Prints one JSON object.

The load comes from wrk where it is installed, else from a client in Python.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from reticent.datasets import load_adult_sample
from reticent.ledger import Balance, Outcome, Receipt, Request
from reticent.ledger.decisions import settled
from reticent.prediction import PrivateVotingClassifier
from reticent.schemas import Encoder
from reticent.service import BudgetSettings, Settings
from reticent.service.key_tables import SQLKeys
from reticent.service.parts import open_keyring, open_ledger
from reticent.service.registry import cap_of, client_account
from reticent.storage import new_key, save_model

HERE = Path(__file__)
CONCURRENCY = 32
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

    def close(self) -> None:
        self._memory.close()


class NoModel:
    """Draws label 0 whatever is asked."""

    def __init__(self, answerer: Any) -> None:
        self.certificate = answerer.certificate
        self.classes = answerer.classes
        self.n_units = answerer.n_units

    def draw(self, X: Any) -> Any:
        return np.zeros(len(X), dtype=np.int64)


def bare_application() -> Any:
    """Return the same application with no ledger and no model."""
    from reticent.service import create_app
    from reticent.service.registry import open_registry
    from reticent.service.telemetry import configure_logging

    configure_logging()
    settings = Settings.load()
    registry = open_registry(settings)
    for served in registry:
        served.stored._answerer = NoModel(served.stored.answerer)
        served.stored.encoder.transform = lambda table: table.numbers
    return create_app(
        settings,
        ledger=NoLedger(),
        keys=SQLKeys(settings.ledger),
        registry=registry,
    )


@contextlib.contextmanager
def server(config: Path, *, bare: bool, workers: int) -> Iterator[int]:
    """Run a server in processes of its own; give its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    factory = (
        "benchmarks.speed.bench_service:bare_application"
        if bare
        else "reticent.service.serving:application"
    )
    command = [sys.executable, "-m", "uvicorn", factory, "--factory"]
    command += ["--port", str(port), "--workers", str(workers)]
    command += ["--no-access-log", "--log-level", "critical"]
    environment = {**os.environ, "RETICENT_CONFIG": str(config)}
    with (config.parent / "server.log").open("ab") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=HERE.parents[2], stderr=log, stdout=log
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/v2/health/ready", process)
        yield port
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


# ----- the load --------------------------------------------------------------

LUA = """
local head, tail = %s, %s
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %s"
function init(args) math.randomseed(%d) end
function request()
  local age = 16 + 84 * math.random()
  return wrk.format(nil, nil, nil, head .. string.format("%%.12f", age) .. tail)
end
function done(summary, latency, requests)
  io.write(string.format(
    "RESULT %%d %%d %%d %%d %%d %%d\\n", summary.requests, summary.duration,
    summary.errors.status, summary.errors.timeout + summary.errors.read,
    latency:percentile(50), latency:percentile(99)))
end
"""


def load(port: int, key: str, row: dict[str, Any], seconds: float) -> dict[str, float]:
    """Send rows that nobody asked before, as fast as 32 connections can."""
    text = json.dumps({"rows": [{**row, "age": "AGE"}]})
    head, tail = text.split('"AGE"')
    url = f"http://127.0.0.1:{port}/v1/models/adult/predict"
    if shutil.which("wrk"):
        return wrk(
            url,
            LUA % (json.dumps(head), json.dumps(tail), key, random.getrandbits(31)),
            seconds,
        )
    return asyncio.run(python_load(port, key, (head, tail), seconds))


def wrk(url: str, script: str, seconds: float) -> dict[str, float]:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        command = ["wrk", "-t1", f"-c{CONCURRENCY}", f"-d{seconds:g}s", "-s", file.name]
        done = subprocess.run(
            [*command, url], capture_output=True, text=True, check=True
        )
    line = next(x for x in done.stdout.splitlines() if x.startswith("RESULT"))
    requests, micros, bad, lost, median, p99 = map(int, line.split()[1:])
    return {
        "per_second": requests / micros * 1e6,
        "p50_ms": median / 1000,
        "p99_ms": p99 / 1000,
        "errors": bad + lost,
    }


async def python_load(
    port: int, key: str, parts: tuple[str, str], seconds: float
) -> dict[str, float]:
    times: list[float] = []
    errors = 0
    end = time.perf_counter() + seconds

    async def client() -> None:
        nonlocal errors
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            body = f"{parts[0]}{random.uniform(16, 100):.12f}{parts[1]}".encode()
            start = time.perf_counter()
            writer.write(
                b"POST /v1/models/adult/predict HTTP/1.1\r\nHost: x\r\n"
                b"Authorization: Bearer " + key.encode() + b"\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            times.append(time.perf_counter() - start)
            errors += not head.startswith(b"HTTP/1.1 200")
        writer.close()

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CONCURRENCY)))
    taken = time.perf_counter() - begun
    return {
        "per_second": len(times) / taken,
        "p50_ms": 1000 * float(np.percentile(times, 50)),
        "p99_ms": 1000 * float(np.percentile(times, 99)),
        "errors": errors,
    }


# ----- the comparison --------------------------------------------------------


def prepare(folder: Path, ledger: str, model: Path, key: str) -> tuple[Path, str]:
    """Write settings and make an API key; return both."""
    config = folder / "settings.json"
    settings = {
        "models": {"adult": str(model)},
        "datasets": {"adult": PLENTY},
        "ledger": ledger,
        "checkpoints": "none",
        "secret": new_key(),
        "model_key": key,
        "rate": 0,
    }
    config.touch(0o600)
    config.write_text(json.dumps(settings))
    loaded = Settings.load(config)
    book = open_ledger(loaded)
    cap = cap_of(BudgetSettings(**PLENTY), "replace-one")
    balance: Balance = book.open_account(client_account("load"), cap)
    assert balance.cap == cap
    book.close()
    store = SQLKeys(ledger)
    text, _ = open_keyring(loaded, store).create("load")
    store.close()
    return config, text


def compare(
    ledger: str, model: Path, key: str, row: dict[str, Any], workers: int, quick: bool
) -> dict[str, Any]:
    """Measure both servers in turns; report medians and their ratio."""
    seconds, turns = (2.0, 1) if quick else (8.0, 3)
    with tempfile.TemporaryDirectory(prefix="reticent-bench-") as name:
        config, api_key = prepare(Path(name), ledger, model, key)
        results: dict[bool, list[dict[str, float]]] = {True: [], False: []}
        with (
            server(config, bare=True, workers=workers) as bare,
            server(config, bare=False, workers=workers) as full,
        ):
            for port in (bare, full):
                load(port, api_key, row, 1.0)
            for _ in range(turns):
                for is_bare, port in ((True, bare), (False, full)):
                    results[is_bare].append(load(port, api_key, row, seconds))
    summary = {
        name: {
            field: round(statistics.median(run[field] for run in results[is_bare]), 3)
            for field in ("per_second", "p50_ms", "p99_ms", "errors")
        }
        for name, is_bare in (("bare", True), ("durable", False))
    }
    ratio = summary["durable"]["per_second"] / summary["bare"]["per_second"]
    return {**summary, "ratio": round(ratio, 3)}


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="shorter, less certain")
    parser.add_argument("--folder", help="where the SQLite file goes: a real disk")
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    arguments = parser.parse_args()
    key = new_key()
    result: dict[str, Any] = {
        "concurrency": CONCURRENCY,
        "models": N_MODELS,
        "load": "wrk" if shutil.which("wrk") else "python",
        "cores": os.cpu_count(),
    }
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        model, row = train(Path(name), key)
        if arguments.only != "postgresql":
            url = f"sqlite:///{name}/ledger.db"
            result["sqlite"] = compare(url, model, key, row, 1, arguments.quick)
        if arguments.only != "sqlite":
            from tests.postgres import NoPostgresError, PostgresServer

            try:
                postgres = PostgresServer()
            except NoPostgresError as reason:
                result["postgresql"] = f"not measured: {reason}"
            else:
                with contextlib.closing(postgres), postgres.database() as url:
                    result["postgresql, 2 workers"] = compare(
                        url, model, key, row, 2, arguments.quick
                    )
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[2]))
    main()
