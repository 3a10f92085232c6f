"""The edge of the network: connections with limits and deadlines."""

from reticent.service.network.connections import Connection
from reticent.service.network.limits import Limits

__all__ = ["Connection", "Limits"]
