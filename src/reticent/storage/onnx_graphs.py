"""Graphs of released models for ONNX: what they compute, in double precision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats
from reticent.estimators import STEPS, CodedColumn, CodedColumns, PartitionModel


@dataclass(eq=False)
class Graph:
    """Nodes and constants of a graph in the making."""

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """Add a constant; return its name."""
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        array = np.asarray(value, dtype=dtype)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        from onnx import helper

        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def rename(self, name: str, wanted: str) -> None:
        """Give a value the name of an output."""
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [name], [wanted]))


def partition_scores(graph: Graph, columns: CodedColumns, model: PartitionModel) -> str:
    """Add the scores of rows "X" to a graph, of shape (n_rows, n_scores).

    Sums of values are exact, so that scores are those of the model to the last bit.
    """
    codes = [_codes(graph, place, each) for place, each in enumerate(columns.columns)]
    row = graph("Concat", *codes, axis=1)
    partitions = model.partitions
    # Partitions with fewer questions get one more, whose answer is always 0.
    most = max(len(asked) for asked in partitions.columns)
    asked = np.zeros((len(partitions), most), dtype=np.int64)
    firsts = np.zeros((len(partitions), most), dtype=np.int64)
    answers: list[NDArray[Any]] = [np.zeros(max(c.n_codes for c in columns.columns))]
    end = len(answers[0])
    for place, (own, tables) in enumerate(
        zip(partitions.columns, partitions.tables, strict=True)
    ):
        asked[place, : len(own)] = own
        for question, table in enumerate(tables):
            firsts[place, question] = end
            answers.append(table)
            end += len(table)
    found = graph("Gather", row, graph.constant(asked.ravel(), np.int64), axis=1)
    found = graph("Add", found, graph.constant(firsts.ravel(), np.int64))
    found = graph("Gather", graph.constant(np.concatenate(answers), np.int64), found)
    shape = graph.constant([-1, len(partitions), most], np.int64)
    found = graph("Reshape", found, shape)
    axis = graph.constant([2], np.int64)
    parts = graph("ReduceSum", found, axis, keepdims=0)
    starts = np.cumsum(partitions.n_parts) - partitions.n_parts
    parts = graph("Add", parts, graph.constant(starts, np.int64))
    values = graph("Gather", graph.constant(model.values.T), parts)
    return graph("ReduceSum", values, graph.constant([1], np.int64), keepdims=0)


def _codes(graph: Graph, place: int, column: CodedColumn) -> str:
    """Add the codes of a column, as `CodedColumn.encode` has them."""
    values = graph("Gather", "X", graph.constant([place], np.int64), axis=1)
    last = graph.constant([column.n_codes - 1], np.int64)
    if not column.numeric:
        whole = graph("Equal", values, graph("Floor", values))
        least = graph("GreaterOrEqual", values, graph.constant([0.0]))
        most = graph("Less", values, graph.constant([float(column.levels)]))
        inside = graph("And", whole, graph("And", least, most))
        known = graph("Where", inside, values, graph.constant([float(column.levels)]))
        return graph("Cast", known, to=7)
    missing = graph("IsNaN", values)
    known = graph("Where", missing, graph.constant([0.0]), values)
    scaled = graph(
        "Sub", _transformed(graph, column, known), graph.constant([column.low])
    )
    scaled = graph("Div", scaled, graph.constant([column.high - column.low]))
    scaled = graph("Floor", graph("Mul", scaled, graph.constant([float(STEPS)])))
    ends = graph.constant(0.0), graph.constant(STEPS - 1.0)
    guess = graph("Cast", graph("Clip", scaled, *ends), to=7)
    # Logarithms differ in their last digit between machines; the borders decide.
    borders = graph.constant(code_borders(column))
    above = graph("Add", guess, graph.constant([1], np.int64))
    more = graph("GreaterOrEqual", known, graph("Gather", borders, above))
    less = graph("Less", known, graph("Gather", borders, guess))
    code = graph("Add", guess, graph("Cast", more, to=7))
    code = graph("Sub", code, graph("Cast", less, to=7))
    return graph("Where", missing, last, code)


def _transformed(graph: Graph, column: CodedColumn, known: str) -> str:
    one = graph.constant([1.0])
    if column.transform == "log1p":
        known = graph("Max", known, graph.constant([-1 + 1e-9]))
        return graph("Log", graph("Add", known, one))
    if column.transform == "signed_log1p":
        size = graph("Log", graph("Add", graph("Abs", known), one))
        return graph("Mul", graph("Sign", known), size)
    return known


def code_borders(column: CodedColumn) -> Floats:
    """Return for each code of a number the smallest value that has it.

    The first is minus infinity, and one more is infinity.
    """
    wanted = np.arange(1, STEPS)
    largest = float(np.finfo(np.float64).max)
    low = np.full(STEPS - 1, _key(np.array([-largest]))[0])
    high = np.full(STEPS - 1, _key(np.array([largest]))[0])
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(66):
            # Halves first: a sum of two keys may not fit into 64 bits.
            middle = low // 2 + high // 2 + (low & high & 1)
            reached = column.encode(_value(middle)) >= wanted
            high = np.where(reached, middle, high)
            low = np.where(reached, low, middle)
    return np.concatenate([[-np.inf], _value(high), [np.inf]])


def _key(values: Floats) -> NDArray[np.int64]:
    """Return whole numbers in the order of floats."""
    bits = values.view(np.int64)
    return np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)


def _value(keys: NDArray[np.int64]) -> Floats:
    bits = np.where(keys >= 0, keys, np.int64(-(2**63)) - keys)
    return np.ascontiguousarray(bits).view(np.float64)
