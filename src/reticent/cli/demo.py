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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.options import AsJson
from reticent.cli.output import Output
from reticent.cli.serve import service_runner
from reticent.datasets import adult_sample_files, load_adult_sample
from reticent.errors import ReticentError
from reticent.guarantees import Stated, in_plain_words
from reticent.home import FitOptions, Home, Role, train_and_store
from reticent.schemas import Schema

_PATIENCE_SECONDS = 60.0
_QUERIES = 5
_MORE_QUERIES = 200


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
    """Fit on 5,000 census rows, serve, and ask without end under one total.

    Example: reticent demo --once
    """
    output = Output(as_json)
    if export is not None:
        written = _export(export)
        output.result({"files": written}, [f"wrote {', '.join(written)}"])
        return
    service_runner()  # say at once if its packages are not installed
    shutil.rmtree(home, ignore_errors=True)  # every demo starts with a new budget
    # It leaves nothing outside its folder, and nobody restores a demo from a backup.
    place = Home.at(home, second_place=home / "second-place.json")
    files = adult_sample_files()
    schema = Schema.read(files.schema)
    output.note("fitting on 5,000 census rows ...")
    options = FitOptions(
        name="income",
        dataset="census",
        epsilon=1.0,
        budget=1.0,
        lasting=True,
        local="always",
    )
    model = train_and_store(place, files.data, schema, options)
    key, _ = place.new_key("demo", Role.ADMIN)
    chosen = port or _free_port()
    with _service(place, chosen) as address:
        output.note(f"serving at {address} ...")
        shown, lines = _conversation(address, key, model, output)
        output.result(shown, lines)
        if not once:
            output.note(f"\nThe dashboard is at {address}/ ; log in with this key:")
            output.note(key)
            output.note("Ctrl-C ends the demo.")
            _wait()
            output.note("stopped.")


def _conversation(
    address: str, key: str, model: Any, output: Output
) -> tuple[dict[str, Any], list[str]]:
    """Ask some questions, and many more; return the answers, also as lines of text."""
    before = _get(f"{address}/v1/budget", key)
    asked = _ask(address, key, range(_QUERIES))
    output.note(f"asking {_MORE_QUERIES} more questions ...")
    more = _ask(address, key, range(_QUERIES, _QUERIES + _MORE_QUERIES))
    budget = _get(f"{address}/v1/budget", key)
    mean = sum(more["evidence"]) / len(more["evidence"])
    shown = {
        "address": address,
        "certificate": model.certificate_.as_dict(),
        "answers": asked["answers"],
        "evidence": asked["evidence"],
        "more_answers": len(more["answers"]),
        "budget_before": before,
        "budget": budget,
    }
    lines = [
        "",
        "Answers, each with its evidence: a noisy number of records near the question.",
        *_with_evidence(asked),
        f"{len(more['answers'])} more answers, with a mean evidence of {mean:.0f}.",
        "",
        "What all answers together promise, however many, and why:",
        str(model.certificate_),
        in_plain_words(model.certificate_, about="one row"),
        "",
        "What was spent, before and after the answers:",
        "before:",
        *_spent(before),
        "after:",
        *_spent(budget),
        "More answers cost nothing, and there is no limit to them.",
    ]
    return shown, lines


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


def _with_evidence(asked: dict[str, Any]) -> list[str]:
    pairs = zip(asked["answers"], asked["evidence"], strict=True)
    return [f"  {answer:<6}  evidence {evidence:.0f}" for answer, evidence in pairs]


def _spent(budget: dict[str, Any]) -> list[str]:
    lines = []
    for account in budget["accounts"]:
        spent, cap = account["spent"], account["cap"]
        used = min(spent[k] / cap[k] for k in ("epsilon", "rho") if cap[k] > 0)
        promise = account["promise"]
        lines.append(
            f"  {account['account']}: {100 * used:.0f} % of "
            f"{Stated(promise['epsilon'], promise['delta'])}"
        )
    return lines


def _ask(address: str, key: str, places: Iterable[int]) -> dict[str, Any]:
    """Ask about rows of the sample."""
    columns, schema = load_adult_sample()
    names = list(schema.columns)
    rows = [{name: _plain(columns[name][row]) for name in names} for row in places]
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
    """Wait for Ctrl-C, which is how the demo ends when all has gone well."""
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)
