"""A listener for each worker, so that each gets its share of connections.

When workers share one listener, the worker that wakes first takes all waiting
connections: of 32 connections, two workers were seen with 31 and 1. With one listener
per worker at the same address, the kernel distributes connections evenly.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from typing import Any

import uvicorn


class SharedAddress(socket.socket):
    """An address held for workers; a pickled copy becomes a listener of its own.

    Examples
    --------
    >>> import pickle
    >>> with SharedAddress.hold("127.0.0.1", 0) as held:
    ...     with pickle.loads(pickle.dumps(held)) as another:
    ...         held.getsockname() == another.getsockname()
    True
    """

    @classmethod
    def hold(cls, host: str, port: int) -> SharedAddress:
        """Hold an address at which nobody listens.

        Raises
        ------
        OSError
            If somebody listens there, even somebody who would share it.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as alone:
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind((host, port))
            port = alone.getsockname()[1]
        return cls.join(family, host, port)

    @classmethod
    def join(cls, family: int, host: str, port: int) -> SharedAddress:
        """Bind one more socket to the address."""
        listener = cls(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            listener.bind((host, port))
        except OSError:
            listener.close()
            raise
        return listener

    def __reduce_ex__(self, protocol: Any) -> Any:
        host, port = self.getsockname()[:2]
        return SharedAddress.join, (int(self.family), host, port)


def shared_listener(config: uvicorn.Config) -> socket.socket:
    """Return a socket at the address of several workers, to be pickled for each."""
    if sys.platform == "linux":  # others share addresses, but not evenly
        with contextlib.suppress(OSError):
            return SharedAddress.hold(config.host, config.port)
    return config.bind_socket()  # if it is taken, this says so and ends
