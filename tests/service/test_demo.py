"""The running demo, asked by every program of the page about clients, as printed."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.live_server import free_port
from tests.service.test_tutorial import wait_for_key

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "clients.md").read_text("utf-8")
PROGRAMS = dict(
    re.findall(r"^```{code-block} python\n:name: (\S+)\n(.*?)^```$", PAGE, re.M | re.S)
)
SHELL = [
    re.sub(r"^\$ ", "", block, flags=re.M)
    for block in re.findall(r"^```{code-block} console\n(.*?)^```$", PAGE, re.M | re.S)
]
START = re.search(r"^\$ (reticent demo .*)$", PAGE, re.M)[1]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo, started by the page's own command; a port of our own."""
    folder, port = tmp_path_factory.mktemp("demo"), str(free_port())
    log = folder / "log"
    words = START.replace("8000", port).split()
    with log.open("w") as told:
        process = subprocess.Popen(
            [sys.executable, "-m", "reticent.cli", *words[1:]],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=told,
            stderr=told,
        )
    try:
        key = wait_for_key(log)
        environment = {**os.environ, "RETICENT_KEY": key}
        question = SHELL[0].split("\n", 1)[1]  # the key is exported already

        def run(*words, text=None):
            done = subprocess.run(
                [word.replace("localhost:8000", f"localhost:{port}") for word in words],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        run("/bin/sh", "-c", question)
        yield run, log
    finally:
        process.send_signal(signal.SIGINT)
        # This is how it is meant to end, so make reports no error.
        assert process.wait(180) == 0
        assert log.read_text().endswith("stopped.\n")


def test_the_page_shows_what_the_demo_prints(demo):
    _, log = demo
    said = log.read_text()
    shown = PAGE.split("$ reticent demo", 1)[1].split("```", 1)[0].splitlines()[2:]
    for line in shown:
        pattern = re.escape(line).replace(r"\.\.\.", ".*").replace("8000", r"\d+")
        assert re.search(f"^{pattern}$", said, re.M), line


def test_what_was_spent_is_labelled(demo):
    _, log = demo
    lines = log.read_text().splitlines()
    start = lines.index("What was spent, before and after the answers:")
    told = lines[start + 1 : lines.index("after:") + 2]
    assert [told[0], told.count("before:"), told.count("after:")] == ["before:", 1, 1]
    assert " % of ε = 1" in told[1]
    assert " % of ε = 1" in told[-1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_page_is_answered(demo, name):
    run, _ = demo
    assert re.search(r"[<>]=?50K", run(sys.executable, "-c", PROGRAMS[name]))


@pytest.mark.skipif(shutil.which("curl") is None, reason="this machine has no curl")
def test_curl_is_answered(demo):
    run, _ = demo
    assert '"answers":' in run("/bin/sh", "-c", SHELL[1])


def test_all_programs_are_found():
    assert set(PROGRAMS) == {"client", "async-client", "httpx", "triton"}
    assert "curl" in SHELL[1]
