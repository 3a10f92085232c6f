"""Collects the nodes of many trees in flat arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Bools, Floats


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """The nodes of one tree, root first, children as places in these arrays.

    A leaf has ``left < 0``. `branch` is None for trees without categorical nodes,
    else a list with, for each node, None or the array that says which category codes
    go left.
    """

    left: NDArray[Any]
    right: NDArray[Any]
    feature: NDArray[Any]
    threshold: NDArray[Any]
    missing_left: NDArray[Any]
    values: Floats
    branch: list[Bools | None] | None = None


class TreeArrays:
    """Flat arrays to which trees are added one after the other.

    Node 0 is a separate leaf that adds nothing: it pads models that have fewer trees
    than others.
    """

    def __init__(self, n_scores: int) -> None:
        self._n_scores = n_scores
        self._size = 0
        self._parts: list[dict[str, NDArray[Any]]] = []
        self._branches: list[Bools] = []
        self._n_codes = 0
        alone = np.array([-1])
        zero = np.zeros(1)
        self.add(Nodes(alone, alone, alone, zero, zero, np.zeros((1, n_scores))))

    def add(self, nodes: Nodes) -> int:
        """Add a tree and return the place of its root."""
        n_nodes = len(nodes.left)
        own = np.arange(n_nodes)
        is_leaf = nodes.left < 0
        children = np.stack([nodes.left, nodes.right], axis=1)
        children = np.where(is_leaf[:, None], own[:, None], children) + self._size
        values = np.zeros((n_nodes, self._n_scores))
        values[:, : nodes.values.shape[1]] = nodes.values
        self._parts.append(
            {
                "feature": np.where(is_leaf, 0, nodes.feature).astype(np.int32),
                "threshold": np.asarray(nodes.threshold, dtype=np.float64),
                "children": children.astype(np.int32),
                "missing_left": np.asarray(nodes.missing_left, dtype=bool),
                "values": values,
                "branch": self._place_branches(nodes),
            }
        )
        root = self._size
        self._size += n_nodes
        return root

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of all trees added so far."""
        joined = {
            name: np.concatenate([part[name] for part in self._parts])
            for name in self._parts[0]
        }
        joined["branches"] = np.concatenate([np.zeros(0, dtype=bool), *self._branches])
        return joined

    def _place_branches(self, nodes: Nodes) -> NDArray[np.int32]:
        places = np.full(len(nodes.left), -1, dtype=np.int32)
        for node, table in enumerate(nodes.branch or ()):
            if table is not None:
                places[node] = self._n_codes
                self._branches.append(table)
                self._n_codes += len(table)
        return places
