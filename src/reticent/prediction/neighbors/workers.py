"""Rows on several workers, each with what its own units have spent (P10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reticent._numbers import whole
from reticent.errors import InvalidParameterError, NotDeployableError
from reticent.prediction.neighbors.local_units import LocalUnits, Near
from reticent.prediction.neighbors.spending import Spending


class UnitsWorker:
    """What runs on a worker: some units, and copies of what they have spent.

    Parameters
    ----------
    local : LocalUnits
        The units.

    Guarantee
    ---------
    What leaves are sums over its units, without noise. They go to the process that
    adds them up and draws one noise for all, and nowhere else.
    """

    def __init__(self, local: LocalUnits) -> None:
        self._local = local
        self._states: dict[str, Spending] = {}
        self._last: tuple[Any, Near] | None = None

    def start(self, state: str, group: str) -> None:
        """Begin a state as it was when the fit was over, for this split alone."""
        self._check(group)
        self._states[state] = self._local.start()

    def copy(self, state: str, other: str) -> None:
        """Copy a state under another name."""
        self._states[other] = self._states[state].copy()

    def drop(self, state: str) -> None:
        """Forget a state that is no longer used."""
        self._states.pop(state, None)

    def read(self, state: str) -> bytes:
        """Return a state as bytes."""
        return self._states[state].to_bytes()

    def write(self, state: str, group: str, content: bytes) -> None:
        """Replace a state, for this split alone."""
        self._check(group)
        self._states[state] = Spending.from_bytes(content)

    def count(
        self,
        state: str,
        query: NDArray[np.int16],
        reach: int,
        start: int,
        shell: int,
        here: int,
        client: str | None,
    ) -> int:
        """Charge own units for being counted; return how many there are."""
        near = self._near(query, reach)
        spending = self._states[state]
        return self._local.count(near, start, shell, here, spending, client)

    def speak(
        self,
        state: str,
        query: NDArray[np.int16],
        reach: int,
        radius: int,
        here: int,
        client: str | None,
    ) -> list[int]:
        """Charge own units for their votes; return the sums."""
        near = self._near(query, reach)
        sums = self._local.speak(near, radius, here, self._states[state], client)
        return [int(number) for number in sums]

    def _check(self, group: str) -> None:
        if group != self._local.group:
            raise NotDeployableError(
                "these workers hold the units of another split, whose budgets this "
                "model must not spend. Give each model workers of its own."
            )

    def _near(self, query: NDArray[np.int16], reach: int) -> Near:
        """Search, or return what the last search found if it was the same."""
        key = (np.asarray(query).tobytes(), reach)
        if self._last is None or self._last[0] != key:
            self._last = (key, self._local.near(self._local.around(query), reach))
        return self._last[1]


class UnitsWorkers(Protocol):
    """Where parts of the units live: each in a process of its own while it is asked."""

    @property
    def count(self) -> int:
        """How many workers there are."""
        ...

    def start(self, parts: Sequence[LocalUnits]) -> None:
        """Make a `UnitsWorker` of each part; called once."""
        ...

    def call(self, method: str, given: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of all of them at once; return the results in their order."""
        ...


class RayWorkers:
    """Workers that are actors of Ray; call ``ray.init()`` first.

    Parameters
    ----------
    count : int
        How many.
    **options
        For ``ray.remote``, such as ``num_cpus``.
    """

    def __init__(self, count: int, **options: Any) -> None:
        self.count = whole("RayWorkers", "count", count)
        self._options = options
        self._actors: list[Any] = []

    def start(self, parts: Sequence[LocalUnits]) -> None:
        """Make an actor of each part."""
        import ray

        _refuse_second(self, self._actors)
        actor: Any = ray.remote(UnitsWorker)
        if self._options:
            actor = actor.options(**self._options)
        self._actors = [actor.remote(local) for local in parts]

    def call(self, method: str, given: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of all actors at once."""
        import ray

        waiting = [
            getattr(actor, method).remote(*own)
            for actor, own in zip(self._actors, given, strict=True)
        ]
        return list(ray.get(waiting))


class DaskWorkers:
    """Workers that are actors of Dask.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster.
    count : int
        How many.
    """

    def __init__(self, client: Any, count: int) -> None:
        self.count = whole("DaskWorkers", "count", count)
        self._client = client
        self._actors: list[Any] = []

    def start(self, parts: Sequence[LocalUnits]) -> None:
        """Make an actor of each part."""
        _refuse_second(self, self._actors)
        made = [
            # A key of its own: equal tasks would share one actor, and one state.
            self._client.submit(UnitsWorker, local, actor=True, pure=False)
            for local in parts
        ]
        self._actors = [each.result() for each in made]

    def call(self, method: str, given: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of all actors at once."""
        waiting = [
            getattr(actor, method)(*own)
            for actor, own in zip(self._actors, given, strict=True)
        ]
        return [each.result() for each in waiting]


def _refuse_second(workers: UnitsWorkers, actors: Sequence[Any]) -> None:
    """Refuse workers that already hold the units of a model."""
    if actors:
        kind = type(workers).__name__
        raise InvalidParameterError(
            f"these {kind} already hold the units of a model, whose answers would come "
            f"from others from now on. Make {kind} of its own for each split_over."
        )
