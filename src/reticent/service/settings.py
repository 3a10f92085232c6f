"""Settings from the environment or a file, refused where they would weaken privacy."""

from __future__ import annotations

import os
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
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

from reticent.errors import InvalidParameterError
from reticent.home import (
    BudgetSettings,
    Installation,
    ModelSettings,
    refuse_readable_secrets,
)
from reticent.storage import checked_name

#: The file that workers read their settings from.
CONFIG_VARIABLE = "RETICENT_CONFIG"

Name = Annotated[str, BeforeValidator(lambda value: checked_name("a name", value))]


def _as_model(value: Any) -> Any:
    """Read a bare path as a model with default settings."""
    return {"path": value} if isinstance(value, str | os.PathLike) else value


class Settings(BaseSettings):
    """Everything a service needs to know.

    Each setting is read from ``RETICENT_<NAME>`` in the environment (nested ones with
    ``__`` between names, or as JSON), else from the file, else takes its default.

    Attributes
    ----------
    models : dict of str to ModelSettings
        The models by name; a bare path takes the defaults.
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
        _ = self.installation  # it checks what it needs
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

    @cached_property
    def installation(self) -> Installation:
        """The settings that are not about HTTP alone."""
        given = {each.name: getattr(self, each.name) for each in fields(Installation)}
        for name, value in given.items():
            if isinstance(value, SecretStr):
                given[name] = value.get_secret_value()
        return Installation(**given)


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
            refuse_readable_secrets(path, file())
            return init_settings, env_settings, file

    return FromFile


def _problems(error: ValidationError) -> str:
    """Say which settings are wrong, without their values."""
    found = []
    for problem in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in problem["loc"]) or "settings"
        found.append(f"{where}: {problem['msg'].removeprefix('Value error, ')}")
    return "; ".join(found)
