"""One question and its answer, without any I/O: what to send, and when to wait."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx

from reticent.errors import BudgetExhaustedError, ServiceError

#: Responses after which the same request may succeed.
_AGAIN = frozenset({429, 502, 503, 504})
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 10.0


@dataclass(frozen=True, slots=True)
class Call:
    """A request that may be sent again without harm."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    key: str | None = None

    def headers(self) -> dict[str, str]:
        """Return the call's own headers."""
        return {} if self.key is None else {"Idempotency-Key": self.key}


Outcome: TypeAlias = httpx.Response | httpx.TransportError
#: Yields a call to send, or seconds to wait; is sent what came of it.
Exchange: TypeAlias = Generator[Call | float, Outcome | None, dict[str, Any]]


def exchange(call: Call, retries: int) -> Exchange:
    """Send a call until it is answered; return the body of the answer.

    Parameters
    ----------
    call : Call
        What is sent. With its key the service charges it once.
    retries : int
        How often it is sent again when the service is busy or cannot be reached.

    Raises
    ------
    BudgetExhaustedError
        If a budget does not cover it.
    ServiceError
        If the service refuses it, or cannot be reached for too long.
    """
    wait = _FIRST_WAIT
    for attempt in range(retries + 1):
        outcome = yield call
        last = attempt == retries
        if isinstance(outcome, httpx.Response):
            if outcome.is_success:
                return _object(outcome)
            if last or outcome.status_code not in _AGAIN:
                raise _refused(outcome)
            pause = max(wait, _retry_after(outcome))
        elif last:
            raise ServiceError(
                f"the service cannot be reached ({type(outcome).__name__}) after "
                f"{retries + 1} attempts. Is its address right, and is it running?",
                status=0,
                code="unreachable",
            )
        else:
            pause = wait
        yield min(pause, _LONGEST_WAIT)
        wait *= 2
    raise AssertionError  # pragma: no cover - the loop returns or raises


def _object(response: httpx.Response) -> dict[str, Any]:
    found = _json(response)
    if not isinstance(found, dict):
        raise ServiceError(
            "the answer is not a JSON object. Is this the address of a service?",
            status=response.status_code,
            code="no_service",
        )
    return found


def _refused(response: httpx.Response) -> Exception:
    found = _json(response)
    body: dict[str, Any] = found if isinstance(found, dict) else {}
    error = body.get("error")
    inner: dict[str, Any] = error if isinstance(error, dict) else {}
    detail = str(body.get("detail", f"the service said {response.status_code}."))
    code = str(inner.get("code", "unknown"))
    if code == "budget_exhausted":
        return BudgetExhaustedError(detail)
    return ServiceError(
        detail,
        status=response.status_code,
        code=code,
        details=inner.get("details", {}),
        request_id=str(body.get("request_id", "")),
    )


def _json(response: httpx.Response) -> Any:
    try:
        return json.loads(response.content)
    except ValueError:
        return None


def _retry_after(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0
