"""A client that talks to an application in this process, through real ASGI."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import httpx
from fastapi import FastAPI


class LocalClient:
    """Blocking requests to an application that runs in a thread of its own."""

    def __init__(self, app: FastAPI, loop: asyncio.AbstractEventLoop) -> None:
        self.app = app
        self._loop = loop
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(
            transport=transport, base_url="http://clinic.test"
        )

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something in the application's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(180)

    def request(self, method: str, path: str, **settings: Any) -> httpx.Response:
        answer: httpx.Response = self.run(
            self._client.request(method, path, **settings)
        )
        return answer

    def together(self, requests: list[dict[str, Any]]) -> list[httpx.Response]:
        """Send many requests at once."""

        async def all_of_them() -> list[httpx.Response]:
            waiting = [self._client.request(**request) for request in requests]
            return await asyncio.gather(*waiting)

        answers: list[httpx.Response] = self.run(all_of_them())
        return answers

    def get(self, path: str, **settings: Any) -> httpx.Response:
        return self.request("GET", path, **settings)

    def post(self, path: str, **settings: Any) -> httpx.Response:
        return self.request("POST", path, **settings)

    def close(self) -> None:
        self.run(self._client.aclose())


@contextlib.contextmanager
def local_client(app: FastAPI) -> Iterator[LocalClient]:
    """Start an application, give a client for it, and stop both."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    client = LocalClient(app, loop)
    lifespan = app.router.lifespan_context(app)
    client.run(lifespan.__aenter__())
    try:
        yield client
    finally:
        client.close()
        client.run(lifespan.__aexit__(None, None, None))
        client.run(loop.shutdown_default_executor())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
