"""The commands of the tutorial, typed into a shell as it says."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.service.live_server import free_port, wait_until_ready

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "start" / "service.md").read_text("utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
CONSOLE = re.findall(r"^\$ (.*)$", PAGE, re.M)


def wait_for_key(log):
    """Wait until the service has told its admin key; return it."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        found = re.search(r"rk_[0-9a-f]{16}_[\w-]{43}", log.read_text())
        if found:
            return found[0]
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def test_the_tutorial_leads_to_answers(tmp_path, warm):
    port = free_port()
    environment = {
        **os.environ,
        "PATH": f"{warm}:{os.environ['PATH']}",
        "RETICENT_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }

    def shell(command):
        done = subprocess.run(
            ["/bin/sh", "-c", command.replace("localhost:8000", f"127.0.0.1:{port}")],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    for block in PYTHON[:2]:  # the records and the schema
        exec(
            compile(f"import os\nos.chdir({str(tmp_path)!r})\n{block}", "page", "exec")
        )
    start, fit, serve, export, *questions, stop = CONSOLE
    assert (start, stop) == ("mkdir clinic && cd clinic", "kill %1")
    assert (serve, export.split("=")[0]) == ("reticent serve &", "export KEY")
    shell(fit)
    log = tmp_path / "log"
    with log.open("w") as told:
        service = subprocess.Popen(
            [Path(sys.executable).parent / "reticent", "serve"],
            cwd=tmp_path,
            env=environment,
            stdout=told,
            stderr=told,
        )
    try:
        admin = wait_for_key(log)
        environment["KEY"] = shell(export[len("export KEY=$(") : -1]).strip()
        wait_until_ready(f"http://127.0.0.1:{port}", service)
        first, once, again, budget = [json.loads(shell(line)) for line in questions]
    finally:
        service.send_signal(signal.SIGTERM)
        assert service.wait(180) == 0
    example = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.S)[1])
    assert set(first) == set(example)
    assert first["charge"] == example["charge"]
    assert (first["answers_left"], first["sequence"] > 1) == (39, True)
    assert once["answers"] == again["answers"]
    assert once["sequence"] == again["sequence"]
    accounts = {a["account"]: a["answers"] for a in budget["accounts"]}
    assert accounts["client:ward-7"] == 2
    assert admin != environment["KEY"]
