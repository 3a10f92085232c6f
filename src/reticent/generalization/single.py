"""Objects that spend a budget: one state, however often they are copied."""

from __future__ import annotations

from typing import Any, NoReturn, Self

from reticent.errors import InvalidParameterError


class SingleState:
    """Copies are the object itself, and pickling is refused.

    scikit-learn clones and copies what it gets as a parameter. A copy with a budget of
    its own would spend the same budget twice.
    """

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise InvalidParameterError(
            f"a {type(self).__name__} counts what it answers in one process and cannot "
            "be pickled. Use n_jobs=1, and keep its state in a ledger."
        )
