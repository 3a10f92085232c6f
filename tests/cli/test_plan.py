"""``reticent plan``: a table for people, JSON for programs, a command that works."""

import json
import shlex

import pytest

from reticent.cli.main import main
from reticent.datasets import adult_sample_files
from reticent.planning import Plan
from reticent.schemas import ClassLabel, Numeric, Schema

FILES = adult_sample_files()


@pytest.fixture
def reticent(capsys):
    def run(*words, code=0):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        said = capsys.readouterr()
        assert ended.value.code == code, said
        return said

    return run


def test_the_table_names_options_bounds_and_the_crossover(reticent):
    said = reticent(
        *("plan", "--rows", 32561, "--features", 14, "--epsilon", 1),
        *("--queries", 1000, "--accuracy", 0.8),
    ).out
    lines = said.splitlines()
    assert lines[0].split() == [
        *("option", "estimate", "proved", "shards", "one", "answer", "all", "rows")
    ]
    assert lines[1].startswith("1   release: linear, additive and tree parts")
    for words in (
        "No method can guarantee",
        "queries on",
        "any method needs",
        "Take option",
    ):
        assert words in said


def test_json_is_a_plan(reticent):
    said = reticent("plan", "--rows", 500, "--queries", 2, "--json").out
    found = Plan.from_json(said)
    assert found.facts.queries == 2
    assert found.facts.delta == 1e-6


def test_a_schema_and_a_number_to_predict(reticent):
    said = reticent("plan", "--rows", 5000, "--schema", FILES.schema, "--json").out
    assert Plan.from_json(said).facts.features == 12
    said = reticent("plan", "--rows", 5000, "--labels", 1, "--json").out
    assert Plan.from_json(said).facts.task == "regression"


def test_a_picture_is_drawn(reticent, tmp_path):
    picture = tmp_path / "plan.png"
    said = reticent("plan", "--rows", 500, "--plot", picture)
    assert picture.exists()
    assert str(picture) in said.err


@pytest.mark.parametrize(("epsilon", "queries"), [(3, 5), (20, 400)])
def test_the_command_that_is_printed_works(epsilon, queries, reticent, tmp_path):
    facts = ["--rows", 5000, "--schema", FILES.schema, "--base-accuracy", 0.99]
    said = reticent(
        *("plan", *facts, "--epsilon", epsilon, "--queries", queries, "--json")
    )
    (option,) = [
        o for o in Plan.from_json(said.out).options if o.method == "vote-linear"
    ]
    words = shlex.split(option.command)
    assert words[:2] == ["reticent", "fit"]
    words = [{"DATA.csv": FILES.data, "SCHEMA.json": FILES.schema}.get(w, w)
             for w in words[1:]]  # fmt: skip
    fitted = reticent(*words, "--home", tmp_path / "home", "--json")
    document = json.loads(fitted.out)
    assert document["shards"] == option.n_shards
    assert document["answers"] >= queries


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (3, 0.0), (20, 1e-4)])
def test_the_command_of_a_release_works(epsilon, delta, reticent, tmp_path):
    facts = ["--rows", 5000, "--schema", FILES.schema, "--delta", delta]
    said = reticent("plan", *facts, "--epsilon", epsilon, "--json")
    best = Plan.from_json(said.out).options[0]
    words = shlex.split(best.command)
    words = [{"DATA.csv": FILES.data, "SCHEMA.json": FILES.schema}.get(w, w)
             for w in words[1:]]  # fmt: skip
    fitted = reticent(*words, "--home", tmp_path / "home", "--json")
    assert json.loads(fitted.out)["units"] == 5000


def test_a_unit_with_many_rows_is_warned_of(reticent, tmp_path):
    schema = tmp_path / "schema.json"
    label = ClassLabel("ill", ["no", "yes"])
    Schema({"age": Numeric(0, 100)}, label=label, unit="pid").write(schema)
    facts = ("plan", "--rows", 30000, "--schema", schema)
    said = reticent(*facts)
    assert "30000 rows of 30000 units" in said.out
    assert "all rows of one 'pid' together" in said.err
    assert "Give --unit-rows" in said.err
    assert "one person" in said.out
    for more in (("--unit-rows", 5), ("--unit-rows", 1)):
        assert "warning" not in reticent(*facts, *more).err
    row = Schema({"age": Numeric(0, 100)}, label=label)
    row.write(schema)
    assert "warning" not in reticent(*facts).err


@pytest.mark.parametrize("queries", ["unlimited", 40, 1000])
def test_epsilons_to_type_are_short_and_stay_within_the_budget(reticent, queries):
    said = reticent(
        "plan", "--rows", 9000, "--epsilon", 3, "--queries", queries, "--json"
    )
    options = [o for o in Plan.from_json(said.out).options if o.command]
    assert options
    for option in options:
        words = shlex.split(option.command)
        typed = words[words.index("--epsilon") + 1]
        assert len(typed.replace(".", "").lstrip("0")) <= 4, typed
        exact = option.settings["epsilon"]
        if "--release" not in words:  # of which the ledger's sums take a little
            assert exact * (1 - 1e-3) <= float(typed) <= exact


WRONG = [
    ("plan",),
    ("plan", "--rows", "0"),
    ("plan", "--rows", "many"),
    ("plan", "--rows", "100", "--epsilon", "0"),
    ("plan", "--rows", "100", "--epsilon", "nan"),
    ("plan", "--rows", "100", "--delta", "1"),
    ("plan", "--rows", "100", "--queries", "0"),
    ("plan", "--rows", "100", "--queries", "lots"),
    ("plan", "--rows", "100", "--queries", "2.5"),
    ("plan", "--rows", "100", "--queries", "inf"),
    ("plan", "--rows", "100", "--accuracy", "80"),
    ("plan", "--rows", "100", "--features", "0"),
    ("plan", "--rows", "100", "--labels", "0"),
    ("plan", "--rows", "100", "--unit-rows", "101"),
    ("plan", "--rows", "100", "--public", "-5"),
    ("plan", "--rows", "100", "--base-accuracy", "90"),
    ("plan", "--rows", "100", "--schema", "nowhere.json"),
    ("plan", "--rows", "100", "--plot", "plan.nothing"),
    ("plan", "--rows", "100", "--plot", "no/such/folder/plan.png"),
    ("plan", "--rows", "100", "--labels", "3", "--delta", "0"),
]


@pytest.mark.parametrize("words", WRONG, ids=lambda words: " ".join(words)[-40:])
def test_a_wrong_use_is_one_clear_sentence(words, reticent, capsys):
    for more in ((), ("--json",)):
        with pytest.raises(SystemExit) as ended:
            main([*words, *more])
        said = capsys.readouterr()
        assert ended.value.code in (1, 2)
        assert "Traceback" not in said.err + said.out
        if more:
            assert json.loads(said.out.splitlines()[-1])["error"]["message"]
        else:
            assert 10 < len(said.err.strip()) < 1000
