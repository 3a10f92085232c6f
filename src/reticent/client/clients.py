"""The clients: one that waits, and one for coroutines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, Self
from urllib.parse import quote

try:
    import httpx
except ImportError as error:
    raise ImportError(
        "reticent.client needs httpx; install it with pip install 'reticent[client]'."
    ) from error

from reticent.client.exchanges import Call, Exchange, Outcome, exchange
from reticent.client.replies import Budgets, Model, Reply
from reticent.errors import InvalidParameterError
from reticent.guarantees import Certificate, recheck
from reticent.mechanisms import SystemSource

_bits = SystemSource()
Row = Mapping[str, Any]


def _checked(address: str, key: str, retries: int) -> str:
    if not address.startswith(("http://", "https://")):
        raise InvalidParameterError(
            f"address={address!r} must begin with http:// or https://."
        )
    if not (isinstance(key, str) and key.isascii() and key.strip() == key != ""):
        raise InvalidParameterError(
            "key must be an API key, as 'reticent keys create' shows it."
        )
    if not 0 <= retries <= 100:
        raise InvalidParameterError(f"retries={retries!r} must lie between 0 and 100.")
    return address.rstrip("/")


def _question(
    model: str,
    rows: Iterable[Row],
    clip: bool,
    abstain_below: float | None,
    key: str | None,
) -> Call:
    body: dict[str, Any] = {"rows": [dict(row) for row in rows]}
    if clip:
        body["clip"] = True
    if abstain_below is not None:
        body["abstain_below"] = abstain_below
    chosen = f"client-{_bits.bytes(16).hex()}" if key is None else key
    return Call("POST", f"/v1/models/{quote(model, safe='')}/predict", body, chosen)


def _get(*parts: str) -> Call:
    return Call("GET", "/v1/" + "/".join(quote(part, safe="") for part in parts))


class Client:
    """Asks a service.

    Parameters
    ----------
    address : str
        Where it is, such as ``https://models.example``.
    key : str
        The API key.
    timeout : float, default=30.0
        Seconds to wait for one response.
    retries : int, default=4
        How often a request is sent again when the service is busy or cannot be reached.
    transport : httpx.BaseTransport, optional
        Carries requests in another way, for tests and proxies.

    Guarantee
    ---------
    One call of `predict` is charged at most once, however often it is sent: all of its
    attempts carry one idempotency key.

    Examples
    --------
    >>> from reticent.client import Client
    >>> with Client("http://127.0.0.1:8000", key="rk_...") as client:  # doctest: +SKIP
    ...     reply = client.predict("triage", [{"age": 41, "ward": "a"}])
    ...     print(reply.answers, reply.answers_left)
    ('no',) 39
    """

    def __init__(
        self,
        address: str,
        key: str,
        *,
        timeout: float = 30.0,
        retries: int = 4,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._retries = retries
        self._http = httpx.Client(
            base_url=_checked(address, key, retries),
            headers={"X-API-Key": key},
            timeout=timeout,
            transport=transport,
        )

    def predict(
        self,
        model: str,
        rows: Iterable[Row],
        *,
        clip: bool = False,
        abstain_below: float | None = None,
        idempotency_key: str | None = None,
    ) -> Reply:
        """Return private answers for rows.

        Parameters
        ----------
        model : str
            The name of the model.
        rows : iterable of mappings
            Each with every column of the model; None for a missing value.
        clip : bool, default=False
            Whether numbers outside their range are moved into it, or refused.
        abstain_below : float, optional
            Where answers last: answer None where there is less evidence.
        idempotency_key : str, optional
            Repeat it to get the same answers at no cost; a new one by default.

        Raises
        ------
        BudgetExhaustedError
            If a budget does not cover the rows; nothing is charged.
        ServiceError
            If the service refuses them, or cannot be reached for too long.
        """
        call = _question(model, rows, clip, abstain_below, idempotency_key)
        return Reply.of(self._send(call))

    def models(self) -> list[Model]:
        """Return the models that the key may ask."""
        return [Model.of(each) for each in self._send(_get("models"))["models"]]

    def model(self, name: str) -> Model:
        """Return one model."""
        return Model.of(self._send(_get("models", name)))

    def budget(self) -> Budgets:
        """Return what the client has spent and may spend."""
        return Budgets.of(self._send(_get("budget")))

    def certificate(self, id: str) -> Certificate[Any]:  # noqa: A002 (its public name)
        """Return a certificate, derived again here."""
        found = self._send(_get("certificates", id))
        return _rederived(found)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _send(self, call: Call) -> dict[str, Any]:
        steps = exchange(call, self._retries)
        outcome: Outcome | None = None
        while True:
            step = _next(steps, outcome)
            if isinstance(step, dict):
                return step
            outcome = None
            if isinstance(step, float):
                time.sleep(step)
                continue
            try:
                outcome = self._http.request(
                    step.method, step.path, json=step.body, headers=step.headers()
                )
            except httpx.TransportError as error:
                outcome = error


class AsyncClient:
    """Asks a service from coroutines; see `Client`.

    Parameters
    ----------
    address, key, timeout, retries
        As for `Client`.
    transport : httpx.AsyncBaseTransport, optional
        Carries requests in another way.

    Guarantee
    ---------
    As for `Client`: one call of `predict` is charged at most once.
    """

    def __init__(
        self,
        address: str,
        key: str,
        *,
        timeout: float = 30.0,
        retries: int = 4,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._retries = retries
        self._http = httpx.AsyncClient(
            base_url=_checked(address, key, retries),
            headers={"X-API-Key": key},
            timeout=timeout,
            transport=transport,
        )

    async def predict(
        self,
        model: str,
        rows: Iterable[Row],
        *,
        clip: bool = False,
        abstain_below: float | None = None,
        idempotency_key: str | None = None,
    ) -> Reply:
        """Return private answers for rows; see `Client.predict`."""
        call = _question(model, rows, clip, abstain_below, idempotency_key)
        return Reply.of(await self._send(call))

    async def models(self) -> list[Model]:
        """Return the models that the key may ask."""
        found = await self._send(_get("models"))
        return [Model.of(each) for each in found["models"]]

    async def model(self, name: str) -> Model:
        """Return one model."""
        return Model.of(await self._send(_get("models", name)))

    async def budget(self) -> Budgets:
        """Return what the client has spent and may spend."""
        return Budgets.of(await self._send(_get("budget")))

    async def certificate(self, id: str) -> Certificate[Any]:  # noqa: A002 (its public name)
        """Return a certificate, derived again here."""
        found = await self._send(_get("certificates", id))
        return _rederived(found)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    async def _send(self, call: Call) -> dict[str, Any]:
        steps = exchange(call, self._retries)
        outcome: Outcome | None = None
        while True:
            step = _next(steps, outcome)
            if isinstance(step, dict):
                return step
            outcome = None
            if isinstance(step, float):
                await asyncio.sleep(step)
                continue
            try:
                outcome = await self._http.request(
                    step.method, step.path, json=step.body, headers=step.headers()
                )
            except httpx.TransportError as error:
                outcome = error


def _rederived(found: dict[str, Any]) -> Certificate[Any]:
    """Return a certificate that follows from its own premises."""
    import reticent.learners
    import reticent.prediction  # noqa: F401 (their rules are registered)

    certificate = Certificate.from_dict(found["certificate"])
    recheck(certificate)
    return certificate


def _next(steps: Exchange, outcome: Outcome | None) -> Call | float | dict[str, Any]:
    """Take the next step; a dictionary is the answer."""
    try:
        return steps.send(outcome)
    except StopIteration as done:
        found: dict[str, Any] = done.value
        return found
