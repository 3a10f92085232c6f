"""The settings that command line and service share, as plain data."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

from reticent._numbers import probability, whole
from reticent.errors import InvalidParameterError
from reticent.home.api_keys import Keyring, KeyStore
from reticent.ledger import Cap, SQLLedger, end_process
from reticent.signing import HMAC, key_from, secret_bytes
from reticent.storage import StoredModel, checked_name, load_model

METHODS = ("auto", "either", "basic", "zcdp")
# Settings of the service alone; whoever opens a home for other work passes them over.
SERVICE_ONLY = frozenset(
    {
        *("host", "port", "workers", "forwarded", "shutdown_seconds", "debug"),
        *("metrics_host", "metrics_port"),
        *("dashboard", "secure_cookies", "session_minutes", "key_cache_seconds"),
        *("max_body_bytes", "max_rows", "rate", "burst", "max_in_flight"),
    }
)
_PREFIX = "reticent_"
# pydantic reads this where the service takes these types from files and requests.
_REFUSE_UNKNOWN = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class BudgetSettings:
    """The most that an account may spend.

    Attributes
    ----------
    epsilon, delta : float
        What all answers together may cost.
    method : {"auto", "either", "basic", "zcdp"}
        How answers add up; auto takes "either" where there is a delta to use: sums of
        epsilon or of zCDP, whichever last longer.
    slack : float or None
        Part of delta kept for answers that bring a delta of their own, as consensus
        sessions do; None keeps one twentieth where `method` is "either", else nothing.
    """

    __pydantic_config__: ClassVar[Any] = _REFUSE_UNKNOWN

    epsilon: float
    delta: float = 0.0
    method: Literal["auto", "either", "basic", "zcdp"] = "auto"
    slack: float | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InvalidParameterError(
                f"method={self.method!r} must be one of {', '.join(METHODS)}."
            )
        for name in ("epsilon", "delta", "slack"):
            value = getattr(self, name)
            if value is not None and type(value) not in (int, float):
                raise InvalidParameterError(f"{name} must be a number.")
        self.cap()

    def cap(self) -> Cap:
        """Return the cap that this budget sets."""
        numbers: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta}
        if self.method == "zcdp":
            return Cap.zcdp(**numbers, slack=self.slack or 0.0)
        if self.method == "either" or (self.method == "auto" and self.delta > 0):
            return Cap.either(**numbers, slack=self.slack)
        return Cap.basic(**numbers)


@dataclass(frozen=True, kw_only=True)
class ConsensusSettings:
    """Consensus answers (P9): one price for many queries on which shards agree.

    Attributes
    ----------
    epsilon, delta : float
        The price of one session; each worker process opens its own at its first
        query and pays for it.
    queries, unstable : int
        How many queries a session answers, and how many of them may be in doubt.
    vote_share : float
        Part of the price that pays for the queries in doubt.
    """

    __pydantic_config__: ClassVar[Any] = _REFUSE_UNKNOWN

    epsilon: float
    delta: float
    queries: int
    unstable: int = 1
    vote_share: float = 0.3

    def __post_init__(self) -> None:
        for name in ("delta", "vote_share"):
            probability("consensus", name, getattr(self, name))
        for name in ("queries", "unstable"):
            whole("consensus", name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """A model under its public name.

    Attributes
    ----------
    path : path
        Its directory, made by `reticent.storage.save_model`.
    remember : bool
        Whether a query asked before gets the same answer again, free for whoever
        has paid for it.
    budget : BudgetSettings or None
        A cap of its own, beside those of its dataset and of the client.
    consensus : ConsensusSettings or None
        Answer by consensus instead of by one charged vote per answer.
    """

    __pydantic_config__: ClassVar[Any] = _REFUSE_UNKNOWN

    path: Path
    remember: bool = True
    budget: BudgetSettings | None = None
    consensus: ConsensusSettings | None = None


@dataclass(frozen=True, kw_only=True)
class Installation:
    """Where models, ledger and keys are, and what may be spent.

    Attributes
    ----------
    models : mapping of str to ModelSettings
        The models by name.
    datasets : mapping of str to BudgetSettings
        What all clients together may learn about each dataset.
    client_budget : BudgetSettings or None
        What a client may learn, unless its key was made with another budget.
    ledger : str
        ``sqlite:///path`` or ``postgresql://...``.
    checkpoints : path or "none"
        The second place for signed checkpoints.
    checkpoint_every : int
        Entries from one checkpoint to the next.
    start : {"full", "tail"}
        How much of the ledger is verified when it is opened.
    secret, secret_file : str, path
        An ``hmac-sha256`` key; the keys for other purposes are derived from it.
    model_key, model_key_file : str, path
        Checks the signatures of models.
    encryption_key, encryption_key_file : str, path
        Opens encrypted models.
    """

    models: Mapping[str, ModelSettings]
    datasets: Mapping[str, BudgetSettings]
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

    @classmethod
    def load(cls, path: Path) -> Installation:
        """Read a JSON file of settings; ``RETICENT_<NAME>`` goes before it."""
        found = read_settings(path)
        refuse_readable_secrets(path, found)
        names = {each.name for each in fields(cls)}
        unknown = set(found) - names - SERVICE_ONLY
        found.update(_from_environment(names, found))
        missing = {f.name for f in fields(cls) if f.default is MISSING} - set(found)
        if unknown or missing:
            wrong = sorted(unknown or missing)[0]
            raise InvalidParameterError(
                f"{str(path)!r}: the setting {wrong!r} is "
                + ("not known." if unknown else "missing.")
            )
        try:
            return cls(**_typed({name: found[name] for name in names & set(found)}))
        except (TypeError, AttributeError, KeyError):
            raise InvalidParameterError(
                f"the settings in {str(path)!r} do not have the form that is needed."
            ) from None

    def __post_init__(self) -> None:
        for name in (*self.models, *self.datasets):
            checked_name("a name", name)
        for name in ("secret", "model_key"):
            file = f"{name}_file"
            if (getattr(self, name) is None) == (getattr(self, file) is None):
                raise InvalidParameterError(f"give one of {name} and {file}.")

    def master(self) -> bytes:
        """Return the master secret."""
        text = key_from(self.secret, self.secret_file, "secret")
        return secret_bytes(text or "", HMAC)

    def derived(self, purpose: str) -> bytes:
        """Return the key for one purpose; none of them tells about the others."""
        message = b"reticent-service/" + purpose.encode()
        return hmac.new(self.master(), message, hashlib.sha256).digest()

    @property
    def second_place(self) -> Path | None:
        """Where checkpoints go, None if nowhere."""
        return None if str(self.checkpoints) == "none" else self.checkpoints

    def load_model(self, name: str) -> StoredModel:
        """Load one of the models; refuse one that must not be used."""
        return load_model(
            self.models[name].path,
            signing_key=str(key_from(self.model_key, self.model_key_file, "model_key")),
            encryption_key=key_from(
                self.encryption_key, self.encryption_key_file, "encryption_key"
            ),
        )

    def open_ledger(self) -> SQLLedger:
        """Open the ledger; a failed write ends the process."""
        second = self.second_place
        return SQLLedger(
            self.ledger,
            checkpoints=second,
            signer=None if second is None else self.derived("checkpoints"),
            checkpoint_every=self.checkpoint_every,
            start=self.start,
            on_fatal=end_process,
        )

    def keyring(self, store: KeyStore, *, cache_seconds: float = 1.0) -> Keyring:
        """Return what makes and recognises the API keys in a store."""
        pepper = self.derived("api-keys")
        return Keyring(store, pepper, cache_seconds=cache_seconds)

    @contextmanager
    def open_keyring(self) -> Iterator[Keyring]:
        """Hold the API keys that are kept in the ledger's database."""
        from reticent.home.key_tables import SQLKeys

        keyring = self.keyring(SQLKeys(self.ledger))
        try:
            yield keyring
        finally:
            keyring.store.close()


def read_settings(path: Path) -> dict[str, Any]:
    """Return what a JSON file of settings holds."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidParameterError(
            f"{str(path)!r} is not valid JSON; correct it or make a new home."
        )
    return found


def refuse_readable_secrets(path: Path, found: Mapping[str, Any]) -> None:
    """Refuse a file of settings that holds a secret and that others can read."""
    secrets = {"secret", "model_key", "encryption_key"} & set(found)
    if secrets and path.stat().st_mode & 0o077:
        raise InvalidParameterError(
            f"{str(path)!r} holds {sorted(secrets)[0]!r} and others can read it; set "
            "its mode to 600."
        )


def _from_environment(names: set[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that the environment names, laid over those given.

    Nested names have ``__`` between them; values may be JSON.
    """
    found: dict[str, Any] = {}
    for variable, text in os.environ.items():
        name, *inner = variable.lower().removeprefix(_PREFIX).split("__")
        if not variable.lower().startswith(_PREFIX) or name not in names:
            continue
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        known = found.get(name, given.get(name))
        found[name] = _laid_over(known, inner, value)
    return found


def _laid_over(known: Any, inner: list[str], value: Any) -> Any:
    if not inner:
        return value
    table = dict(known) if isinstance(known, Mapping) else {}
    table[inner[0]] = _laid_over(table.get(inner[0]), inner[1:], value)
    return table


def _typed(given: dict[str, Any]) -> dict[str, Any]:
    """Return settings out of JSON as the types that they are."""
    typed = dict(given)
    typed["models"] = {name: _model(each) for name, each in given["models"].items()}
    typed["datasets"] = {
        name: BudgetSettings(**each) for name, each in given["datasets"].items()
    }
    if given.get("client_budget") is not None:
        typed["client_budget"] = BudgetSettings(**given["client_budget"])
    for name, value in given.items():
        if name.endswith("_file") or name == "checkpoints":
            typed[name] = None if value is None else Path(value)
    return typed


def _model(given: Any) -> ModelSettings:
    if isinstance(given, str):
        return ModelSettings(path=Path(given))
    found = {**given, "path": Path(given["path"])}
    for name, kind in (("budget", BudgetSettings), ("consensus", ConsensusSettings)):
        if found.get(name) is not None:
            found[name] = kind(**found[name])
    return ModelSettings(**found)
