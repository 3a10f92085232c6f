"""Objects that spend a budget: one state, one process, one thread at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Self

from reticent.errors import BudgetExhaustedError, InvalidParameterError
from reticent.generalization.caller_code import refuse_nested_question


class SingleProcessObject:
    """An object whose copies are itself; pickles and forked processes are refused.

    scikit-learn clones and copies its parameters. A copy with a budget of its own would
    spend the same budget twice.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Let one thread at a time spend, in the process that made the object."""
        refuse_nested_question()
        if self._process != os.getpid():
            raise BudgetExhaustedError(
                f"this {type(self).__name__} belongs to the process that made it; a "
                "forked copy would spend its budget twice. Keep its state in a ledger."
            )
        with self._lock:
            yield

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise InvalidParameterError(
            f"a {type(self).__name__} counts what it answers in one process and cannot "
            "be pickled. Use n_jobs=1, and keep its state in a ledger."
        )
