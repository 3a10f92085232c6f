"""Epsilon and delta of a model are the same text in every place that names them."""

import json
import re

import numpy as np
import pytest

from reticent.cli.main import main
from reticent.home import Home, MemoryKeys, Role
from reticent.schemas import ClassLabel, Numeric, Schema
from reticent.service import create_app
from tests.service.clinic import Clinic
from tests.service.local_client import local_client
from tests.service.test_dashboard import Visitor

NUMBERS = re.compile(r"ε = [\d.e-]*\d(?:, δ = [\d.e-]*\d)?")
ROW = {"age": 70.0, "dose": 3.0}
# What `reticent fit` is told. Delta is not the usual one.
MODELS = {
    "asked": ("--epsilon", "0.25", "--learner", "linear", "--shards", "9"),
    "table": ("--epsilon", "0.5", "--release"),
    "linear": ("--epsilon", "0.4", "--release", "--learner", "linear"),
    "taught": ("--epsilon", "2", "--public", "public.csv", "--learner", "linear"),
    "lasts": ("--epsilon", "0.5", "--lasting", "--relation", "replace-one"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with a model of each kind, and what `reticent fit` said of each."""
    folder = tmp_path_factory.mktemp("places")
    draw = np.random.default_rng(0)
    ages, doses = draw.uniform(0, 100, 3000), draw.uniform(0, 10, 3000)
    lines = [
        f"{age:.1f},{dose:.1f},{'yes' if age > 50 else 'no'}"
        for age, dose in zip(ages, doses, strict=True)
    ]
    (folder / "rows.csv").write_text("\n".join(["age,dose,sick", *lines]) + "\n")
    public = [f"{age:.2f},{age / 10:.2f}" for age in np.linspace(1, 99, 60)]
    (folder / "public.csv").write_text("\n".join(["age,dose", *public]) + "\n")
    schema = Schema(
        {"age": Numeric(0, 100), "dose": Numeric(0, 10)},
        label=ClassLabel("sick", ["no", "yes"]),
    )
    schema.write(folder / "schema.json")
    return folder


@pytest.fixture(scope="module")
def run(home):
    """Run a command in the home; return all that it said."""
    import contextlib
    import io

    def run(*words):
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(home),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as ended,
        ):
            main([str(word) for word in words])
        assert ended.value.code == 0, err.getvalue()
        return out.getvalue() + err.getvalue()

    return run


@pytest.fixture(scope="module")
def said(run):
    """What `reticent fit` printed about the model it had just made in Python."""
    found = {}
    for name, options in MODELS.items():
        told = run(
            *("fit", "rows.csv", "--schema", "schema.json", "--name", name),
            *("--budget", "30", "--delta", "1e-5", "--accept-noise", *options),
        )
        (line,) = re.findall(r"^(ε = .*?)\. Whoever", told, re.MULTILINE)
        found[name] = line
    return found


@pytest.fixture(scope="module")
def running(home, said):
    settings = Home.existing(home / ".reticent").settings()
    with settings.open_ledger() as ledger:
        app = create_app(settings, ledger=ledger, keys=MemoryKeys())
        with local_client(app) as http:
            made = Clinic(app, http, "", "")
            made.admin = made.key("boss", Role.ADMIN)
            made.analyst = made.key("ward-7")
            yield made


def test_delta_is_the_datasets_and_a_release_is_not_rounded_away(said):
    assert said["asked"] == "ε = 0.25"
    assert said["table"] == "ε = 0.5, δ = 1e-5"
    assert said["linear"] == "ε = 0.4, δ = 1e-5"
    assert said["lasts"] == "ε = 0.5, δ = 1e-5"
    assert re.fullmatch(r"ε = (1\.\d+|2), δ = 1e-5", said["taught"])


@pytest.mark.parametrize("name", MODELS)
def test_the_command_line_says_the_same(run, said, name):
    for words in (
        ("models", "show", name),
        ("certificate", "show", name),
        ("certificate", "check", name),
    ):
        # What an answer or the model promises comes first; the budget may follow.
        assert NUMBERS.search(run(*words))[0] == said[name], words
    listed = json.loads(run("models", "list", "--json"))["models"]
    texts = {each["model"]: each["stated"]["text"] for each in listed}
    assert texts[name] == said[name]
    if name in ("asked", "lasts"):
        assert said[name] in run("predict", name, "--row", json.dumps(ROW))


@pytest.mark.parametrize("name", MODELS)
def test_the_dossier_says_the_same(run, said, home, name):
    run("dossier", name, "--out", f"dossier-{name}")
    pages = [each.read_text() for each in (home / f"dossier-{name}").glob("*.md")]
    assert len(pages) == 2  # the dossier and the model card
    for page in pages:
        promised = re.findall(r"; (?:proved|conditional) \((ε = .*?)\)", page)
        assert set(promised) == {said[name]}


@pytest.mark.parametrize("name", MODELS)
def test_the_service_says_the_same(running, said, name):
    told = running.get(f"/v1/models/{name}").json()
    assert told["stated"]["text"] == said[name]
    assert told["stated"]["epsilon"] <= float(said[name].split()[2].strip(",")) * 1.01
    found = running.get(f"/v1/certificates/{told['certificate']}").json()
    assert found["stated"] == told["stated"]


@pytest.mark.parametrize("name", MODELS)
def test_the_dashboard_says_the_same(running, said, name):
    admin = Visitor(running, running.admin)
    certificate = running.get(f"/v1/models/{name}").json()["certificate"]
    for page in (f"/models/{name}", f"/certificates/{certificate}"):
        text = admin.get(page).text
        assert said[name] in text
        # Nothing else is said of the model; the rest are the budgets' numbers.
        assert set(NUMBERS.findall(text)) <= {said[name], "ε = 30, δ = 1e-5"}, page
    assert admin.get("/").text.count(said[name]) >= 1
    if name != "asked":
        assert said[name] in admin.get("/ledger").text
