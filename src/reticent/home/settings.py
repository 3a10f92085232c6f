"""Settings of an installation: from the environment or a file, or given in Python."""

from __future__ import annotations

import hashlib
import hmac
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from reticent._text import checked_name
from reticent.errors import InvalidParameterError
from reticent.home.api_keys import Keyring, KeyStore
from reticent.home.key_tables import SQLKeys
from reticent.home.model_settings import (
    BudgetSettings,
    DatasetSettings,
    ModelSettings,
    OidcSettings,
    made,
    put,
)
from reticent.home.on_disk.identity import adopt, check_not_copied, check_not_retired
from reticent.home.on_disk.second_place import second_place_risk
from reticent.home.settings_files import (
    HOME_FORMAT,
    SECRETS,
    placed,
    read_settings,
    with_environment,
)
from reticent.ledger import ChainVerification, SQLLedger, end_process
from reticent.signing import HMAC, key_from, secret_bytes
from reticent.storage import StoredModel, load_model

#: Names the file of settings, where none is given.
CONFIG_VARIABLE = "RETICENT_CONFIG"
_RANGES = {
    "checkpoint_every": (1, math.inf),
    "port": (0, 65535),
    "workers": (1, 256),
    "metrics_port": (0, 65535),
    "session_minutes": (1, 24 * 60),
    "max_body_bytes": (1024, 2**30),
    "max_rows": (1, 100_000),
    "rate": (0, 1e9),
    "burst": (1, math.inf),
    "max_in_flight": (1, math.inf),
    "shutdown_seconds": (1, math.inf),
    "key_cache_seconds": (0, 60),
    "reload_seconds": (0, 3600),
    "home_format": (1, HOME_FORMAT),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that an installation, and a service on it, needs to know.

    `Settings.load` reads each setting from ``RETICENT_<NAME>`` in the environment
    (nested ones with ``__`` between names, or as JSON), else from the file. The
    constructor reads neither.

    Attributes
    ----------
    models : mapping of str to ModelSettings
        The models by name; a bare path takes the defaults.
    datasets : mapping of str to DatasetSettings
        What all clients together may learn about each dataset. Every dataset that a
        model names must be here.
    client_budget : BudgetSettings or None
        What a client may learn from answers that are charged one by one, unless its
        key was made with another budget. Released models and lasting answers are paid
        by the dataset alone.
    ledger : str
        ``sqlite:///path`` or ``postgresql://...``: where spending, answers and API
        keys are kept.
    checkpoints : path or "none"
        The second place for signed checkpoints, outside the ledger's folder and best
        on another disk; with "none" nobody notices a restored backup of the ledger.
    checkpoint_every : int
        Entries from one checkpoint to the next.
    start : {"full", "tail"}
        How much of the ledger is verified when it is opened.
    secret, secret_file : str, path
        An ``hmac-sha256`` key, from which those for API keys, sessions and checkpoints
        are derived.
    model_key, model_key_file : str, path
        Checks the signatures of models: ``hmac-sha256`` or ``ed25519-public``.
    encryption_key, encryption_key_file : str, path
        Opens encrypted models: ``aes-256-gcm``.
    host, port, workers : str, int, int
        Where the service listens, with how many processes.
    metrics_host, metrics_port : str, int or None
        The listener for Prometheus; without a port there is none.
    traces : bool
        Whether each request becomes an OpenTelemetry span, without contents.
    forwarded : str
        Addresses of proxies that are trusted to name the scheme, as uvicorn reads
        them.
    secure_cookies : bool
        Whether browsers send the dashboard's cookie over HTTPS only.
    dashboard : bool
        Whether there is one.
    session_minutes : int
        How long a dashboard's login lasts.
    max_body_bytes, max_rows : int
        Larger requests are refused.
    rate, burst : float, int
        Requests per second that one client may send to one worker, and how many at
        once. 0 sets no limit.
    max_in_flight : int
        Requests that one worker answers at a time; more are refused with 503.
    shutdown_seconds : int
        How long requests may take to finish when the service stops.
    key_cache_seconds : float
        How long a worker may still accept a key that another has revoked.
    reload_seconds : float
        How often a service looks for new, replaced and removed models; 0 never.
    oidc : OidcSettings or None
        The OpenID provider by which people log in at the dashboard.
    identity : path or None
        Tells a home from its copies, which must not spend. ``reticent fit`` makes it.
    home_format : int or None
        The format of a home. ``reticent`` writes it, and upgrades older homes.
    debug : bool
        Must be off. It is here so that switching it on is refused, not ignored.
    """

    models: Mapping[str, ModelSettings]
    datasets: Mapping[str, DatasetSettings]
    client_budget: BudgetSettings | None = None
    ledger: str
    checkpoints: Path
    checkpoint_every: int = 1
    start: Literal["full", "tail"] = "full"
    secret: str | None = field(default=None, repr=False)
    secret_file: Path | None = None
    model_key: str | None = field(default=None, repr=False)
    model_key_file: Path | None = None
    encryption_key: str | None = field(default=None, repr=False)
    encryption_key_file: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    traces: bool = False
    forwarded: str = "127.0.0.1"
    secure_cookies: bool = True
    dashboard: bool = True
    session_minutes: int = 60
    max_body_bytes: int = 2**20
    max_rows: int = 1000
    rate: float = 100.0
    burst: int = 200
    max_in_flight: int = 512
    shutdown_seconds: int = 30
    key_cache_seconds: float = 1.0
    reload_seconds: float = 2.0
    oidc: OidcSettings | None = None
    identity: Path | None = None
    home_format: int | None = None
    debug: bool = False

    def __post_init__(self) -> None:
        models = {
            checked_name("a name", name): made(ModelSettings, f"models.{name}", given)
            for name, given in self.models.items()
        }
        budgets = {
            checked_name("a name", name): made(
                DatasetSettings, f"datasets.{name}", given
            )
            for name, given in self.datasets.items()
        }
        put(self, "models", models)
        put(self, "datasets", budgets)
        for name, found in (*models.items(), *budgets.items()):
            if found is None:
                raise InvalidParameterError(f"{name!r} needs settings; got nothing.")
        budget = made(BudgetSettings, "client_budget", self.client_budget)
        put(self, "client_budget", budget)
        put(self, "oidc", made(OidcSettings, "oidc", self.oidc))
        if self.checkpoints is None:
            raise InvalidParameterError(
                "checkpoints must be a path. The text 'none' does without checkpoints; "
                "a ledger that is put back from a backup then goes unnoticed."
            )
        for name in (
            *("checkpoints", "identity"),
            *(f"{secret}_file" for secret in SECRETS),
        ):
            value = getattr(self, name)
            put(self, name, None if value is None else Path(value))
        self._check()

    def _check(self) -> None:
        for each in fields(self):
            _check_plain(each.name, getattr(self, each.name), each.default)
        if self.start not in ("full", "tail"):
            raise InvalidParameterError("start must be 'full' or 'tail'.")
        if self.debug:
            raise InvalidParameterError(
                "debug=True shows records to whoever provokes an error; switch it off."
            )
        for name in ("secret", "model_key"):
            file = f"{name}_file"
            if (getattr(self, name) is None) == (getattr(self, file) is None):
                raise InvalidParameterError(f"give one of {name} and {file}.")

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None, **given: Any) -> Settings:
        """Read the settings; the environment overrides the file.

        Parameters
        ----------
        path : path or None, default=None
            A TOML or JSON file; None is the one that ``RETICENT_CONFIG`` names, if it
            is set.
        **given
            Settings that override both.
        """
        chosen = os.environ.get(CONFIG_VARIABLE) if path is None else path
        found = {}
        if chosen is not None:
            folder = Path(chosen).resolve().parent
            found = placed(read_settings(Path(chosen)), str(folder))
        defaults = {each.name: each.default for each in fields(cls)}
        found = {**with_environment(found, defaults), **given}
        names = {each.name for each in fields(cls)}
        needed = {each.name for each in fields(cls) if each.default is MISSING}
        for wrong, text in (
            (set(found) - names, "unknown"),
            (needed - set(found), "missing"),
        ):
            if wrong:
                raise InvalidParameterError(f"{min(wrong)}: this setting is {text}.")
        return cls(**found)

    def master(self) -> bytes:
        """Return the master secret."""
        text = key_from(self.secret, self.secret_file, "secret")
        return secret_bytes(text or "", HMAC)

    def derived(self, purpose: str) -> bytes:
        """Return the key for one purpose; none of them reveals another."""
        message = b"reticent-service/" + purpose.encode()
        return hmac.new(self.master(), message, hashlib.sha256).digest()

    @property
    def second_place(self) -> Path | None:
        """Where checkpoints go, None if nowhere."""
        return None if str(self.checkpoints) == "none" else self.checkpoints

    def second_place_risk(self) -> str | None:
        """Say what goes unnoticed with checkpoints where they are; None if nothing."""
        return second_place_risk(self.ledger, self.second_place)

    def load_model(self, name: str) -> StoredModel:
        """Load one of the models; refuse one that must not be used."""
        encryption = key_from(
            self.encryption_key, self.encryption_key_file, "encryption_key"
        )
        return load_model(
            self.models[name].path,
            signing_key=str(key_from(self.model_key, self.model_key_file, "model_key")),
            encryption_key=encryption,
        )

    def open_ledger(self, *, reading: bool = False) -> SQLLedger:
        """Open the ledger; a failed write ends the process.

        Parameters
        ----------
        reading : bool, default=False
            Whether nothing will be spent: then a copy of a home may be opened, too.
        """
        second = self.second_place
        # A ledger in a database server is one, however often the home is copied.
        local = self.ledger.startswith("sqlite:")
        home = None if self.identity is None else self.identity.parent
        guarded = home is not None and local and not reading
        if home is not None and guarded:
            check_not_retired(home, second)
        ledger = SQLLedger(
            self.ledger,
            checkpoints=second,
            signer=None if second is None else self.derived("checkpoints"),
            checkpoint_every=self.checkpoint_every,
            start=self.start,
            on_fatal=end_process,
        )
        if home is not None and guarded:
            try:
                check_not_copied(home)
            except BaseException:
                ledger.close()
                raise
        return ledger

    def write_off(self, reason: str) -> ChainVerification:
        """Count every budget as spent, see `SQLLedger.write_off`."""
        second = self.second_place
        found = SQLLedger.write_off(
            self.ledger,
            reason=reason,
            checkpoints=second,
            signer=None if second is None else self.derived("checkpoints"),
        )
        if self.identity is not None:
            adopt(self.identity.parent, second)  # nothing is left to spend twice
        return found

    def keyring(self, store: KeyStore) -> Keyring:
        """Return what makes and recognises the API keys in a store."""
        seconds = self.key_cache_seconds
        return Keyring(store, self.derived("api-keys"), cache_seconds=seconds)

    @contextmanager
    def open_keyring(self) -> Iterator[Keyring]:
        """Hold the API keys that are kept in the ledger's database."""
        keyring = self.keyring(SQLKeys(self.ledger))
        try:
            yield keyring
        finally:
            keyring.store.close()


def _check_plain(name: str, value: Any, default: Any) -> None:
    """Refuse a setting of another type than its default, or outside its range."""
    numeric = name in _RANGES
    if numeric and not (value is None and default is None):
        low, high = _RANGES[name]
        allowed = (int, float) if isinstance(default, float) else (int,)
        if not (type(value) in allowed and low <= value <= high):
            raise InvalidParameterError(
                f"{name} must be a number from {low} to {high}."
            )
    kind = str if name == "ledger" else type(default)
    if kind in (bool, str) and not isinstance(value, kind):
        raise InvalidParameterError(f"{name} must be of type {kind.__name__}.")
