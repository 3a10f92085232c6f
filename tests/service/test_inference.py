"""The Open Inference Protocol, spoken by a client library that is not ours."""

import numpy as np
import pytest
import tritonclient.http as triton

from reticent.home import MemoryKeys
from reticent.service import create_app
from tests.service.clinic import ROW, Clinic, settings_for, store
from tests.service.live_server import in_thread


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    from reticent.ledger import MemoryLedger

    folder = tmp_path_factory.mktemp("inference")
    settings = settings_for(
        folder,
        models={"triage": store(folder), "cost": store(folder, "cost")},
        datasets={"clinic": {"epsilon": 500.0}},
        client_budget={"epsilon": 200.0},
    )
    app = create_app(settings, ledger=MemoryLedger(), keys=MemoryKeys())
    made = Clinic(app, None, "", "")
    made.analyst = made.key("ward-7")
    with in_thread(app) as url:
        made.url = url.removeprefix("http://")
        yield made


@pytest.fixture
def client(clinic):
    with triton.InferenceServerClient(clinic.url) as made:
        yield made


def headers(clinic, **more):
    # The client writes into this dictionary, so each call needs its own.
    return {"Authorization": f"Bearer {clinic.analyst}", **more}


def tensor(name, values, datatype, *, binary, column=False):
    array = np.array(values, dtype=object if datatype == "BYTES" else None)
    array = array.reshape(-1, 1) if column else array
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def rows(ages, *, binary, column=False):
    n = len(ages)
    settings = {"binary": binary, "column": column}
    return [
        tensor("age", np.array(ages, dtype=np.float64), "FP64", **settings),
        tensor("dose", np.full(n, 2.5), "FP64", **settings),
        tensor("ward", ["b"] * n, "BYTES", **settings),
        tensor("smokes", np.full(n, True), "BOOL", **settings),
        tensor("floor", np.full(n, 2, dtype=np.int64), "INT64", **settings),
    ]


def test_health_and_metadata(clinic, client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.get_server_metadata()["name"] == "reticent"
    assert client.is_model_ready("triage", headers=headers(clinic))
    assert not client.is_model_ready("nothing", headers=headers(clinic))
    found = client.get_model_metadata("triage", headers=headers(clinic))
    assert [(i["name"], i["datatype"]) for i in found["inputs"]] == [
        ("age", "FP64"),
        ("dose", "FP64"),
        ("ward", "BYTES"),
        ("smokes", "BOOL"),
        ("floor", "INT64"),
    ]
    assert found["outputs"] == [{"name": "ill", "datatype": "BYTES", "shape": [-1]}]
    again = client.get_model_metadata(
        "triage", found["versions"][0], headers=headers(clinic)
    )
    assert again == found


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("binary_output", [False, True, None])
@pytest.mark.parametrize("binary_input", [False, True])
def test_tensors_get_the_answers_of_rows(
    clinic, client, binary_input, binary_output, column
):
    ages = [10.0, 50.0, 90.0]
    outputs = None
    if binary_output is not None:
        outputs = [triton.InferRequestedOutput("ill", binary_data=binary_output)]
    result = client.infer(
        "triage",
        rows(ages, binary=binary_input, column=column),
        outputs=outputs,
        headers=headers(clinic),
        request_id="visit-1",
    )
    answers = [
        a.decode() if isinstance(a, bytes) else a for a in result.as_numpy("ill")
    ]
    response = result.get_response()
    assert response["id"] == "visit-1"
    facts = response["parameters"]
    assert (
        facts["certificate_id"]
        == clinic.service.registry.models["triage"].certificate.id
    )
    assert facts["epsilon"] == 0.5
    # The same questions as rows of JSON: answered from memory, hence the same.
    table = [{**ROW, "age": age, "dose": 2.5, "ward": "b", "floor": 2} for age in ages]
    import httpx

    other = httpx.post(
        f"http://{clinic.url}/v1/models/triage/predict",
        json={"rows": table},
        headers=headers(clinic),
    ).json()
    assert other["answers"] == answers
    assert other["charge"]["answers"] == 0


def test_numbers_come_back_as_floats(clinic, client):
    result = client.infer(
        "cost", rows([1.0, 2.0], binary=True), headers=headers(clinic)
    )
    values = result.as_numpy("cost")
    assert values.dtype == np.float64
    assert ((values >= 0) & (values <= 50)).all()


def test_missing_values_are_nan_or_empty_text_in_raw_tensors(clinic, client):
    inputs = rows([33.0], binary=True)
    inputs[1] = tensor("dose", np.array([np.nan]), "FP64", binary=True)
    result = client.infer("triage", inputs, headers=headers(clinic))
    assert result.as_numpy("ill")[0] in (b"yes", b"no")
    inputs[2] = tensor("ward", [""], "BYTES", binary=True)
    with pytest.raises(triton.InferenceServerException, match="missing"):
        client.infer("triage", inputs, headers=headers(clinic))


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint16, np.int64])
def test_other_kinds_of_numbers_are_taken(clinic, client, dtype):
    from tritonclient.utils import np_to_triton_dtype

    inputs = rows([44.0], binary=True)
    array = np.array([44], dtype=dtype)
    inputs[0] = tensor("age", array, np_to_triton_dtype(dtype), binary=True)
    assert client.infer("triage", inputs, headers=headers(clinic)).as_numpy("ill").size


def test_the_idempotency_key_works_here_too(clinic, client):
    def ask(age):
        result = client.infer(
            "triage",
            rows([age], binary=True),
            headers=headers(clinic, **{"Idempotency-Key": "triton-1"}),
        )
        return result.as_numpy("ill")[0], result.get_response()["parameters"][
            "sequence"
        ]

    assert ask(71.0) == ask(71.0)
    with pytest.raises(triton.InferenceServerException, match="different request"):
        ask(72.0)


def test_errors_reach_the_client_as_text(clinic, client):
    with pytest.raises(triton.InferenceServerException) as refusal:
        client.infer("nothing", rows([1.0], binary=True), headers=headers(clinic))
    assert str(refusal.value) == (
        "[404] this key has no such model, or not in this version; GET /v1/models "
        "lists its models."
    )
    with pytest.raises(triton.InferenceServerException, match=r"\[401\]"):
        client.infer("triage", rows([1.0], binary=True))
