"""A pytest plugin: the service's own tests, asked of what deploy/ starts.

With ``-p tests.service.behind_proxy`` the tests of this folder run as they are, but
`clinic` starts three workers on PostgreSQL behind the shipped proxy with TLS, each time
with the settings that a test gives. What the tests read of the service itself, such as
its ledger, they read from one more replica that nobody asks.

`tests/service/left_out.py` says which tests do not run here, and why. Everything else
does; a test that skips here fails.
"""

from __future__ import annotations

import atexit
import functools
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields, replace
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import httpx
import pytest

from reticent.cli.main import main as run_command
from reticent.guarantees import Scope
from reticent.home import Role, Settings, cap_of, charge_release, dataset_account
from reticent.home import settings_files as files
from reticent.ledger import MemoryLedger, SQLLedger
from reticent.service import create_app
from tests.postgres import PostgresServer
from tests.service import clinic as in_process
from tests.service.deployed import COMPOSE, Stack, make_certificate, proxy
from tests.service.left_out import LEFT_OUT, REPORT, entry_for
from tests.service.live_server import wait_until

# The deployment brings its own.
_NOT_GIVEN = ("ledger", "checkpoints", "secure_cookies", "workers", "port")


# Forks of a process that has imported everything: hundreds of stacks start, and
# test_deployed.py says enough about a cold start.
_warm: Any = multiprocessing.get_context("forkserver")
_warm.set_forkserver_preload(["reticent.cli.main", "reticent.service.serving"])


class WarmStack(Stack):
    """A deployment whose processes are spared their imports."""

    def start(self) -> None:
        """Start the service with the command of the compose file."""
        words = [self.placed(word) for word in COMPOSE["service"]["command"]]
        told = (words, self.environment(), self.folder)
        self.process = _warm.Process(target=_command, args=told)
        self.process.start()

    def kill(self) -> None:
        """End the supervisor, and with it the workers."""
        self.process.kill()  # type: ignore[union-attr]
        self.process.join()  # type: ignore[union-attr]


def _command(words: list[str], environment: dict[str, str], folder: Path) -> None:
    """Run a command as a shell would, in a process that was forked for it."""
    os.chdir(folder)
    os.environ.update({"OMP_NUM_THREADS": "1", **environment})
    with (folder / "service.log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.argv = ["reticent", *words]
    # Workers are forked from where this process was, not from one more.
    vars(forkserver._forkserver)["ensure_running"] = lambda: None
    run_command()


class Https:
    """The proxy, as tests see an application in their own process."""

    def __init__(self, stack: Stack) -> None:
        self._client = stack.client()
        self._client.headers["host"] = "clinic.test"

    def request(self, method: str, path: str, **settings: Any) -> httpx.Response:
        return self._client.request(method, path, **settings)

    def get(self, path: str, **settings: Any) -> httpx.Response:
        return self.request("GET", path, **settings)

    def post(self, path: str, **settings: Any) -> httpx.Response:
        return self.request("POST", path, **settings)

    def together(self, requests: list[dict[str, Any]]) -> list[httpx.Response]:
        """Send many requests at once."""
        with ThreadPoolExecutor(len(requests)) as threads:
            sent = [threads.submit(self._client.request, **each) for each in requests]
            return [each.result() for each in sent]


@functools.cache
def _postgres() -> PostgresServer:
    server = PostgresServer()
    atexit.register(server.close)
    atexit.register(_pool.close)  # before the server: the last is called first
    return server


class Pool:
    """At most one stack that waits to be used again.

    A start takes seconds. Cases of one parametrized test that want the same settings
    share a stack, and no others do: most tests count on a fresh ledger. A case that
    wants the same twice gets two.
    """

    def __init__(self) -> None:
        self._key: Any = None
        self._case = ""
        self._kept: tuple[ExitStack, in_process.Clinic] | None = None

    @contextmanager
    def lent(self, settings: Settings) -> Iterator[in_process.Clinic]:
        key, case = _key_of(settings), _case()
        kept, self._kept = self._kept, None  # nobody else gets it meanwhile
        if kept is not None and (self._key != key or self._case == case):
            kept[0].close()
            kept = None
        if kept is None:
            opened = ExitStack()
            kept = opened, opened.enter_context(_deployed(settings))
        try:
            yield kept[1]
        finally:
            if self._kept is not None:
                self._kept[0].close()
            self._key, self._case, self._kept = key, case, kept

    def close(self) -> None:
        if self._kept is not None:
            self._kept[0].close()
        self._kept = None


_pool = Pool()
_settings_of_stacks = ("ledger", "models", "checkpoints")


def _case() -> str:
    """Return the name of the test that runs, with its parameters."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]


def _key_of(settings: Settings) -> tuple[str, ...]:
    """Return what two calls must have in common to share a stack."""
    test = _case().split("[")[0]
    same = {k: v for k, v in asdict(settings).items() if k not in _settings_of_stacks}
    models = {
        name: (settings.load_model(name).id, replace(model, path=Path(name)))
        for name, model in settings.models.items()
    }
    return test, repr(same), repr(models)


@contextmanager
def clinic(
    settings: Settings, *, ledger: Any = None, keys: Any = None, **others: Any
) -> Iterator[in_process.Clinic]:
    """Deploy an application with these settings; the ledger is PostgreSQL's."""
    if others or not (ledger is None or type(ledger) in (MemoryLedger, SQLLedger)):
        pytest.fail("this test brings collaborators of its own: see left_out.py")
    with _pool.lent(settings) as running:
        yield running


@contextmanager
def _deployed(settings: Settings) -> Iterator[in_process.Clinic]:
    folder = Path(tempfile.mkdtemp(prefix="reticent-stack-"))
    make_certificate(folder / "secrets")
    with _postgres().schema() as url:
        stack = WarmStack(folder, url, given={"RETICENT_KEY_CACHE_SECONDS": "0"})
        _write_home(folder, settings)
        second = folder / "second" / "checkpoint.json"
        replica = replace(settings, ledger=url, checkpoints=second)
        _charge_releases(replica)
        app = create_app(replica)
        running = in_process.Clinic(app, Https(stack), "", "")  # type: ignore[arg-type]
        running.admin = running.key("boss", Role.ADMIN)
        running.analyst = running.key("ward-7")
        try:
            with proxy(stack):
                stack.start()
                try:
                    wait_until(lambda: _is_ready(stack))
                    yield running
                finally:
                    stack.kill()
        finally:
            running.http._client.close()
            app.state.service.close()
    shutil.rmtree(folder, ignore_errors=True)


def _is_ready(stack: Stack) -> bool:
    if stack.process.exitcode is not None:  # type: ignore[union-attr]
        pytest.fail((stack.folder / "service.log").read_text())
    return stack.ready()


def _write_home(folder: Path, settings: Settings) -> None:
    """Write a home with these settings, but for what the deployment brings itself."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    (folder / "second").mkdir(mode=0o700)
    defaults = {each.name: each.default for each in fields(settings)}
    given = {
        name: value
        for name, value in asdict(settings).items()
        if value != defaults[name] and name not in _NOT_GIVEN
    }
    config = home / "service.json"
    config.touch(0o600)
    text = json.dumps({**given, "home_format": files.HOME_FORMAT}, default=str)
    config.write_text(text)


def _charge_releases(settings: Settings) -> None:
    """Charge released models, as ``reticent fit`` does before it names them."""
    stored = [settings.load_model(name) for name in settings.models]
    released = [each for each in stored if each.certificate.scope is Scope.MODEL]
    if not released:
        return
    with settings.open_ledger() as ledger:
        for model in released:
            budget = settings.datasets[model.dataset.name]
            account = dataset_account(model.dataset.name)
            ledger.open_account(account, cap_of(budget, "replace-one"))
            charge_release(ledger, model)


def pytest_addhooks() -> None:
    """Replace `clinic` before any test imports it, if this is used as a plugin.

    Importing this module changes nothing: looking for examples in docstrings imports
    every module.
    """
    in_process.clinic = clinic


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out what the table names; write down what there was."""
    kept, left, again, used = [], [], [], set()
    for item in items:
        name = f"{item.path.name}::{getattr(item, 'originalname', item.name)}"
        entry = entry_for(name)
        if entry is not None:
            left.append(item)
            used.add(entry)
        elif _is_repeated(item):
            again.append(item)
        else:
            kept.append(item)
    config.hook.pytest_deselected(items=left + again)
    items[:] = kept
    path = os.environ.get(REPORT)
    if path:
        told = {
            "kept": [item.nodeid for item in kept],
            "left_out": [item.nodeid for item in left],
            "repeated": [item.nodeid for item in again],
            "unused": sorted(set(LEFT_OUT) - used),
        }
        Path(path).write_text(json.dumps(told, indent=1))


def _is_repeated(item: pytest.Item) -> bool:
    """Say whether a test differs from another by a ledger that is not used here."""
    given = getattr(item, "callspec", None)
    return given is not None and given.params.get("running") == "memory"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Turn a skip into a failure: what does not run must be in the table."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped, and not in the table: {report.longrepr}"
