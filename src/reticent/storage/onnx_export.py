"""Released models as ONNX files, to run where there is no Python."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from reticent import __version__
from reticent.errors import InvalidParameterError
from reticent.estimators import ReleasedLinearClassifier, ReleasedLinearRegressor
from reticent.guarantees import PureDP, Scope
from reticent.learners import PrivateTabularClassifier, PrivateTabularRegressor
from reticent.schemas import Categorical, Encoder
from reticent.storage.models import StoredModel
from reticent.storage.onnx_graphs import Graph, partition_scores

_OPSET = 18
_KINDS = (
    ReleasedLinearClassifier,
    ReleasedLinearRegressor,
    PrivateTabularClassifier,
    PrivateTabularRegressor,
)


def to_onnx(model: Any) -> bytes:
    """Return a released model as an ONNX file.

    Parameters
    ----------
    model : fitted learner or StoredModel
        A released linear model, `PrivateTabularClassifier` or
        `PrivateTabularRegressor`, as fitted or as `load_model` returns it.

    Returns
    -------
    bytes
        A graph that takes "X", rows of doubles as `predict` takes them, and gives
        "label" and "probabilities", or "number". Unlike `predict` it does not refuse
        infinities; they go to the ends of their range. Of a stored model the metadata
        also has its "columns" and its "encoder", as JSON: if the style is "ordinal", X
        has the columns in this order, a category as its place among the levels, and NaN
        for a missing value; otherwise X is what `Encoder.transform` returns.

    Raises
    ------
    InvalidParameterError
        If the model is not of a kind that was released as a whole, or the package onnx
        is not installed.

    Guarantee
    ---------
    The file holds nothing but the released model, its labels, public facts about its
    columns and what its certificate says in one line: it is post-processing of the
    release.
    """
    try:
        from onnx import TensorProto, helper
    except ImportError as error:
        raise InvalidParameterError(
            "ONNX files need the package onnx: pip install 'reticent[onnx]'."
        ) from error
    about, classes = {}, getattr(model, "classes_", None)
    if isinstance(model, StoredModel):
        model.check_released()
        # A stored model may have learned codes; people know the labels.
        about, classes, model = _inputs(model.encoder), model.classes, model.predictor
    if not isinstance(model, _KINDS):
        raise InvalidParameterError(
            f"{type(model).__name__}(...) cannot be written as ONNX. What can be: "
            + ", ".join(kind.__name__ for kind in _KINDS)
            + "."
        )
    check_is_fitted(model, "certificate_")
    if model.certificate_.scope is not Scope.MODEL:
        raise InvalidParameterError(
            "the certificate of this model is not about the model; release one."
        )
    graph = Graph()
    scores = _scores(graph, model)
    if classes is None:
        outputs = _numbers(graph, model, scores)
    else:
        outputs = _labels(graph, model, np.asarray(classes), scores)
    rows = helper.make_tensor_value_info(
        "X", TensorProto.DOUBLE, [None, int(model.n_features_in_)]
    )
    whole = helper.make_graph(
        graph.nodes, "reticent", [rows], outputs, initializer=graph.constants
    )
    found = helper.make_model(
        whole,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        producer_name="reticent",
        producer_version=__version__,
        ir_version=9,
    )
    helper.set_model_props(
        found,
        {
            "certificate": model.certificate_.headline(),
            "certificate_id": model.certificate_.id,
            **about,
        },
    )
    return bytes(found.SerializeToString())


def write_onnx(model: Any, path: str | os.PathLike[str]) -> None:
    """Write `to_onnx` of a model to a file."""
    content = to_onnx(model)
    with open(path, "wb") as file:
        file.write(content)


def _inputs(encoder: Encoder) -> dict[str, str]:
    """Say in JSON what the columns of X are."""
    columns = [
        {"name": name, "levels": list(column.levels)}
        if isinstance(column, Categorical)
        else {"name": name}
        for name, column in encoder.schema.columns.items()
    ]
    return {
        "columns": json.dumps(columns),
        "encoder": json.dumps(encoder.settings()),
    }


def _scores(graph: Graph, model: Any) -> str:
    if isinstance(model, PrivateTabularClassifier | PrivateTabularRegressor):
        return partition_scores(graph, model.columns_, model.model_)
    weights = np.atleast_2d(model.coef_)
    found = graph("MatMul", "X", graph.constant(weights.T))
    return graph("Add", found, graph.constant(np.atleast_1d(model.intercept_)))


def _labels(graph: Graph, model: Any, classes: NDArray[Any], scores: str) -> list[Any]:
    """Add the likeliest label and the probabilities of all."""
    from onnx import TensorProto, helper

    two = len(classes) == 2
    if two:
        one = graph("Greater", scores, graph.constant([0.0]))
        best = graph("Squeeze", graph("Cast", one, to=7), graph.constant([1], np.int64))
    else:
        best = graph("ArgMax", scores, axis=1, keepdims=0)
    named = classes.dtype.kind in "iub"
    labels = graph.constant(classes, np.int64 if named else np.str_)
    graph.rename(graph("Gather", labels, best), "label")
    graph.rename(_probabilities(graph, model, scores, two), "probabilities")
    kind = TensorProto.INT64 if named else TensorProto.STRING
    return [
        helper.make_tensor_value_info("label", kind, [None]),
        helper.make_tensor_value_info(
            "probabilities", TensorProto.DOUBLE, [None, len(classes)]
        ),
    ]


def _probabilities(graph: Graph, model: Any, scores: str, two: bool) -> str:
    one = graph.constant([1.0])
    tabular = isinstance(model, PrivateTabularClassifier)
    if not (tabular or two):
        return graph("Softmax", scores, axis=1)
    # Of the less likely side, so that exponentials stay finite.
    size = graph("Neg", graph("Abs", scores))
    power = graph("Exp", size)
    low = graph("Div", power, graph("Add", power, one))
    if tabular and not isinstance(model.certificate_.guarantee, PureDP):
        low = graph("Div", low, graph("Add", low, graph.constant([0.5])))
    likely = graph("Greater", scores, graph.constant([0.0]))
    chance = graph("Where", likely, graph("Sub", one, low), low)
    if two:
        return graph("Concat", graph("Sub", one, chance), chance, axis=1)
    total = graph("ReduceSum", chance, graph.constant([1], np.int64), keepdims=1)
    return graph("Div", chance, total)


def _numbers(graph: Graph, model: Any, scores: str) -> list[Any]:
    """Add the predicted number."""
    from onnx import TensorProto, helper

    low, high = (float(end) for end in model.bounds_)
    if isinstance(model, PrivateTabularRegressor):
        ends = graph.constant(-1.0), graph.constant(1.0)
        mean = graph("Add", graph("Clip", scores, *ends), graph.constant([1.0]))
        half = graph("Div", mean, graph.constant([2.0]))
        found = graph("Mul", half, graph.constant([high - low]))
        found = graph("Add", found, graph.constant([low]))
    else:
        found = graph("Clip", scores, graph.constant(low), graph.constant(high))
    graph.rename(graph("Squeeze", found, graph.constant([1], np.int64)), "number")
    return [helper.make_tensor_value_info("number", TensorProto.DOUBLE, [None])]
