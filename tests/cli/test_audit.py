"""``reticent audit``: exit codes, files, and one sentence a mistake."""

import json
import shutil

import pytest

from reticent.cli.main import main
from reticent.datasets import adult_sample_files
from reticent.signing import new_key, read_key_file, write_key_file
from tests.storage.workshop import forge, sign

FILES = adult_sample_files()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with one fitted model, made by the command line itself."""
    place = tmp_path_factory.mktemp("audit") / "home"
    run = [
        *("fit", FILES.data, "--schema", FILES.schema, "--name", "income"),
        *("--learner", "linear", "--epsilon", "0.5", "--budget", "3"),
        *("--shards", "9", "--home", place),
    ]
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in run])
    assert ended.value.code == 0
    return place


@pytest.fixture
def audit(capsys, home):
    def run(*words, code=0, at=home):
        with pytest.raises(SystemExit) as ended:
            main(["audit", *map(str, words), "--home", str(at)])
        said = capsys.readouterr()
        assert ended.value.code == code, said
        assert "Traceback" not in said.out + said.err
        return said

    return run


def test_an_honest_model_passes_and_nothing_is_spent(audit, home, tmp_path):
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    said = audit("income", "--quick", "-o", tmp_path / "out")
    assert "Nothing refuted" in said.out
    assert str(tmp_path / "out" / "audit.html") in said.out
    assert "Nothing was refuted" in (tmp_path / "out" / "audit.html").read_text()
    # No ledger was opened, no answer remembered, no file of the home changed.
    after = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert after == before


def test_programs_get_one_document(audit, tmp_path):
    said = audit("income", "--quick", "--json", "--answers", 7, "-o", tmp_path / "out")
    shown = json.loads(said.out)
    assert shown["refuted"] is False
    assert shown["answers"] == 7
    written = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert written["checks"] == shown["checks"]
    assert said.err == ""


def test_a_directory_is_audited_with_a_key_of_its_own(
    audit, home, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "copy"
    shutil.copytree(home / "models" / "income", folder)
    key = tmp_path / "other.key"
    write_key_file(key, new_key())
    sign(folder, read_key_file(key))
    audit(folder, "--quick", "--key", key)
    assert (tmp_path / "audit-copy" / "audit.html").is_file()
    said = audit(folder, "--quick", code=1)  # by the home's key it is not signed
    assert "Refuted" in said.out


def test_a_forged_promise_ends_with_one(audit, home, tmp_path):
    folder = tmp_path / "forged"
    shutil.copytree(home / "models" / "income", folder)

    def lower(manifest):
        manifest["certificate"]["guarantee"]["epsilon"] = 0.01

    forge(folder, lower)
    sign(folder, read_key_file(home / "signing.key"))
    shown = json.loads(
        audit(folder, "--quick", "--json", "-o", tmp_path / "out", code=1).out
    )
    assert shown["refuted"] is True
    broken = {c["name"] for c in shown["checks"] if c["status"] == "refuted"}
    assert {"certificate", "exact", "small-datasets", "sampling"} <= broken
    assert "The promise is broken" in (tmp_path / "out" / "audit.html").read_text()


def test_records_are_attacked(audit, tmp_path):
    said = audit(
        *("income", "--quick", "--json", "--data", FILES.data),
        *("-o", tmp_path / "out"),
    )
    shown = json.loads(said.out)
    states = {check["name"]: check["status"] for check in shown["checks"]}
    assert states["attack"] == states["records"] == "kept"
    assert shown["uses_records"] is True
    assert shown["attack"]["points"]


WRONG = [
    (),
    ("nobody",),
    ("income", "--answers", "0"),
    ("income", "--answers", "many"),
    ("income", "--delta", "1"),
    ("income", "--delta", "nan"),
    ("income", "--data", "nowhere.csv"),
    ("income", "--data", FILES.schema),
    ("income", "--key", "nowhere.key"),
    ("income", "--key", FILES.schema),
    ("income", "--encryption-key", "nowhere.key"),
    ("income", "--bogus"),
    ("income", "--out", FILES.schema),
]


@pytest.mark.parametrize(
    "words", WRONG, ids=lambda words: " ".join(map(str, words))[-40:] or "nothing"
)
def test_a_wrong_use_is_one_clear_sentence(words, home, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["audit", *map(str, words), "--quick", "--home", str(home)]
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    assert ended.value.code in (1, 2)
    assert "Traceback" not in said.err + said.out
    assert 10 < len(said.err.strip()) < 1000
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    shown = capsys.readouterr().out.strip().splitlines()[-1]
    assert json.loads(shown)["error"]["message"]
