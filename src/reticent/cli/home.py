"""A home: the directory that keeps keys, models, the ledger and its settings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.errors import InvalidParameterError
from reticent.ledger import Ledger
from reticent.service import (
    KeyRecord,
    Keyring,
    Role,
    Settings,
    SQLKeys,
    client_account,
    open_keyring,
    open_ledger,
)
from reticent.signing import new_key, read_key_file, write_key_file

DEFAULT_HOME = ".reticent"


@dataclass(frozen=True)
class Home:
    """Where one installation keeps everything that is secret.

    Parameters
    ----------
    path : Path
        The directory, mode 700.
    """

    path: Path

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Home:
        """Return the home at `path`, made if it is not there."""
        home = cls(Path(path))
        home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if home.path.stat().st_mode & 0o077:
            raise InvalidParameterError(
                f"{str(home.path)!r} keeps secrets and others can enter it; run "
                f"chmod 700 {home.path}."
            )
        for name in ("secret", "signing"):
            if not home.key_file(name).exists():
                write_key_file(home.key_file(name), new_key())
        home.models.mkdir(mode=0o700, exist_ok=True)
        return home

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> Home:
        """Return the home at `path`, which must be there."""
        home = cls(Path(path))
        if not home.config.is_file():
            raise InvalidParameterError(
                f"--home {str(home.path)!r} holds no model yet; make one with "
                "'reticent fit'."
            )
        return home

    @property
    def models(self) -> Path:
        """Where models are."""
        return self.path / "models"

    @property
    def config(self) -> Path:
        """The service's settings."""
        return self.path / "service.json"

    def key_file(self, name: str) -> Path:
        """Return the file of a key."""
        return self.path / f"{name}.key"

    def signing_key(self) -> str:
        """Return the key that signs models."""
        return read_key_file(self.key_file("signing"))

    def open_dataset(self, dataset: str, budget: dict[str, float]) -> None:
        """Note the budget of a dataset in the settings, unless it has one."""
        found = self._read() if self.config.exists() else self._blank()
        found["datasets"].setdefault(dataset, budget)
        found.setdefault("client_budget", budget)
        self._write(found)

    def budgets(self) -> dict[str, Any]:
        """Return the budgets of datasets that the settings note."""
        found: dict[str, Any] = self._read()["datasets"] if self.config.exists() else {}
        return found

    def has_ledger(self) -> bool:
        """Return whether anything may have been charged here."""
        if not self.config.exists():
            return False
        url = str(self._read()["ledger"])
        file = url.removeprefix("sqlite:///")
        return file == url or Path(file).exists()

    def set_budget(self, dataset: str, budget: dict[str, float]) -> None:
        """Change the budget of a dataset, and of new clients if it was the same."""
        found = self._read()
        if found.get("client_budget") == found["datasets"].get(dataset):
            found["client_budget"] = budget
        found["datasets"][dataset] = budget
        self._write(found)

    def register(self, name: str) -> None:
        """Note a model in the settings."""
        found = self._read()
        found["models"][name] = str((self.models / name).resolve())
        self._write(found)

    def _write(self, found: dict[str, Any]) -> None:
        scratch = self.config.with_suffix(".new")
        scratch.touch(mode=0o600)
        scratch.write_text(json.dumps(found, indent=1) + "\n")
        scratch.replace(self.config)

    def settings(self, **given: Any) -> Settings:
        """Return the service's settings."""
        return Settings.load(self.config, **given)

    @contextmanager
    def keyring(self) -> Iterator[Keyring]:
        """Hold the API keys of this home."""
        settings = self.settings()
        keyring = open_keyring(settings, SQLKeys(settings.ledger))
        try:
            yield keyring
        finally:
            keyring.store.close()

    def new_key(
        self, client: str, role: Role, *, models: tuple[str, ...] | None = None
    ) -> tuple[str, KeyRecord]:
        """Make an API key and open the account that it is charged to."""
        settings = self.settings()
        with open_ledger(settings) as ledger:
            open_client(ledger, settings, client)
        with self.keyring() as keyring:
            return keyring.create(client, role, models=models)

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.config.read_text())
        except ValueError:
            raise InvalidParameterError(
                f"{str(self.config)!r} is not valid JSON; mend it or make a new home."
            ) from None
        return found

    def _blank(self) -> dict[str, Any]:
        here = self.path.resolve()
        return {
            "models": {},
            "datasets": {},
            "ledger": f"sqlite:///{here / 'ledger.db'}",
            "checkpoints": str(here / "checkpoints.json"),
            "secret_file": str(here / "secret.key"),
            "model_key_file": str(here / "signing.key"),
            # The service listens on this machine alone unless told otherwise.
            "secure_cookies": False,
        }


def open_client(ledger: Ledger, settings: Settings, client: str) -> None:
    """Open the account of a client under the settings' budget, if it is not open."""
    account = client_account(client)
    known = {balance.account for balance in ledger.balances()}
    if account not in known and settings.client_budget is not None:
        ledger.open_account(account, settings.client_budget.cap())
