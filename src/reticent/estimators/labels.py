"""The public labels, and the fixed votes of shards whose model fails."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Ints
from reticent.errors import InvalidParameterError

# Stands for a model's vote on a row if it gave no valid label.
NO_BALLOT = -1


class Labels:
    """The public list of labels of a classification problem.

    Parameters
    ----------
    classes : array-like of shape (n_classes,)
        At least two different labels, in any order.
    """

    def __init__(self, classes: Any) -> None:
        self.classes = np.asarray(classes)
        if self.classes.ndim != 1 or len(self.classes) < 2:
            raise InvalidParameterError(
                f"classes of shape {self.classes.shape} must be a list of at least two "
                "labels."
            )
        self._index = {label: k for k, label in enumerate(self.classes.tolist())}
        if len(self._index) != len(self.classes):
            raise InvalidParameterError("classes must name each label once.")
        # Objects need not be sortable; they are looked up one by one.
        sortable = self.classes.dtype.kind in "biufUS"
        self._order = np.argsort(self.classes) if sortable else np.arange(len(self))
        self._sorted = self.classes[self._order]

    def __len__(self) -> int:
        return len(self.classes)

    def indices(self, answers: Any) -> Ints:
        """Return the place of each answer in the list, `NO_BALLOT` for other answers.

        Raises
        ------
        TypeError
            If `answers` is not an array of hashable labels.
        """
        answers = np.asarray(answers)
        if _comparable(answers, self._sorted):
            place = np.searchsorted(self._sorted, answers)
            place[place == len(self)] = 0
            found = self._sorted[place] == answers
            return np.where(found, self._order[place], NO_BALLOT)
        known = self._index
        return np.array(
            [known.get(label, NO_BALLOT) for label in answers.tolist()], dtype=np.int64
        )


def fixed_ballots(n_shards: int, n_classes: int) -> Ints:
    """Return the label that each shard votes for when its model fails.

    The label is the shard's number modulo the number of labels: it does not depend
    on any record, and failures do not favour one label.
    """
    return np.arange(n_shards) % n_classes


def _comparable(answers: NDArray[Any], known: NDArray[Any]) -> bool:
    kinds = answers.dtype.kind + known.dtype.kind
    return all(kind in "biuf" for kind in kinds) or kinds in ("UU", "SS")
