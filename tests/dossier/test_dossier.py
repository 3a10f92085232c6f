"""The dossier: every field follows from the facts, and changes with them."""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml

from reticent.audit import examine
from reticent.cli.main import main
from reticent.dossier import (
    Dossier,
    Texts,
    read_facts,
    recheck_dossier,
    write_dossier,
)
from reticent.dossier.rendering import as_html, as_markdown
from reticent.errors import InvalidParameterError
from reticent.guarantees import best_guess, claim
from reticent.home import (
    BudgetSettings,
    FitOptions,
    Home,
    evaluate_model,
    train_and_store,
)
from reticent.schemas import Categorical, ClassLabel, Numeric, NumericTarget, Schema

ROOT = Path(__file__).parents[2]
TEXTS = Texts(
    "The clinic",
    "Triage. Not for decisions about single persons.",
    "Norway",
    "Collected at admission, by consent.",
    "Chosen with the patients' council.",
)
COLUMNS = {"age": Numeric(0, 100), "ward": Categorical(["a", "b"])}
SICK = ClassLabel("sick", ["no", "yes"])
# What is always so, and what nobody but the curator can ever say.
ALWAYS = {
    "registry/deployment_model.model_name",
    "registry/deployment_model.data_source_type",
    "edpb-28-2024/means",
    "model-card/limits",
}
ALWAYS_OPEN = {
    "registry/basic.data_product_sector",
    "nist-800-226/bias",
    "edpb-28-2024/assessment",
}


class Places:
    """Homes that differ in one thing each."""

    def __init__(self, folder):
        self.folder = folder
        draw = np.random.default_rng(0)
        ages, wards = draw.integers(0, 100, 300), draw.choice(["a", "b"], 300)
        lines = [
            f"p{row // 2},{age},{ward},{'yes' if age > 50 else 'no'},{age / 10}"
            for row, (age, ward) in enumerate(zip(ages, wards, strict=True))
        ]
        self.rows = folder / "rows.csv"
        self.rows.write_text("\n".join(["who,age,ward,sick,risk", *lines]) + "\n")
        self.facts = cache(self._facts)

    def home(self, name):
        return Home.at(
            self.folder / name, second_place=self.folder / f"{name}-second.json"
        )

    def fit(self, place, schema, **options):
        home = self.home(place)
        base = {
            "name": "model",
            "dataset": "clinic",
            "epsilon": 0.5,
            "budget": 4.0,
            "delta": 1e-6,
            "learner": "linear",
            "accept_noise": True,
        }
        train_and_store(home, self.rows, schema, FitOptions(**{**base, **options}))
        return home

    def _facts(self, which):
        return getattr(self, f"_{which}")()

    def _base(self):
        return read_facts(
            self.fit("base", self.schema()), "model", written="2026-01-02"
        )

    def _units(self):
        schema = Schema(COLUMNS, label=SICK, unit="who", ignored=("risk",))
        home = self.fit("units", schema, delta=0.0, name="other")
        return read_facts(home, "other", texts=TEXTS, written="2026-01-03")

    def _released(self):
        home = self.fit("released", self.schema(), release=True, dataset="register")
        evaluate_model(home, "model", self.rows, epsilon=0.5)
        report = examine(
            home.models / "model", signing_key=home.signing_key(), quick=True
        )
        path = self.folder / "audit.json"
        path.write_text(report.to_json())
        return read_facts(home, "model", audit=path)

    def _lasting(self):
        home = self.fit(
            "lasting", self.schema(), lasting=True, epsilon=1.0, learner=None
        )
        return read_facts(home, "model")

    def _number(self):
        schema = Schema(
            {"age": Numeric(0, 100)},
            label=NumericTarget("risk", 0, 10),
            ignored=("who", "ward", "sick"),
        )
        return read_facts(self.fit("number", schema, budget=0.9, delta=0.0), "model")

    def _settings(self):
        home = self.fit("settings", self.schema())
        found = json.loads(home.config.read_text())
        found["models"]["model"] = {
            "path": found["models"]["model"],
            "remember": False,
        }
        found |= {"host": "0.0.0.0", "max_rows": 7, "client_budget": None}
        home.config.write_text(json.dumps(found))
        return read_facts(home, "model")

    def _tuned(self):
        self.fit("tuned", self.schema())
        schema = self.folder / "schema.json"
        self.schema().write(schema)
        words = ["tune", str(self.rows), "--schema", str(schema), "--runs", "2"]
        words += ["--name", "tuned", "--grid", '{"detail": [0.5, 1]}']
        words += ["--dataset", "clinic", "--home", str(self.home("tuned").path)]
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        return read_facts(self.home("tuned"), "tuned")

    def _assumed(self):
        facts = self.facts("base")
        stored, own = facts.settings.load_model("model"), facts.certificate
        stored.certificate = claim(
            own.guarantee, own.relation, own.scope, statement="somebody said so"
        )
        return replace(facts, stored=stored, audit=ATTACKED)

    @staticmethod
    def schema():
        return Schema(COLUMNS, label=SICK, ignored=("who", "risk"))


# As `reticent audit` writes it, where records were given.
ATTACKED = {
    "made": "2026-01-01T00:00:00",
    "verdict": "Nothing refuted: 9 of 9 checks found the promise kept.",
    "uses_records": True,
    "checks": [{"name": "attack", "status": "kept", "finding": "It found nobody."}],
}
VARIANTS = (
    "base",
    "units",
    "released",
    "lasting",
    "number",
    "settings",
    "tuned",
    "assumed",
)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return Places(tmp_path_factory.mktemp("homes"))


def answers(facts):
    return {
        f"{section.id}/{field.id}": field.answer
        for section in Dossier.of(facts).sections
        for field in section.fields
    }


def test_every_field_changes_with_the_facts(places):
    found = [answers(places.facts(variant)) for variant in VARIANTS]
    assert all(set(each) == set(found[0]) for each in found)
    stuck = {
        place
        for place in found[0]
        if len({json.dumps(each[place]) for each in found}) == 1
    }
    assert stuck == ALWAYS | ALWAYS_OPEN
    assert all(found[0][place] is None for place in ALWAYS_OPEN)


def test_with_all_texts_only_what_nobody_measured_is_open(places):
    left = Dossier.of(places.facts("units")).open_fields()
    unmeasured = {
        "nist-800-226/utility",
        "edpb-28-2024/audit",
        "edpb-28-2024/attacks",
        "model-card/metrics",
    }
    # The first charge comes with the first answer.
    unasked = {"registry/basic.publication_date"}
    assert set(left) == ALWAYS_OPEN | unmeasured | unasked


def test_the_numbers_are_those_that_the_ledger_enforces(places):
    for variant in VARIANTS:
        facts = places.facts(variant)
        total = facts.balance.cap.budget
        told = answers(facts)["registry/privacy_loss.privacy_parameters"]
        assert told["epsilon"] == total.epsilon
        assert told.get("delta", 0.0) == total.delta
        right = re.search(
            r"more than (\d+) times", answers(facts)["edpb-28-2024/singling-out"]
        )
        assert int(right[1]) >= 100 * best_guess(total)


# What the registry's schema requires and the types it allows, as of 2026.
ENUMS = {
    ("basic", "data_product_type"): {"Machine learning model", "Interactive API"},
    ("dp_variant", "variant_name"): {"Pure DP", "Approximate DP"},
    ("deployment_model", "model_name"): {"Central"},
    ("deployment_model", "release_type"): {"One release", "Many releases"},
    ("deployment_model", "data_source_type"): {"Static"},
    ("deployment_model", "access_type"): {"Interactive", "Non-interactive"},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_entry_has_the_form_that_the_registry_asks_for(places, variant):
    entry = Dossier.of(places.facts(variant)).entry
    assert set(entry) == {"url_slug", "status", "tier", "deployment"}
    assert re.fullmatch(r"[a-z0-9-]+", entry["url_slug"])
    deployment = entry["deployment"]
    for (group, name), allowed in ENUMS.items():
        assert deployment[group][name] in allowed
    for group in deployment.values():
        for name, value in group.items():
            if name in ("data_curators", "registry_authors"):
                assert isinstance(value, list)
            elif name == "privacy_parameters":
                assert all(isinstance(each, float) for each in value.values())
            else:
                assert isinstance(value, str)
                assert value


def test_a_delta_that_could_give_a_record_away_is_called_out(places):
    facts = places.facts("base")
    assert "far below" in answers(facts)["nist-800-226/delta"]
    home = places.fit("large", places.schema(), delta=0.01)
    assert "NOT small" in answers(read_facts(home, "model"))["nist-800-226/delta"]


def test_what_was_computed_from_records_is_left_out_of_what_is_published(places):
    facts = places.facts("released")
    home = places.home("released")
    report = examine(
        home.models / "model",
        signing_key=home.signing_key(),
        records=places.rows,
        quick=True,
    )
    path = places.folder / "with-records.json"
    path.write_text(report.to_json())
    found = Dossier.of(read_facts(home, "model", audit=path))
    assert found.from_records
    attack = next(f for f in found.fields() if f.id == "attacks")
    assert "games" in attack.answer
    assert attack.answer in found.to_json()
    assert "as carefully as the records" in as_html(found)
    public = found.published()
    assert not public.from_records
    for text in (public.to_json(), as_html(public), as_markdown(public)):
        assert attack.answer not in text
        assert report.verdict not in text
    assert report.verdict not in json.dumps(found.entry)
    assert not Dossier.of(facts).from_records


def test_an_audit_of_another_model_is_refused(places):
    places.facts("released")
    with pytest.raises(InvalidParameterError, match="another model"):
        read_facts(places.home("base"), "model", audit=places.folder / "audit.json")
    with pytest.raises(InvalidParameterError, match="not a report"):
        read_facts(places.home("base"), "model", audit=places.rows)


def test_a_dossier_is_derived_again(places, tmp_path):
    dossier = Dossier.of(places.facts("units"))
    files = write_dossier(dossier, tmp_path)
    assert {path.name for path in files} == {
        "dossier.html",
        "dossier.md",
        "dossier.json",
        "registry.json",
        "card.md",
    }
    head, _, card = (
        (tmp_path / "card.md").read_text().partition("---\n")[2].partition("---\n")
    )
    assert yaml.safe_load(head)["pipeline_tag"] == "tabular-classification"
    assert dossier.sections[-1].fields[0].answer in card
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files)
    document = tmp_path / "dossier.json"
    assert recheck_dossier(document, dossier) == []
    found = json.loads(document.read_text())
    found["sections"][0]["fields"][0]["answer"] = "another name"
    document.write_text(json.dumps(found))
    assert recheck_dossier(document, dossier) == ["registry/basic.name"]
    other = Dossier.of(places.facts("base"))
    assert recheck_dossier(document, other) == ["model_id"]
    document.write_text("{}")
    with pytest.raises(InvalidParameterError, match="not a dossier"):
        recheck_dossier(document, dossier)


def test_pages_show_every_field_and_escape_what_the_curator_wrote(places):
    facts = places.facts("base")
    rude = Texts(curator="<script>alert(1)</script>")
    facts = read_facts(places.home("base"), "model", texts=rude)
    page = as_html(Dossier.of(facts))
    assert "<script" not in page
    for section in Dossier.of(facts).sections:
        for field in section.fields:
            assert f'id="{section.id}.{field.id}"' in page
    assert "$" not in re.sub(r"\\$", "", page)


@pytest.mark.parametrize(
    "texts",
    ["[]", '{"curator": 3}', '{"curator": " "}', '{"nobody": "x"}', "not json"],
)
def test_other_texts_are_refused(tmp_path, texts):
    path = tmp_path / "texts.json"
    path.write_text(texts)
    with pytest.raises(InvalidParameterError):
        Texts.read(path)


def test_from_a_shell(places, tmp_path, monkeypatch, capsys):
    places.facts("base")
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps({"curator": "The clinic"}))
    home = ("--home", str(places.home("base").path))
    monkeypatch.chdir(tmp_path)

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main(["dossier", "model", *home, *words])
        said = capsys.readouterr()
        return ended.value.code, said.out + said.err

    code, said = run("--texts", str(texts))
    assert code == 0
    assert "fields are open" in said
    document = str(tmp_path / "dossier-model" / "dossier.json")
    code, said = run("--texts", str(texts), "--recheck", document)
    assert (code, "still holds" in said) == (0, True)
    code, said = run("--recheck", document)
    assert code == 1
    assert "model-card/owner" in said
    with pytest.raises(SystemExit):
        main(["dossier", "nobody", *home])
    assert "this home has model" in capsys.readouterr().err


def test_ten_questions_of_an_officer_are_answered(places):
    """The page has a sentence for each question, and the dossier says it."""
    page = (ROOT / "docs" / "howto" / "dossier.md").read_text("utf-8")
    asked = re.findall(r"^\d+\. .*\(`([^`]+)`\)\n   > (.+)$", page, re.MULTILINE)
    assert len({place for place, _ in asked}) == len(asked) == 10
    home = places.home("released")
    places.facts("released")
    facts = read_facts(home, "model", texts=TEXTS, audit=places.folder / "audit.json")
    told = answers(facts)
    for place, sentence in asked:
        answer = told[place]
        whole = answer if isinstance(answer, str) else "\n".join(answer)
        assert sentence in whole, place


def said(facts):
    """All sentences of a dossier, in one text."""
    return " ".join(as_markdown(Dossier.of(facts)).split())


def test_clients_of_one_total_are_not_said_to_learn_less(places):
    """Whatever budget clients have of their own, nothing is charged to it."""
    for which in ("lasting", "released"):
        facts = places.facts(which)
        small = BudgetSettings(epsilon=0.01, delta=0.0)
        less = replace(facts, settings=replace(facts.settings, client_budget=small))
        assert "A client may learn at most" not in said(less)
        assert "each of them may learn all of it" in said(less)
    facts = places.facts("base")
    less = replace(facts, settings=replace(facts.settings, client_budget=small))
    assert "A client may learn at most ε = 0.01" in said(less)


def test_the_time_of_answers_is_told_as_it_is(places):
    assert "does not depend on single records" in said(places.facts("base"))
    facts = places.facts("lasting")
    assert "may depend on them" in said(facts)
    home = places.fit(
        "constant", places.schema(), lasting=True, learner=None, constant_time=True
    )
    assert "looks at all records, near or not" in said(read_facts(home, "model"))
