"""Settings from the environment or a file, refused where they would weaken privacy."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    JsonConfigSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from reticent._text import checked_name
from reticent.errors import InvalidParameterError
from reticent.ledger import Cap
from reticent.signing import HMAC, key_from, secret_bytes

#: The file that workers read their settings from.
CONFIG_VARIABLE = "RETICENT_CONFIG"

Name = Annotated[str, BeforeValidator(lambda value: checked_name("a name", value))]
Loss = Annotated[float, Field(allow_inf_nan=False, ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class BudgetSettings(_Strict):
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

    epsilon: Loss
    delta: Loss = 0.0
    method: Literal["auto", "either", "basic", "zcdp"] = "auto"
    slack: Loss | None = None

    def cap(self) -> Cap:
        """Return the cap that this budget sets."""
        numbers: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta}
        if self.method == "zcdp":
            return Cap.zcdp(**numbers, slack=self.slack or 0.0)
        if self.method == "either" or (self.method == "auto" and self.delta > 0):
            return Cap.either(**numbers, slack=self.slack)
        return Cap.basic(**numbers)

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.cap()
        return self


class ConsensusSettings(_Strict):
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

    epsilon: Loss
    delta: Annotated[float, Field(gt=0, lt=1)]
    queries: Annotated[int, Field(ge=1, le=10**9)]
    unstable: Annotated[int, Field(ge=1, le=10**6)] = 1
    vote_share: Annotated[float, Field(gt=0, lt=1)] = 0.3


class ModelSettings(_Strict):
    """A model to serve.

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
        Answer by consensus instead of by one charged vote an answer.
    """

    path: Path
    remember: bool = True
    budget: BudgetSettings | None = None
    consensus: ConsensusSettings | None = None


def _as_model(value: Any) -> Any:
    """Take a bare path for a model with nothing else to say."""
    return {"path": value} if isinstance(value, str | os.PathLike) else value


class Settings(BaseSettings):
    """Everything a service needs to know.

    Each setting is read from ``RETICENT_<NAME>`` in the environment (nested ones with
    ``__`` between names, or as JSON), else from the file, else takes its default.

    Attributes
    ----------
    models : dict of str to ModelSettings
        The models by name; a bare path will do.
    datasets : dict of str to BudgetSettings
        What all clients together may learn about each dataset. Every dataset that a
        model names must be here.
    client_budget : BudgetSettings or None
        What a client may learn, unless its key was made with another budget.
    ledger : str
        ``sqlite:///path`` or ``postgresql://...``: where spending, answers and API
        keys are kept.
    checkpoints : path or "none"
        The second place for signed checkpoints; "none" says that a restored backup
        of the ledger shall go unnoticed.
    checkpoint_every : int
        Entries from one checkpoint to the next.
    start : {"full", "tail"}
        How much of the ledger is verified at the start.
    secret, secret_file : str, path
        An ``hmac-sha256`` key, of which those for API keys, sessions and checkpoints
        are derived.
    model_key, model_key_file : str, path
        Checks the signatures of models: ``hmac-sha256`` or ``ed25519-public``.
    encryption_key, encryption_key_file : str, path
        Opens encrypted models: ``aes-256-gcm``.
    host, port, workers : str, int, int
        Where to listen, with how many processes.
    metrics_host, metrics_port : str, int or None
        The listener for Prometheus; without a port there is none.
    forwarded : str
        Addresses of proxies whose word on the scheme is taken, as uvicorn reads them.
    secure_cookies : bool
        Whether browsers send the dashboard's cookie over HTTPS only.
    dashboard : bool
        Whether there is one.
    session_minutes : int
        How long a dashboard's login lasts.
    max_body_bytes, max_rows : int
        Larger requests are refused.
    rate, burst : float, int
        Requests a second that one client may send to one worker, and how many at
        once. 0 sets no limit.
    max_in_flight : int
        Requests that one worker answers at a time; more are refused with 503.
    shutdown_seconds : int
        How long requests may take to finish when the service stops.
    key_cache_seconds : float
        How long a worker may go on accepting a key that another has revoked.
    debug : bool
        Must be off. It is here so that switching it on is refused, not ignored.
    """

    model_config = SettingsConfigDict(
        env_prefix="RETICENT_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    models: dict[Name, Annotated[ModelSettings, BeforeValidator(_as_model)]]
    datasets: dict[Name, BudgetSettings]
    client_budget: BudgetSettings | None = None
    ledger: str
    checkpoints: Path
    checkpoint_every: Annotated[int, Field(ge=1)] = 1
    start: Literal["full", "tail"] = "full"
    secret: SecretStr | None = None
    secret_file: Path | None = None
    model_key: SecretStr | None = None
    model_key_file: Path | None = None
    encryption_key: SecretStr | None = None
    encryption_key_file: Path | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    metrics_host: str = "127.0.0.1"
    metrics_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    forwarded: str = "127.0.0.1"
    secure_cookies: bool = True
    dashboard: bool = True
    session_minutes: Annotated[int, Field(ge=1, le=24 * 60)] = 60
    max_body_bytes: Annotated[int, Field(ge=1024, le=2**30)] = 2**20
    max_rows: Annotated[int, Field(ge=1, le=100_000)] = 1000
    rate: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 100.0
    burst: Annotated[int, Field(ge=1)] = 200
    max_in_flight: Annotated[int, Field(ge=1)] = 512
    shutdown_seconds: Annotated[int, Field(ge=1)] = 30
    key_cache_seconds: Annotated[float, Field(ge=0, le=60)] = 1.0
    debug: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.debug:
            raise InvalidParameterError(
                "debug=True shows records to whoever provokes an error; switch it off."
            )
        if not self.models:
            raise InvalidParameterError("models names no model to serve.")
        if (self.secret is None) == (self.secret_file is None):
            raise InvalidParameterError("give one of secret and secret_file.")
        if (self.model_key is None) == (self.model_key_file is None):
            raise InvalidParameterError("give one of model_key and model_key_file.")
        return self

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None, **given: Any) -> Settings:
        """Read the settings; the environment goes before the file.

        Parameters
        ----------
        path : path or None, default=None
            A TOML or JSON file; None is the one that ``RETICENT_CONFIG`` names, if it
            is set.
        **given
            Settings that go before both.
        """
        named = os.environ.get(CONFIG_VARIABLE)
        chosen = path if path is not None else named
        kind = cls if chosen is None else _reading(Path(chosen))
        try:
            return kind(**given)
        except ValidationError as error:
            raise InvalidParameterError(_problems(error)) from None

    def master(self) -> bytes:
        """Return the master secret."""
        text = key_from(_plain(self.secret), self.secret_file, "secret")
        return secret_bytes(text or "", HMAC)

    def derived(self, purpose: str) -> bytes:
        """Return the key for one purpose; none of them tells about the others."""
        message = b"reticent-service/" + purpose.encode()
        return hmac.new(self.master(), message, hashlib.sha256).digest()

    def model_checking_key(self) -> str:
        """Return the key that checks signatures of models."""
        return str(key_from(_plain(self.model_key), self.model_key_file, "model_key"))

    def model_opening_key(self) -> str | None:
        """Return the key that opens encrypted models, if there is one."""
        given = _plain(self.encryption_key)
        return key_from(given, self.encryption_key_file, "encryption_key")

    @property
    def second_place(self) -> Path | None:
        """Where checkpoints go, None if nowhere."""
        return None if str(self.checkpoints) == "none" else self.checkpoints


def _plain(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _reading(path: Path) -> type[Settings]:
    """Return settings that also read a file."""
    if path.suffix not in {".toml", ".json"}:
        raise InvalidParameterError(f"{str(path)!r} must be a .toml or a .json file.")
    if not path.is_file():
        raise InvalidParameterError(f"the settings file {str(path)!r} is not there.")
    toml = path.suffix == ".toml"

    class FromFile(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            reader = TomlConfigSettingsSource if toml else JsonConfigSettingsSource
            try:
                file = reader(settings_cls, path)
            except (TypeError, ValueError):  # broken, or no table at all
                raise InvalidParameterError(
                    f"the settings file {str(path)!r} is not valid {path.suffix[1:]}."
                ) from None
            found = file()
            secrets = {"secret", "model_key", "encryption_key"} & set(found)
            if secrets and path.stat().st_mode & 0o077:
                raise InvalidParameterError(
                    f"{str(path)!r} holds {sorted(secrets)[0]!r} and others can read "
                    "it; set its mode to 600."
                )
            return init_settings, env_settings, file

    return FromFile


def _problems(error: ValidationError) -> str:
    """Say which settings are wrong, without their values."""
    found = []
    for problem in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in problem["loc"]) or "settings"
        found.append(f"{where}: {problem['msg'].removeprefix('Value error, ')}")
    return "; ".join(found)
