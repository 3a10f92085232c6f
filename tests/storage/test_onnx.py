"""Released models as ONNX: the same labels, to the last one."""

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import InvalidParameterError
from reticent.estimators import STEPS, CodedColumns
from reticent.learners import (
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    PrivateTabularClassifier,
    PrivateTabularRegressor,
)
from reticent.schemas import Categorical, Numeric
from reticent.storage import to_onnx, write_onnx
from reticent.storage.onnx_graphs import code_borders
from tests.storage.workshop import fitted

COLUMNS = [
    Numeric(0, 1, missing=True),
    Numeric(0, 1e6, transform="log1p"),
    Numeric(-1e3, 1e3, transform="signed_log1p"),
    Categorical(list("abcde")),
]


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.uniform(-0.1, 1.1, n),
            rng.exponential(1e4, n),
            rng.normal(0, 300, n),
            rng.integers(0, 6, n),
        ]
    )
    X[rng.random((n, 4)) < 0.05] = np.nan
    return X


def run(model, X):
    session = onnxruntime.InferenceSession(
        to_onnx(model), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


@pytest.mark.parametrize("classes", [[0, 1], ["no", "so so", "yes"]])
def test_a_table_has_the_same_labels(classes, seed):
    X = rows(3_000, seed)
    score = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 2]) / 500
    y = np.array(classes)[np.digitize(score, [0.4, 1.2][: len(classes) - 1])]
    model = PrivateTabularClassifier(20.0, columns=COLUMNS, classes=classes).fit(X, y)
    fresh = rows(20_000, seed + 1)
    found = run(model, fresh)
    assert found["label"].tolist() == model.predict(fresh).tolist()
    assert len(set(found["label"])) == len(classes)
    np.testing.assert_allclose(
        found["probabilities"], model.predict_proba(fresh), rtol=1e-12
    )


def test_a_table_has_the_same_numbers(seed, tmp_path):
    X = rows(3_000, seed)
    y = 50 * np.nan_to_num(X[:, 0])
    model = PrivateTabularRegressor(20.0, columns=COLUMNS, bounds=(0, 50)).fit(X, y)
    fresh = rows(5_000, seed + 1)
    np.testing.assert_array_equal(run(model, fresh)["number"], model.predict(fresh))
    write_onnx(model, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_bytes() == to_onnx(model)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_linear_models_have_the_same_labels_and_numbers(n_labels, seed):
    X = np.random.default_rng(seed).uniform(-1, 1, (2_000, 3))
    y = np.digitize(X[:, 0], [-0.2, 0.4][: n_labels - 1])
    model = NoisyGradientClassifier(
        10.0, delta=1e-5, norm_bound=2.0, classes=range(n_labels)
    ).fit(X, y)
    found = run(model, X)
    assert found["label"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(
        found["probabilities"], model.predict_proba(X), rtol=1e-9, atol=1e-15
    )
    number = NoisyGradientRegressor(10.0, delta=1e-5, norm_bound=2.0, bounds=(-1, 1))
    number.fit(X, X[:, 0])
    np.testing.assert_allclose(
        run(number, X)["number"], number.predict(X), rtol=1e-12, atol=1e-15
    )


@given(st.sampled_from([0, 1, 2]), st.integers(1, STEPS - 1))
def test_borders_of_codes_are_exact(place, code):
    column = CodedColumns.of(COLUMNS, 4).columns[place]
    border = code_borders(column)[code]
    below = np.nextafter(border, -np.inf)
    assert column.encode(np.array([border, below])).tolist() == [code, code - 1]


def test_the_certificate_is_in_the_file_and_only_releases_are_written(seed):
    import onnx

    model = fitted("released-table-three")[0]
    told = {
        p.key: p.value for p in onnx.load_from_string(to_onnx(model)).metadata_props
    }
    assert told["certificate"] == model.certificate_.headline()
    assert told["certificate_id"] == model.certificate_.id
    with pytest.raises(InvalidParameterError, match="cannot be written as ONNX"):
        to_onnx(fitted("voting-linear")[0])
