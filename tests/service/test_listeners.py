"""Listeners at one address: each worker its own, and its share of connections."""

from __future__ import annotations

import contextlib
import gc
import pickle
import socket
import sys

import pytest
import uvicorn

from reticent.service.listeners import SharedAddress, shared_listener

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shares on Linux")


def accepted(listener):
    """Take what waits at a listener; return how many connections that were."""
    for count in range(10**6):
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            return count
        connection.close()
    return None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_connections_are_shared_evenly(host):
    with contextlib.ExitStack() as stack:
        held = stack.enter_context(SharedAddress.hold(host, 0))
        workers = [stack.enter_context(pickle.loads(pickle.dumps(held))) for _ in "ab"]
        for worker in workers:
            worker.listen(256)
            worker.setblocking(False)
        for _ in range(200):
            stack.enter_context(socket.create_connection(held.getsockname()[:2]))
        counts = [accepted(worker) for worker in workers]
    assert sum(counts) == 200
    # Fewer than 50 of 200 happens with probability below 1e-12.
    assert min(counts) >= 50


def test_an_address_that_somebody_has_is_refused_even_if_shared():
    with SharedAddress.hold("127.0.0.1", 0) as held:
        host, port = held.getsockname()
        held.listen()
        with pytest.raises(OSError, match="in use"):
            SharedAddress.hold(host, port)
    SharedAddress.hold(host, port).close()


# uvicorn leaves the socket that it could not bind to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_workers_do_not_start_at_an_address_that_somebody_has():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        host, port = taken.getsockname()
        config = uvicorn.Config("nothing:here", host=host, port=port, workers=2)
        with pytest.raises(SystemExit):
            shared_listener(config)
        gc.collect()
