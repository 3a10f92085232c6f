"""One law whose rows are split over workers: sums are added before one noise (P10)."""

from __future__ import annotations

import contextlib
import secrets
import weakref
from copy import copy
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidParameterError, NotDeployableError
from reticent.estimators import Codes
from reticent.mechanisms import UnitFilter
from reticent.prediction.law import law_of
from reticent.prediction.neighbors.law import LocalAnswers, LocalLaw
from reticent.prediction.neighbors.spending import Lessons, Spending
from reticent.prediction.neighbors.workers import UnitsWorkers

Int = NDArray[np.int64]


class SplitSpending:
    """What units have spent, with the workers; what answers taught, here.

    Parameters
    ----------
    workers : UnitsWorkers
        Where the units are.
    sizes : list of int
        How many units each worker has.
    lessons : Lessons
        What released numbers have taught.
    group : str
        Names the split whose units these are.
    """

    def __init__(
        self, workers: UnitsWorkers, sizes: list[int], lessons: Lessons, group: str
    ) -> None:
        self.workers = workers
        self.sizes = sizes
        self.group = group
        self.lessons = lessons
        self.name = secrets.token_hex(8)
        # Workers keep a state until the last object here that knows its name is gone.
        ended = weakref.finalize(self, _drop, workers, self.name, len(sizes))
        ended.atexit = False  # workers may be gone by then

    def check(self) -> None:
        """Nothing to check: a copy of the process would ask the same workers."""

    def call(self, method: str, *given: Any) -> list[Any]:
        """Call a method of all workers on this state."""
        return self.workers.call(method, [(self.name, *given)] * len(self.sizes))

    def copy(self) -> SplitSpending:
        """Return an independent copy, with the same workers."""
        lessons = self.lessons.copy()
        found = SplitSpending(self.workers, self.sizes, lessons, self.group)
        self.call("copy", found.name)
        return found

    def to_bytes(self) -> bytes:
        """Return it as `Spending.to_bytes` does for all units in one place."""
        parts = [Spending.from_bytes(content) for content in self.call("read")]
        spent = np.concatenate([part.spent for part in parts])
        whole = Spending(spent, parts[0].account.cap, self.lessons)
        for name in dict.fromkeys(name for part in parts for name in part.clients):
            cap = next(part.clients[name].cap for part in parts if name in part.clients)
            own = [
                part.clients[name].spent
                if name in part.clients
                else np.zeros(part.account.n_units, dtype=np.uint32)
                for part in parts
            ]
            whole.clients[name] = UnitFilter(len(spent), cap, np.concatenate(own))
        return whole.to_bytes()

    def from_bytes(self, content: bytes) -> SplitSpending:
        """Return the state in these bytes, with the same workers."""
        whole = Spending.from_bytes(content)
        found = SplitSpending(self.workers, self.sizes, whole.lessons, self.group)
        ends = np.cumsum(self.sizes)
        given = []
        for first, last in zip(ends - self.sizes, ends, strict=True):
            part = Spending(
                whole.spent[first:last].copy(), whole.account.cap, whole.lessons
            )
            for name, own in whole.clients.items():
                spent = own.spent[first:last].copy()
                part.clients[name] = UnitFilter(len(spent), own.cap, spent)
            given.append((found.name, self.group, part.to_bytes()))
        self.workers.call("write", given)
        return found


def _drop(workers: UnitsWorkers, name: str, count: int) -> None:
    with contextlib.suppress(Exception):  # a worker that is gone has forgotten it
        workers.call("drop", [(name,)] * count)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SplitLaw(LocalLaw):
    """A local law whose units are with workers; it keeps no rows.

    Attributes
    ----------
    workers : UnitsWorkers
        They were started with the units.
    sizes : tuple of int
        How many units each worker has.

    Guarantee
    ---------
    That of the law that was split. *Proof.* Every unit is with one worker, which knows
    what it has spent. Whether and what it contributes depends on nothing more than
    before. Whole numbers add up to the same sums, and noise is drawn once, here.
    """

    workers: UnitsWorkers
    sizes: tuple[int, ...]

    def start(self) -> Any:
        """Begin a state with all workers, as it was when the fit was over."""
        lessons, sizes = self.lessons.copy(), list(self.sizes)
        found = SplitSpending(self.workers, sizes, lessons, self.group)
        found.call("start", self.group)
        return found

    def ask(
        self, codes: Codes, spending: Any, client: str | None = None
    ) -> LocalAnswers:
        """Answer questions as `LocalLaw.ask` does, with a state of the workers."""
        if not isinstance(spending, SplitSpending):
            self.check_memory()
        held: Any = spending
        return super().ask(codes, held, client)

    def check_memory(self) -> None:
        """Refuse: what units have spent is with the workers."""
        raise NotDeployableError(
            "a model whose rows are split over workers answers through "
            "reticent.prediction.LastingInterface, not through predict."
        )

    def around(self, query: NDArray[np.int16]) -> Any:
        """Return the query: workers measure distances themselves."""
        return np.array(query)

    def near(self, around: Any, radius: int) -> Any:
        """Return what workers must know to search."""
        return around, radius

    def count(
        self,
        near: Any,
        start: int,
        shell: int,
        here: int,
        spending: Any,
        client: str | None,
    ) -> int:
        """Add up the counts of all workers."""
        return sum(spending.call("count", *near, start, shell, here, client))

    def speak(
        self, near: Any, radius: int, here: int, spending: Any, client: str | None
    ) -> Int:
        """Add up the sums of all workers."""
        sums = spending.call("speak", *near, radius, here, client)
        return np.asarray(sums, dtype=np.int64).sum(axis=0)


def split_over(predictor: Any, workers: UnitsWorkers) -> Any:
    """Return a predictor whose rows are split over workers.

    It is the same model: give it to a `LastingInterface` with the ledger of the model.
    If a worker dies, its state is lost, and no further question is answered; a new
    split reads the state from the ledger's log.

    Parameters
    ----------
    predictor : fitted PrivateNeighborsClassifier or PrivateNeighborsRegressor
        What to split. It keeps its rows.
    workers : RayWorkers or DaskWorkers
        Where the rows go, unit by unit: workers that hold no other model.
    """
    law = law_of(predictor)
    if not isinstance(law, LocalLaw) or isinstance(law, SplitLaw):
        raise InvalidParameterError(
            f"predictor={type(predictor).__name__}(...) has no rows to split. Give a "
            "fitted PrivateNeighborsClassifier or PrivateNeighborsRegressor."
        )
    parts = law.split(min(workers.count, len(law.fitted)))
    workers.start(parts)
    known = {each.name: getattr(law, each.name) for each in fields(law)}
    nothing = slice(0, 0)
    known |= {
        "codes": law.codes[nothing],
        "unit": law.unit[nothing],
        "votes": law.votes.part(nothing),
        "fitted": law.fitted[nothing],
    }
    known |= {"workers": workers, "group": parts[0].group}
    found = copy(predictor)
    found.law_ = SplitLaw(**known, sizes=tuple(len(each.fitted) for each in parts))
    return found
