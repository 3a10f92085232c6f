"""The command `reticent` without its start: a fork of a process that has imported it.

`main` runs in that process. Each order comes from the small program that stands for
`reticent` in a shell, with its folder, arguments, environment, process group and open
files. A test that uses it says nothing about a cold start.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

from reticent.cli import main as run_command

START = "from tests.warm_command import main; main()"
PROGRAM = """\
#!{python} -IS
import json, os, socket, sys
order = [os.getcwd(), sys.argv, dict(os.environ), os.getpgrp()]
with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    socket.send_fds(line, [b"f"], [0, 1, 2])
    line.sendall(json.dumps(order).encode())
    line.shutdown(socket.SHUT_WR)
    # Nothing comes back from a command that was killed.
    sys.exit(int(line.recv(16) or 137))
"""


@contextlib.contextmanager
def warm_command() -> Iterator[Path]:
    """Give a folder, for the front of PATH, with a `reticent` that starts at once."""
    # A folder with a short name: that of a socket may not be long.
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as door:
        address, program = Path(name, "line"), Path(name, "bin", "reticent")
        program.parent.mkdir()
        program.write_text(PROGRAM.format(python=sys.executable, address=str(address)))
        program.chmod(0o700)
        door.bind(str(address))
        door.listen(64)
        with subprocess.Popen(
            # Not with -m, which would be told as the name of the program.
            [sys.executable, "-c", START, str(door.fileno())],
            cwd=Path(__file__).parents[1],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            pass_fds=[door.fileno()],
        ) as process:
            door.close()  # if the process ends early, nobody waits for it
            try:
                yield program.parent
            finally:
                process.terminate()


def run(
    folder: str, arguments: list[str], environment: dict[str, str], group: int
) -> int:
    """Run a command in this process; return its exit code."""
    os.setpgid(0, group)  # whoever ends the shell's commands ends this one
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    try:
        run_command()
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter would
        traceback.print_exc()
        return 1
    return 0


def answer(line: socket.socket) -> None:
    """Take one order and run it; never return."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, files, *_ = socket.recv_fds(line, 1, 3)
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    with line.makefile("rb") as text:
        order = json.load(text)
    code = run(*order)
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(BrokenPipeError):  # the shell was ended meanwhile
        line.sendall(str(code).encode())
    os._exit(0)


def main() -> None:
    """Import what commands need, then fork one for every order."""
    door_number = int(sys.argv[1])
    sys.argv = ["reticent", "--version"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        run_command()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(fileno=door_number) as door:
        while True:
            line, _ = door.accept()
            with line:
                if os.fork() == 0:
                    door.close()
                    answer(line)
