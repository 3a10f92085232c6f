"""A home: the directory that keeps keys, models, the ledger and its settings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reticent._files import check_own_folder
from reticent._text import checked_name
from reticent.errors import InvalidParameterError
from reticent.guarantees import Budget
from reticent.home.accounts import open_accounts, open_client
from reticent.home.api_keys import KeyRecord, Role, known_key
from reticent.home.on_disk.identity import IDENTITY, adopt, settle_in
from reticent.home.on_disk.upgrade import KEY as HOME_FORMAT_KEY
from reticent.home.on_disk.upgrade import (
    default_checkpoints,
    relative,
    upgrade,
    write_settings,
)
from reticent.home.served_models import ServedModel, open_registry
from reticent.home.settings import Settings
from reticent.home.settings_files import HERE, HOME_FORMAT, read_settings
from reticent.ledger import SQLLedger
from reticent.signing import new_key, read_key_file, write_key_file

DEFAULT_HOME = ".reticent"
#: Who acts, as the ledger's chain names it, where nobody logged in.
COMMAND_LINE = "command line"
_PARTS = ("periods", "period")


@dataclass(frozen=True)
class Home:
    """Where one installation keeps everything that is secret.

    Parameters
    ----------
    path : Path
        The directory, mode 700.
    second_place : Path or None, default=None
        Where the checkpoints of a new home go; None for `default_second_place`.
    """

    path: Path
    second_place: Path | None = None

    @classmethod
    def at(
        cls,
        path: str | os.PathLike[str],
        *,
        second_place: str | os.PathLike[str] | None = None,
    ) -> Home:
        """Return the home at `path`, made if it is not there."""
        home = cls(Path(path), None if second_place is None else Path(second_place))
        if home.path.exists() and not home.path.is_dir():
            raise InvalidParameterError(
                f"--home needs a folder; {str(home.path)!r} is a file."
            )
        home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        home._check()
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
        home._check()
        return home

    def _check(self) -> None:
        """Refuse a home that others can enter."""
        check_own_folder(
            self.path, "the home", secret=True, error=InvalidParameterError
        )

    @property
    def models(self) -> Path:
        """Where models are."""
        return self.path / "models"

    @property
    def config(self) -> Path:
        """The settings, those of the service included."""
        return self.path / "service.json"

    def key_file(self, name: str) -> Path:
        """Return the file of a key."""
        return self.path / f"{name}.key"

    def signing_key(self) -> str:
        """Return the key that signs models."""
        return read_key_file(self.key_file("signing"))

    def settings(self) -> Settings:
        """Return the settings, those of the environment included.

        A home that an older version wrote is upgraded first.
        """
        upgrade(self.path, self.config)
        return Settings.load(self.config)

    def adopt(self) -> bool:
        """Continue with this home if it has copies; see `home.identity.adopt`."""
        upgrade(self.path, self.config, adopting=True)
        settings = Settings.load(self.config)
        return adopt(self.path.resolve(), settings.second_place)

    def model_path(self, name: str) -> Path:
        """Return where the current version of a model is stored."""
        settings = self.settings()
        if name not in settings.models:
            raise InvalidParameterError(
                f"there is no model {name!r}; this home has "
                f"{', '.join(sorted(settings.models)) or 'none'}."
            )
        return settings.models[name].path

    def new_model_path(self, name: str) -> Path:
        """Return where the next version of a model goes, after all that are there."""
        number = max(self.version_numbers(name), default=0) + 1
        return self.models / (name if number == 1 else f"{name}@{number}")

    def version_numbers(self, name: str) -> list[int]:
        """Return the numbers of the folders that versions of a model are in."""
        form = re.compile(rf"{re.escape(name)}(?:@(\d+))?")
        found = (form.fullmatch(path.name) for path in self.models.iterdir())
        return sorted(int(match[1] or 1) for match in found if match)

    def has_model(self, name: str) -> bool:
        """Return whether a name is taken by any version of a model."""
        named = read_settings(self.config)["models"] if self.config.exists() else ()
        return name in named or bool(self.version_numbers(name))

    def open_dataset(self, dataset: str, budget: Budget) -> None:
        """Write the budget of a dataset into the settings, unless it has one."""
        found = read_settings(self.config) if self.config.exists() else self._blank()
        found["datasets"].setdefault(dataset, asdict(budget))
        found.setdefault("client_budget", asdict(budget))
        self._write(found)

    def set_budget(self, dataset: str, budget: Budget) -> None:
        """Change the budget of a dataset, and of new clients if it was the same."""
        found = read_settings(self.config)
        known = dict(found["datasets"].get(dataset, {}))
        parts = {name: known.pop(name) for name in _PARTS if name in known}
        if found.get("client_budget") == known:
            found["client_budget"] = asdict(budget)
        found["datasets"][dataset] = {**asdict(budget), **parts}
        self._write(found)

    def set_period(self, dataset: str, periods: int, period: int) -> None:
        """Write into the settings how a budget is given out, and which part began."""
        found = read_settings(self.config)
        parts = dict(zip(_PARTS, (periods, period), strict=True))
        found["datasets"][dataset].update(parts)
        self._write(found)

    def record(self, act: str, **facts: Any) -> None:
        """Write an administrative act of the command line into the ledger's chain."""
        with self.settings().open_ledger() as ledger:
            ledger.record(act, COMMAND_LINE, facts)

    def register(self, name: str, path: Path) -> None:
        """Let a name stand for the model at a path, from now on."""
        self.record("model named", model=name, folder=path.name)
        found = read_settings(self.config)
        place = relative(str(path.resolve()), str(self.path.resolve()))
        known = found["models"].get(name)
        kept = known if isinstance(known, dict) else {}
        found["models"][name] = {**kept, "path": place} if kept else place
        self._write(found)

    def unregister(self, name: str) -> None:
        """Take a model out of the settings."""
        self.record("model removed", model=name)
        found = read_settings(self.config)
        del found["models"][name]
        self._write(found)

    def new_key(
        self,
        client: str,
        role: Role,
        *,
        models: tuple[str, ...] | None = None,
        days: int | None = None,
    ) -> tuple[str, KeyRecord]:
        """Make an API key and open the account that it is charged to.

        Nothing is made if a name is not valid or a model is not there.
        """
        settings = self.settings()
        checked_name("client", client)
        for model in models or ():
            if model not in settings.models:
                raise InvalidParameterError(
                    f"there is no model {model!r} for the key; this home has "
                    f"{', '.join(sorted(settings.models)) or 'none'}."
                )
        with settings.open_ledger() as ledger, settings.open_keyring() as keyring:
            open_client(ledger, settings.client_budget, client)
            return keyring.create(
                client,
                role,
                models=models,
                days=days,
                first=lambda made: ledger.record(
                    "key created", COMMAND_LINE, made.facts()
                ),
            )

    def revoke_key(self, key_id: str) -> None:
        """Revoke a key for good."""
        settings = self.settings()
        with settings.open_ledger() as ledger, settings.open_keyring() as keyring:
            known_key(keyring, key_id)
            ledger.record("key revoked", COMMAND_LINE, {"id": key_id})
            keyring.revoke(key_id)

    def rotate_key(
        self, key_id: str, *, days: int | None = None, at_once: bool = False
    ) -> tuple[str, KeyRecord]:
        """Make a key that may do what another may.

        Parameters
        ----------
        key_id : str
            The public part of the other, which must be valid.
        days : int or None, default=None
            Days until the new one expires; None for as long as the other was made for.
        at_once : bool, default=False
            Whether the other is revoked; otherwise it stays valid until that is done.
        """
        with self.settings().open_keyring() as keyring:
            old = known_key(keyring, key_id)
            if keyring.current(key_id) is None:
                raise InvalidParameterError(
                    f"the key {key_id!r} is no longer valid; make one with 'reticent "
                    "keys create'."
                )
        if days is None and old.expires is not None:
            days = max(1, (old.expires - old.created) // 86_400)
        made = self.new_key(old.client, old.role, models=old.models, days=days)
        if at_once:
            self.revoke_key(key_id)
        return made

    @contextmanager
    def open_model(
        self,
        name: str,
        *,
        client: str,
        first: Callable[[ServedModel], None] | None = None,
    ) -> Iterator[tuple[SQLLedger, ServedModel]]:
        """Hold a model and the ledger that its answers are charged to.

        Parameters
        ----------
        name : str
            The model.
        client : str
            Whose account is opened, if it is not open. See `reticent.home.answer_rows`.
        first : callable or None, default=None
            Called with the model before any account is opened, to check what is asked:
            a mistake then leaves nothing behind.
        """
        self.model_path(name)  # refuses a name that is not there
        settings = self.settings()
        registry = open_registry(settings, name)
        if first is not None:
            first(registry.models[name])
        with settings.open_ledger() as ledger:
            open_accounts(ledger, registry, settings)
            open_client(ledger, settings.client_budget, client)
            yield ledger, registry.models[name]
            registry.close()

    def _write(self, found: dict[str, Any]) -> None:
        write_settings(self.config, found)

    def _blank(self) -> dict[str, Any]:
        settle_in(self.path.resolve())
        return {
            HOME_FORMAT_KEY: HOME_FORMAT,
            "models": {},
            "datasets": {},
            "ledger": f"sqlite:///{HERE}/ledger.db",
            "checkpoints": str(
                (self.second_place or default_checkpoints(self.path)).absolute()
            ),
            "secret_file": f"{HERE}/secret.key",
            "model_key_file": f"{HERE}/signing.key",
            "identity": f"{HERE}/{IDENTITY}",
            # The service listens on this machine alone unless told otherwise.
            "secure_cookies": False,
        }
