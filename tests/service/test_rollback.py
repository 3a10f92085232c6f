"""`reticent models rollback` under a running service, while clients ask and repeat."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from reticent.cli.main import main
from reticent.home import Home, client_account
from reticent.schemas import ClassLabel, Numeric, Schema
from tests.service.live_server import free_port, wait_until, wait_until_ready

ROWS = "age,sick\n" + "".join(
    f"{n},{'yes' if n > 50 else 'no'}\n" * 3 for n in range(100)
)
SCHEMA = Schema({"age": Numeric(0, 100)}, label=ClassLabel("sick", ["no", "yes"]))


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        said = capsys.readouterr()
        assert ended.value.code == 0, said
        return said.out

    return run


@pytest.fixture
def service(tmp_path, run):
    """A service of a home with two versions of a model; the second costs half."""
    Path("rows.csv").write_text(ROWS)
    SCHEMA.write("schema.json")
    for epsilon in (0.5, 0.25):
        run(
            *("fit", "rows.csv", "--schema", "schema.json", "--epsilon", epsilon),
            *("--learner", "linear", "--shards", 5, "--accept-noise", "--replace"),
            *("--budget", 10**6, "--delta", 0),
        )
    key = re.search(r"rk_\S+", run("keys", "create", "ward-7"))[0]
    port = free_port()
    environment = {**os.environ, "RETICENT_PORT": str(port), "OMP_NUM_THREADS": "1"}
    environment |= {
        "RETICENT_RELOAD_SECONDS": "0.05",
        "RETICENT_CLIENT_BUDGET__EPSILON": str(10**6),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "reticent.cli", "serve"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(url, process)
        yield url, key
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(180) == 0


class Asker(threading.Thread):
    """Asks questions, each twice with one key, until it is told to stop."""

    def __init__(self, place, url, key):
        super().__init__()
        self.place, self.url, self.key = place, url, key
        self.told, self.stop = [], threading.Event()

    def run(self):
        with httpx.Client(base_url=self.url, timeout=180) as http:
            number = 0
            while not self.stop.is_set():
                number += 1
                headers = {"x-api-key": self.key}
                headers |= {"idempotency-key": f"{self.place}-{number}"}
                body = {"rows": [{"age": (number + self.place / 10) % 100}]}
                replies = [
                    http.post("/v1/models/model/predict", headers=headers, json=body)
                    for _ in range(2)
                ]
                self.told.append([(r.status_code, r.json()) for r in replies])


def each(told):
    """What was paid for one answer of the newest reply."""
    return told[-1][0][1]["charge"]["each"]["epsilon"]


def test_rolling_back_and_forth_loses_nothing_and_answers_no_key_twice(service, run):
    url, key = service
    askers = [Asker(place, url, key) for place in range(3)]
    for asker in askers:
        asker.start()
    try:
        wait_until(lambda: all(asker.told for asker in askers))
        assert each(askers[0].told) == 0.25
        for version, epsilon in ((1, 0.5), (2, 0.25), (1, 0.5)):
            run("models", "rollback", "model", "--version", version)
            wait_until(
                lambda: all(each(a.told) == epsilon for a in askers)  # noqa: B023
            )
    finally:
        for asker in askers:
            asker.stop.set()
        for asker in askers:
            asker.join()
    pairs = [pair for asker in askers for pair in asker.told]
    paid = 0.0
    for (status, first), (again, second) in pairs:
        assert status == 200  # no request was lost
        paid += first["charge"]["answers"] * first["charge"]["each"]["epsilon"]
        if again == 200:
            assert second["answers"] == first["answers"]
            assert second["sequence"] == first["sequence"]
        else:
            # The version changed in between: refused, and nothing is charged.
            assert (again, second["error"]["code"]) == (409, "idempotency_key_reused")
            assert "another version of the model" in second["error"]["message"]
    assert sum(again == 200 for _, (again, _) in pairs) >= len(pairs) - 3 * 4
    assert len({first["version"] for (_, first), _ in pairs}) == 2
    with Home.existing(".reticent").settings().open_ledger(reading=True) as ledger:
        balance = ledger.balance(client_account("ward-7"))
    assert balance.as_dict()["spent"]["epsilon"] == pytest.approx(paid)
    assert balance.spent.answers == sum(
        first["charge"]["answers"] for (_, first), _ in pairs
    )
    assert run("models", "versions", "model").count("in use") == 1
