"""Every command that a page prints runs as printed, in the order of the page."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.live_server import free_port
from tests.test_docs import FENCE as PYTHON
from tests.test_docs import PAGES, name_of, run_block
from tests.test_layout import ROOT

FENCE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Commands about the checkout itself: other tests run what these start.
OF_THE_CHECKOUT = re.compile(r"(make|pip|git|python (-m )?benchmarks|docker)\b")


def commands(page: Path) -> list[str]:
    """Return the commands of a page; a backslash goes on in the next line."""
    found = []
    for block in FENCE.findall(page.read_text(encoding="utf-8")):
        text = re.sub(r"\\\n>?\s*", "", block)
        found += re.findall(r"^\$ (.+)$", text, re.MULTILINE)
    return [line for line in found if not OF_THE_CHECKOUT.match(line)]


def printed(page: Path) -> list[str]:
    """Return the lines that a page shows as output; ... stands for anything."""
    found = []
    for block in FENCE.findall(page.read_text(encoding="utf-8")):
        lines = re.sub(r"\\\n>?", "", block).splitlines()
        found += [line for line in lines if not line.startswith("$ ")]
    return [line.rstrip() for line in found if line.strip(" .")]


def not_said(lines: list[str], text: str) -> list[str]:
    """Return the lines that are nowhere in a text."""
    patterns = (re.escape(line).replace(r"\.\.\.", ".*") for line in lines)
    return [
        line
        for line, pattern in zip(lines, patterns, strict=True)
        if not re.search(f"^{pattern}$", text, re.MULTILINE)
    ]


def test_an_output_that_is_not_printed_is_noticed():
    assert not not_said(["a ... c", "x."], "a b c\nx.\n")
    assert not_said(["a ... d", "xy"], "a b c\nx.\n") == ["a ... d", "xy"]


EXPORT = "reticent demo --export ."
# What a reader of these pages has already.
TAKEN_FOR_GRANTED = {
    "README.md": [EXPORT],
    "docs/howto/audit-a-model.md": [
        EXPORT,
        "reticent fit adult.csv --schema adult.json --name income --learner linear",
    ],
    "docs/explain/certificates.md": [
        EXPORT,
        "reticent fit adult.csv --schema adult.json --name income --learner linear",
    ],
    "docs/explain/erasure.md": [
        "seq 4700 4899 | sed 's/.*\\(.\\)\\(.\\)$/&,\\1\\2,\\2/; s/[02468]$/no/; "
        "s/[13579]$/yes/; 1i who,age,sick' > patients.csv",
        "reticent schema draft patients.csv --public --label sick --unit who -o s.json",
        "reticent fit patients.csv --schema s.json --learner linear --shards 5",
    ],
    "docs/howto/dossier.md": [
        EXPORT,
        "reticent fit adult.csv --schema adult.json --name income --learner linear",
        """echo '{"curator": "The clinic"}' > texts.json""",
    ],
    "docs/howto/evaluate.md": [
        EXPORT,
        "reticent fit adult.csv --schema adult.json --name income --release",
        "cp adult.csv held-out.csv",
    ],
    "docs/howto/tune.md": [EXPORT],
    "docs/howto/home.md": [
        EXPORT,
        "reticent fit adult.csv --schema adult.json --name income --learner linear",
    ],
}
# A server may take a while to start, and an error from it is an error.
CURL = (
    'curl() { command curl --fail-with-body "$@" --retry 300 --retry-delay 1'
    " --retry-connrefused; }"
)


# How a tutorial begins, so that two of them do not share files.
OWN_FOLDER = re.compile(r"^```console\n\$ mkdir (\w+) && cd \1\n```$", re.MULTILINE)


def python_before_commands(page: Path) -> list[str]:
    """Return the Python examples of a page up to its first command in its folder."""
    text = OWN_FOLDER.sub("", page.read_text(encoding="utf-8"))
    return PYTHON.findall(text[: text.index("```console")])


def own_folder(page: Path) -> str | None:
    """Return the folder that a page is followed in, if it makes one."""
    found = OWN_FOLDER.search(page.read_text(encoding="utf-8"))
    return None if found is None else found[1]


INSTALLED = Path(sys.executable).parent
# Runs the installed program; the other pages do not pay for its start each time.
COLD = "README.md"
# `tests/service/test_tutorial.py` and `test_demo.py` run these, and read the answers.
ELSEWHERE = ("docs/start/service.md", "docs/howto/clients.md")

WITH_COMMANDS = [
    page for page in PAGES if commands(page) and name_of(page) not in ELSEWHERE
]


def run_page(
    lines: list[str], folder: Path, *programs: Path
) -> subprocess.CompletedProcess[str]:
    """Run commands in one shell; a busy port 8000 does not matter.

    Programs are looked for in `programs` first.
    """
    port = str(free_port())
    script = f"set -e\n{CURL}\n" + "\n".join(
        line.replace("localhost:8000", f"localhost:{port}") for line in lines
    )
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env={
            **os.environ,
            "PATH": ":".join(map(str, [*programs, INSTALLED, os.environ["PATH"]])),
            "RETICENT_PORT": port,
            "OMP_NUM_THREADS": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        # What runs on in the background holds the pipes, so wait for the shell alone.
        process.wait(timeout=900)
    finally:
        # Nothing in the background is nothing to end.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(lines, process.returncode, out, err)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name_of)
def test_commands_in_pages_run(page, tmp_path, monkeypatch, warm):
    if shutil.which("curl") is None and any("curl" in c for c in commands(page)):
        pytest.skip("this machine has no curl, and the page uses it")
    folder, asked = tmp_path, commands(page)
    if own_folder(page) is not None:
        folder = tmp_path / str(own_folder(page))
        folder.mkdir()
        assert asked.pop(0).endswith(f"cd {folder.name}")
    monkeypatch.chdir(folder)
    namespace: dict[str, object] = {}
    for code in python_before_commands(page):
        run_block(code, namespace, name_of(page))
    lines = [*TAKEN_FOR_GRANTED.get(name_of(page), ()), *asked]
    done = run_page(lines, folder, *([] if name_of(page) == COLD else [warm]))
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    assert not not_said(printed(page), done.stdout + done.stderr)
    assert "Traceback" not in done.stderr


TUTORIALS = ("ask", "release", "service", "guided")


def test_tutorials_share_no_folder_and_leave_no_server_running():
    pages = [ROOT / "docs" / "start" / f"{name}.md" for name in TUTORIALS]
    folders = [own_folder(page) for page in pages]
    assert None not in folders
    assert len(set(folders)) == len(pages)
    for page in pages:
        typed = commands(page)
        started = [place for place, line in enumerate(typed) if line.endswith("&")]
        stopped = [place for place, line in enumerate(typed) if line == "kill %1"]
        assert len(started) == len(stopped)
        assert sorted(started + stopped) == [*started, *stopped]


def test_a_command_that_fails_is_noticed(tmp_path, warm):
    lines = ["true", "reticent fit nowhere.csv"]
    cold, quick = run_page(lines, tmp_path), run_page(lines, tmp_path, warm)
    assert cold.returncode == quick.returncode != 0
    assert cold.stderr == quick.stderr != ""
    assert run_page(["sleep 60 &", "false"], tmp_path).returncode != 0


def test_pages_with_commands_are_found():
    names = {name_of(page) for page in WITH_COMMANDS}
    assert {"README.md", "docs/start/ask.md", "docs/start/release.md"} <= names
    assert ROOT.joinpath("README.md") in WITH_COMMANDS
