"""Settings of budgets, models, consensus sessions and logins, as plain data."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar
from urllib.parse import urlsplit

from reticent._numbers import nonnegative, positive, probability, whole
from reticent.errors import InvalidParameterError
from reticent.ledger import Cap

Kind = TypeVar(
    "Kind",
    "BudgetSettings",
    "ConsensusSettings",
    "DatasetSettings",
    "ModelSettings",
    "OidcSettings",
)

_METHODS = ("auto", "either", "basic", "zcdp")
#: Where the provider sends people back to.
CALLBACK = "/login/oidc/callback"
_LONGEST_BELIEF = 24 * 60
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}

# pydantic reads this where the service takes budgets out of requests.
_REFUSE_UNKNOWN = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class BudgetSettings:
    """The most that an account may spend."""

    __pydantic_config__: ClassVar[Any] = _REFUSE_UNKNOWN

    #: What all answers together may cost.
    epsilon: float
    delta: float = 0.0
    #: How answers add up. "either" takes sums of epsilon or of zCDP, whichever lasts
    #: longer; "auto" is "either" where there is a delta to use, else "basic".
    method: Literal["auto", "either", "basic", "zcdp"] = "auto"
    #: Part of delta kept for answers that bring a delta of their own, as consensus
    #: sessions do; None keeps one twentieth where `method` is "either", else nothing.
    slack: float | None = None

    def __post_init__(self) -> None:
        if self.method not in _METHODS:
            raise InvalidParameterError(f"method must be one of {', '.join(_METHODS)}.")
        for name in ("epsilon", "delta", "slack"):
            value = getattr(self, name)
            if value is not None and type(value) not in (int, float):
                raise InvalidParameterError(f"{name} must be a number.")
        if self.slack is not None:
            nonnegative("a budget", "slack", self.slack)
        self.cap()

    def cap(self) -> Cap:
        """Return the cap that this budget sets."""
        return _cap(self, repr(self))


@dataclass(frozen=True, kw_only=True)
class DatasetSettings(BudgetSettings):
    """The most that everything from a dataset may cost, over all periods."""

    #: How many equal parts it is given out in, and which of them has begun last. Every
    #: charge must fit the total and the part.
    periods: int = 1
    period: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("periods", "period"):
            whole("a dataset", name, getattr(self, name))
        if self.period > self.periods:
            raise InvalidParameterError(
                f"period={self.period} is beyond periods={self.periods}."
            )

    def part(self) -> BudgetSettings:
        """Return the most that one period may cost."""
        return BudgetSettings(
            epsilon=self.epsilon / self.periods,
            delta=self.delta / self.periods,
            method=self.method,
            slack=None if self.slack is None else self.slack / self.periods,
        )


# Settings are read often, and each time their caps are checked. The text tells zero
# from minus zero, which are equal and of which one is refused.
@lru_cache
def _cap(budget: BudgetSettings, _: str) -> Cap:
    numbers: dict[str, Any] = {"epsilon": budget.epsilon, "delta": budget.delta}
    if budget.method == "zcdp":
        return Cap.zcdp(**numbers, slack=budget.slack or 0.0)
    if budget.method == "either" or (budget.method == "auto" and budget.delta > 0):
        return Cap.either(**numbers, slack=budget.slack)
    return Cap.basic(**numbers)


@dataclass(frozen=True, kw_only=True)
class ConsensusSettings:
    """Consensus answers (P9): one price for many queries on which shards agree."""

    #: The price of one session; each worker process opens its own at its first query
    #: and pays for it.
    epsilon: float
    delta: float
    #: How many queries a session answers, and how many of them may be in doubt.
    queries: int
    unstable: int = 1
    vote_share: float = 0.3  #: part of the price that pays for the queries in doubt

    def __post_init__(self) -> None:
        positive("consensus", "epsilon", self.epsilon)
        for name in ("delta", "vote_share"):
            probability("consensus", name, getattr(self, name))
        for name in ("queries", "unstable"):
            whole("consensus", name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """A model under its public name."""

    path: Path  #: its directory, made by `reticent.storage.save_model`
    #: Whether a query that a client asked before gets the same answer again, free.
    remember: bool = True
    #: Whether answers are remembered across clients: what one has asked costs the
    #: dataset nothing when another asks it. A client can then find out which rows
    #: others asked, from what the dataset was charged. Off, no client's charges or
    #: answers depend on what others asked, except that all share the budgets. Lasting
    #: answers are remembered across clients in any case.
    share: bool = False
    #: A cap of its own, in addition to those of its dataset and of the client.
    budget: BudgetSettings | None = None
    #: Answer by consensus instead of by one charged vote per answer.
    consensus: ConsensusSettings | None = None
    #: Where answers last: abstain from those with less evidence than this.
    abstain_below: float = 0.0

    def __post_init__(self) -> None:
        for name in ("remember", "share"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidParameterError(f"{name} must be true or false.")
        if type(self.abstain_below) not in (int, float):
            raise InvalidParameterError("abstain_below must be a number.")
        nonnegative("a model", "abstain_below", self.abstain_below)
        put(self, "path", Path(self.path))
        put(self, "budget", made(BudgetSettings, "budget", self.budget))
        consensus = made(ConsensusSettings, "consensus", self.consensus)
        put(self, "consensus", consensus)


@dataclass(frozen=True, kw_only=True)
class OidcSettings:
    """Where people log in, and what their groups may do here."""

    issuer: str  #: the provider's address, as its tokens name it
    client_id: str  #: what this service is called there
    #: This service's own address with ``/login/oidc/callback``, as people reach it.
    redirect_url: str
    #: A file with the secret that the provider gave; None if it gave none.
    client_secret_file: Path | None = None
    role_claim: str = "roles"  #: the claim that names what somebody is
    admins: tuple[str, ...] = ()  #: its values that make an admin
    analysts: tuple[str, ...] = ()  #: its values that make an analyst
    scopes: str = "openid profile"  #: what the provider is asked for
    #: How long what the provider said about somebody is believed.
    recheck_minutes: int = 5

    def __post_init__(self) -> None:
        for name in ("issuer", "client_id", "redirect_url", "role_claim", "scopes"):
            value = getattr(self, name)
            if not (isinstance(value, str) and value.strip()):
                raise InvalidParameterError(f"{name} must be a text.")
        for name in ("issuer", "redirect_url"):
            _check_address(name, getattr(self, name))
        if urlsplit(self.redirect_url).path != CALLBACK:
            raise InvalidParameterError(f"redirect_url must end in {CALLBACK}.")
        if "openid" not in self.scopes.split():
            raise InvalidParameterError("scopes must contain openid.")
        for name in ("admins", "analysts"):
            put(self, name, _texts(name, getattr(self, name)))
        if not self.admins and not self.analysts:
            raise InvalidParameterError(
                "admins and analysts name nobody; give values of the claim "
                f"{self.role_claim!r}."
            )
        if type(self.recheck_minutes) is not int or not (
            1 <= self.recheck_minutes <= _LONGEST_BELIEF
        ):
            raise InvalidParameterError(
                f"recheck_minutes={self.recheck_minutes!r} must be a whole number "
                f"from 1 to {_LONGEST_BELIEF}."
            )
        if self.client_secret_file is not None:
            path = Path(self.client_secret_file)
            put(self, "client_secret_file", path)


def _texts(name: str, values: object) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or not all(
        isinstance(value, str) and value for value in values
    ):
        raise InvalidParameterError(f"{name} must be a list of texts.")
    return tuple(values)


def _check_address(name: str, address: str) -> None:
    """Refuse an address that would send tokens unencrypted over a network."""
    found = urlsplit(address)
    secure = found.scheme == "https" and bool(found.hostname)
    local = found.scheme == "http" and found.hostname in _LOOPBACK
    if not (secure or local) or found.query or found.fragment:
        raise InvalidParameterError(
            f"{name} must be an https:// address without a query (http:// only on this "
            "machine)."
        )


def put(settings: object, name: str, value: Any) -> None:
    """Set a field of frozen settings, while they are made."""
    object.__setattr__(settings, name, value)


def made(kind: type[Kind], name: str, value: Any) -> Kind | None:
    """Return nested settings that may come as plain data."""
    if value is None or isinstance(value, kind):
        return value
    if kind is ModelSettings and isinstance(value, str | os.PathLike):
        value = {"path": value}
    if kind is DatasetSettings and isinstance(value, BudgetSettings):
        value = asdict(value)
    try:
        return kind(**value)
    except TypeError:
        known = ", ".join(each.name for each in fields(kind))
        raise InvalidParameterError(
            f"{name} must have values for some of {known}, and for nothing else."
        ) from None
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{name}: {error}") from None
