"""``reticent demo``: from rows to private answers over HTTP, on bundled census rows."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.options import AsJson
from reticent.cli.output import Output
from reticent.cli.serve import service_runner
from reticent.datasets import adult_sample_files, load_adult_sample
from reticent.errors import ReticentError
from reticent.home import FitOptions, Home, Role, train_and_store
from reticent.schemas import Schema

_PATIENCE_SECONDS = 60.0
_QUERIES = 5


def demo(
    once: Annotated[
        bool, typer.Option("--once", help="End after the queries; for scripts.")
    ] = False,
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.")
    ] = 0,
    export: Annotated[
        Path | None,
        typer.Option(help="Only write the rows, the schema and some queries there."),
    ] = None,
    home: Annotated[Path, typer.Option(help="Where to keep the demo.")] = Path(".demo"),
    as_json: AsJson = False,
) -> None:
    """Train on 5,000 census rows, serve, ask, and show what it cost.

    Example: reticent demo --once
    """
    output = Output(as_json)
    if export is not None:
        written = _export(export)
        output.result({"files": written}, [f"wrote {', '.join(written)}"])
        return
    service_runner()  # say at once if its packages are not installed
    shutil.rmtree(home, ignore_errors=True)  # every demo starts with a new budget
    place = Home.at(home)
    files = adult_sample_files()
    schema = Schema.read(files.schema)
    output.note("training models on disjoint shards of 5,000 census rows ...")
    options = FitOptions(
        name="income", dataset="census", epsilon=0.5, budget=8.0, learner="linear"
    )
    model = train_and_store(place, files.data, schema, options)
    key, _ = place.new_key("demo", Role.ADMIN)
    chosen = port or _free_port()
    with _service(place, chosen) as address:
        output.note(f"serving at {address} ...")
        asked = _ask(address, key)
        budget = _get(f"{address}/v1/budget", key)
        output.result(
            {
                "address": address,
                "certificate": model.certificate_.as_dict(),
                "answers": asked["answers"],
                "budget": budget,
            },
            [
                "",
                f"asked {len(asked['answers'])} questions: "
                + ", ".join(map(str, asked["answers"])),
                "",
                "What one answer promises, and why:",
                str(model.certificate_),
                "",
                "What was spent:",
                *_spent(budget),
            ],
        )
        if not once:
            output.note(f"\nThe dashboard is at {address}/ ; log in with this key:")
            output.note(key)
            output.note("Ctrl-C ends the demo.")
            _wait()


def _export(folder: Path) -> list[str]:
    """Write the bundled rows as a user would have them; queries lack the label."""
    files = adult_sample_files()
    with gzip.open(files.data, "rt", encoding="utf-8") as source:
        lines = source.read().splitlines()
    queries = [line.rpartition(",")[0] for line in lines[: _QUERIES + 1]]
    texts = {
        "adult.csv": "\n".join([lines[0], *lines[_QUERIES + 1 :]]) + "\n",
        "adult.json": files.schema.read_text(encoding="utf-8"),
        "queries.csv": "\n".join(queries) + "\n",
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [str(folder / name) for name in texts]


def _spent(budget: dict[str, Any]) -> list[str]:
    lines = []
    for account in budget["accounts"]:
        used = min(account["spent"][k] / account["cap"][k] for k in ("epsilon", "rho"))
        promise = account["promise"]
        lines.append(
            f"{account['account']}: {account['answers']} answers, "
            f"{100 * used:.0f} % of ({promise['epsilon']:g}, {promise['delta']:g})-DP"
        )
    left = budget["models"][0]["answers_left"]
    return [*lines, f"{left} more answers fit, over all clients and restarts."]


def _ask(address: str, key: str) -> dict[str, Any]:
    columns, schema = load_adult_sample()
    names = list(schema.columns)
    rows = [
        {name: _plain(columns[name][row]) for name in names} for row in range(_QUERIES)
    ]
    body = json.dumps({"rows": rows}).encode()
    return _get(f"{address}/v1/models/income/predict", key, body)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _get(url: str, key: str, body: bytes | None = None) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310 (our own service on this machine)
        url,
        data=body,
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
            found: dict[str, Any] = json.loads(reply.read())
    except urllib.error.HTTPError as error:
        raise ReticentError(
            f"the service said {error.code}: {error.read()!r}"
        ) from None
    return found


@contextmanager
def _service(place: Home, port: int) -> Iterator[str]:
    """Run the service beside this process; end it on the way out."""
    address = f"http://127.0.0.1:{port}"
    options = ["--home", str(place.path), "--port", str(port)]
    with subprocess.Popen(  # noqa: S603 (this very program)
        [sys.executable, "-m", "reticent.cli", "serve", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            _wait_until_live(process, f"{address}/v2/health/ready")
            yield address
        finally:
            process.terminate()


def _wait_until_live(process: subprocess.Popen[bytes], url: str) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise ReticentError("the service ended at once; see 'reticent serve'.")
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310
                return
        except OSError:
            time.sleep(0.1)
    raise ReticentError(f"the service did not answer at {url} in time.")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait() -> None:
    while True:
        time.sleep(3600)
