"""What people read on the dashboard: promises, prices, charts, the ledger, files."""

import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from reticent.glossary import glossary
from reticent.guarantees import best_guess, rounded_up
from reticent.home import (
    BudgetSettings,
    cap_of,
    charge_release,
    client_account,
    dataset_account,
)
from reticent.learners import NoisyGradientClassifier
from reticent.ledger import AccountId, Cap, Charge, MemoryLedger, Request
from reticent.schemas import Encoder
from reticent.service.activity import HOUR, Activity
from reticent.service.dashboard import charts, views
from reticent.service.dashboard.batches import read_batch, write_batch
from reticent.service.dashboard.promises import about_account
from reticent.service.dashboard.reference import problems
from reticent.service.requests.problems import ProblemError
from reticent.storage import Dataset, load_model, save_model
from tests.service.clinic import (
    MODEL_KEY,
    ROW,
    TRIAGE,
    clinic,
    fitted,
    records,
    settings_for,
    store,
)
from tests.service.test_dashboard import FILLED, Visitor, assert_self_contained, spent


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A released model, stored as zCDP, as a budget with a delta has it."""
    table, encoder = records(TRIAGE), Encoder(TRIAGE)
    model = NoisyGradientClassifier(epsilon=1.0, delta=1e-6, classes=TRIAGE.classes)
    model.fit(encoder.transform(table), TRIAGE.classes[table.label])
    path = tmp_path_factory.mktemp("released") / "shared"
    save_model(
        path,
        model,
        TRIAGE,
        signing_key=MODEL_KEY,
        encoder=encoder,
        dataset=Dataset("clinic"),
        concentrated=True,
    )
    return path


@pytest.fixture
def running(tmp_path, released):
    budget = {"epsilon": 8.0, "delta": 1e-6}
    ledger = MemoryLedger()
    cap = cap_of(BudgetSettings(**budget), "replace-one")
    ledger.open_account(dataset_account("clinic"), cap)
    charge_release(ledger, load_model(released, signing_key=MODEL_KEY))
    path = store(tmp_path)
    models = {f"triage-{place}": path for place in range(9)}
    settings = settings_for(
        tmp_path,
        models={**models, "triage": path, "shared": released},
        datasets={"clinic": budget},
        client_budget={"epsilon": 2.0, "delta": 1e-6},
    )
    with clinic(settings, ledger=ledger) as made:
        yield made


@pytest.fixture
def analyst(running):
    return arrived(Visitor(running, running.analyst))


@pytest.fixture
def admin(running):
    return arrived(Visitor(running, running.admin))


def arrived(visitor):
    visitor.get("/models/triage")  # has the token for forms
    return visitor


# Promises


def test_numbers_are_rounded_against_us():
    shown = {0.5: "0.5", 1.0: "1", 1e-6: "1e-6", 1.0801: "1.09", 0.12345: "0.124"}
    for value, text in shown.items():
        assert rounded_up(value) == text
        assert float(rounded_up(value)) >= value
    for value in np.random.default_rng(1).uniform(1e-9, 50, 2000):
        assert float(rounded_up(value)) >= value * (1 - 1e-11)


def test_a_release_is_named_the_same_in_every_place(running, admin):
    model = running.service.registry.models["shared"]
    assert "zCDP" in str(model.certificate.guarantee)
    numbers = views.model_view(model)["promised"]["numbers"]
    assert re.fullmatch("ε = 1, δ = 1e-6", numbers)
    pages = ["/", "/models/shared", f"/certificates/{model.certificate.id}", "/ledger"]
    for page in pages:
        text = admin.get(page).text
        assert numbers in text, page
        assert not re.search(r"<(p|td|dd)(\s[^>]*)?>[^<]*\d-zCDP", text), page


def test_the_sentence_stands_beside_the_numbers(running, analyst):
    times = int(
        np.ceil(100 * best_guess(running.service.registry.models["triage"].certificate))
    )
    page = analyst.get("/models/triage").text
    assert f"guesses right at most {times} times in 100" in page
    home = analyst.get("/").text
    assert home.count(f"a guess is right at most {times} times in 100") == 10
    assert home.index("ε = 8, δ = 1e-6") < home.index("ε = 0.5")


def with_unit(tmp_path, name, dataset):
    """Store a model whose schema names the column of a person."""
    schema = replace(TRIAGE, unit="pid")
    path = tmp_path / name
    save_model(
        path,
        fitted("triage", epsilon=0.25),
        schema,
        signing_key=MODEL_KEY,
        dataset=Dataset(dataset),
    )
    return path


def test_every_page_says_of_a_row_that_it_is_a_row(running, admin):
    certificate = running.service.registry.models["triage"].certificate.id
    for page in ("/", "/keys", "/models/triage", f"/certificates/{certificate}"):
        text = admin.get(page).text
        assert "facts about one row" in text, page
        assert "facts about one person" not in text, page


def test_a_page_says_one_person_only_where_each_model_protects_one(tmp_path):
    models = {
        "triage": store(tmp_path),
        "people": with_unit(tmp_path, "people", "people"),
    }
    datasets = {name: {"epsilon": 50.0} for name in ("clinic", "people", "empty")}
    with clinic(settings_for(tmp_path, models=models, datasets=datasets)) as running:
        registry = running.service.registry
        told = {
            name: about_account(AccountId.parse(name), registry)
            for name in (
                *("dataset:clinic", "dataset:people", "dataset:people.period-2"),
                *("dataset:peoples", "client:ward-7", "model:triage"),
            )
        }
        assert told == {
            "dataset:clinic": "one row",
            "dataset:people": "one person",
            "dataset:people.period-2": "one person",
            "dataset:peoples": "one unit",
            "client:ward-7": "one unit",
            "model:triage": "one unit",
        }
        pages = Visitor(running, running.admin)
        certificate = registry.models["people"].certificate.id
        assert (
            "facts about one person" in pages.get(f"/certificates/{certificate}").text
        )
        accounts = pages.get("/keys").text
        for who in ("row", "person", "unit"):
            assert f"facts about one {who}" in accounts, who


def test_answers_near_chance_are_told_before_anybody_asks(tmp_path):
    models = {
        "triage": store(tmp_path),
        "noise": store(tmp_path, epsilon=0.01, name="n"),
    }
    with clinic(settings_for(tmp_path, models=models)) as running:
        told = {m["name"]: m for m in running.get("/v1/models").json()["models"]}
        assert told["triage"]["near_chance"] is None
        assert "guessing is right 50 times" in told["noise"]["near_chance"]
        pages = Visitor(running, running.analyst)
        assert "near chance" in pages.get("/models/noise").text
        assert "near chance" not in pages.get("/models/triage").text


def test_a_free_model_never_speaks_of_paying(running, analyst):
    page = analyst.get("/models/shared").text
    assert "Ask (free)" in page
    assert "costs one answer" not in page
    assert "What the model promises" in page
    answer = analyst.form("/models/shared/try", attempt="1", **{**FILLED, "c1": "3"})
    assert "It cost nothing" in answer.text
    assert "Ask (costs one answer)" in analyst.get("/models/triage").text


def test_nothing_left_means_no_button(running, analyst, admin):
    assert " disabled" not in analyst.get("/models/triage").text
    admin.form("/accounts", account="client:ward-7", epsilon="0.3", delta="1e-6")
    page = analyst.get("/models/triage").text
    assert page.count(" disabled>") == 2  # for one row, and for many
    assert "Nothing is left of a" in page
    free = analyst.get("/models/shared").text
    assert " disabled" not in free


def test_words_of_the_field_lead_to_the_glossary(running, admin):
    explained = admin.get("/glossary").text
    for term in glossary().values():
        assert f'id="{term.key}"' in explained
    linked = set()
    for page in ("/", "/models/triage", "/ledger", "/keys", "/docs"):
        linked |= set(re.findall(r'href="/glossary#([^"]+)"', admin.get(page).text))
    assert linked <= set(glossary())
    assert {"epsilon", "budget", "certificate", "ledger", "cap"} <= linked | {"cap"}


def test_the_api_is_explained_without_a_login_and_without_other_hosts(running):
    visitor = Visitor(running)
    for page in ("/docs", "/glossary"):
        answer = visitor.get(page)
        assert answer.status_code == 200
        assert_self_contained(answer.text)
    text = visitor.get("/docs").text
    for path in running.app.openapi()["paths"]:
        assert f"<code>{path}</code>" in text
    for code in problems():
        assert f'id="{code}"' in text


def test_every_error_code_is_explained():
    import reticent.service as package

    folder = package.__path__[0]
    source = "".join(
        path.read_text("utf-8")
        for path in __import__("pathlib").Path(folder).rglob("*.py")
    )
    pattern = r'(?:ProblemError\(\s*\d{3},\s*|\d{3}, |\d{3}: \(\s*)"([a-z_]+)"'
    used = set(re.findall(pattern, source)) | {"shutting_down", "overloaded"}
    assert len(used) > 20
    assert used - {"headers"} <= set(problems()), used - set(problems())


# Charts and estimates


def charged(ledger, account, epsilon, certificate="c", key="k"):
    cost = Charge.loss(epsilon=epsilon, certificate=certificate)
    ledger.charge(Request(key=key, accounts=account, charge=cost, queries=(b"q",)))


@pytest.fixture
def history(monkeypatch):
    """Charges over six days: one an hour for the dataset, by two clients."""
    ledger, now = MemoryLedger(), [0]
    for module in list(__import__("sys").modules.values()):
        if getattr(module, "__name__", "").startswith("reticent.ledger") and hasattr(
            module, "seconds"
        ):
            monkeypatch.setattr(module, "seconds", lambda: now[0])
    clinic_account = dataset_account("clinic")
    ledger.open_account(clinic_account, Cap.basic(epsilon=100.0))
    for name in ("a", "b"):
        ledger.open_account(client_account(name), Cap.basic(epsilon=100.0))
    end = 1_700_000_000
    for hour in range(144):
        now[0] = end - hour * HOUR
        who = client_account("a" if hour % 3 else "b")
        certificate = f"c{hour % 2}"
        charged(ledger, (clinic_account, who), 0.25, certificate, f"k{hour}")
    return ledger, end


def test_charts_add_up_to_what_was_charged(history):
    ledger, end = history
    activity = Activity(ledger)
    activity.update()
    for window in charts.WINDOWS.values():
        starts = window.starts(end)
        asked = activity.asked(starts)
        total = sum(sum(counts) for counts in asked.values())
        expected = sum((end - h * HOUR) // HOUR >= starts[0] for h in range(144))
        assert total == expected
        mine = activity.asked(starts, client="b")
        assert {who for who, _ in mine} == {"b"}
        before, *steps = activity.spent("dataset:clinic", starts)
        assert sum(step.answers for step in steps) == total
        assert before.answers == 144 - total


def test_a_chart_has_axes_and_a_legend():
    starts = list(range(5))
    shown = charts.chart({"x": [1, 2, 0, 7], "y": [0, 0, 3, 1]}, starts)
    assert shown["high"] == ["8", "4", "0"]
    assert len(shown["along"]) == 5
    assert shown["along"][-1] == "now"
    assert shown["legend"] == [(0, "x"), (1, "y")]
    assert len(shown["columns"]) == 5
    top = shown["columns"][-1]
    assert top["y"] == 0.0  # 7 + 1 reach the end of the axis
    many = {f"m{place}": [1, 1, 1, 1] for place in range(9)}
    names = [name for _, name in charts.chart(many, starts)["legend"]]
    assert names == ["m0", "m1", "m2", "m3", "m4", "4 others"]


def test_a_budget_that_shrinks_steadily_has_a_foreseeable_end(history):
    ledger, end = history
    activity = Activity(ledger)
    activity.update()
    balance = ledger.balance(dataset_account("clinic"))
    told = views.lasts(balance, activity, now=end)
    # 36 of 100 in 144 hours leave 64 for 256 hours, nearly eleven days.
    assert told == "lasts about 11 days at the pace of the last few days"
    later = views.lasts(balance, activity, now=end + 30 * 24 * HOUR)
    assert later == "nothing was spent in 7 days"
    ledger.set_cap(dataset_account("clinic"), Cap.basic(epsilon=36.0))
    full = ledger.balance(dataset_account("clinic"))
    assert views.lasts(full, activity, now=end) == "nothing is left"


def test_nothing_is_foreseen_before_a_full_day_of_answers(history):
    ledger, end = history
    ledger.open_account(dataset_account("new"), Cap.basic(epsilon=100.0))
    ledger.open_account(client_account("c"), Cap.basic(epsilon=100.0))
    both = (dataset_account("new"), client_account("c"))
    charged(ledger, both, 0.25, key="first")  # at the time of the earliest hour
    (start,) = [end - 143 * HOUR]

    def told(hours):
        activity = Activity(ledger)
        activity.update()
        balance = ledger.balance(dataset_account("new"))
        return views.lasts(balance, activity, now=start + hours * HOUR)

    assert told(0) == told(23) == ""
    assert told(26).startswith("lasts about")


def test_the_price_of_a_fit_is_no_pace(history):
    ledger, end = history
    clinic_account = dataset_account("clinic")
    ledger.set_cap(clinic_account, Cap.basic(epsilon=1000.0))
    activity = Activity(ledger)
    activity.update()
    before = views.lasts(ledger.balance(clinic_account), activity, now=end)
    charged(ledger, (clinic_account,), 50.0, key="/release/a")
    ledger.open_account(dataset_account("fitted"), Cap.basic(epsilon=100.0))
    charged(ledger, (dataset_account("fitted"),), 50.0, key="/release/b")
    activity.update()
    # 964 of 1000 were left, now 914: at the same pace.
    after = views.lasts(ledger.balance(clinic_account), activity, now=end)
    days = [int(re.search(r"about (\d+) days", text)[1]) for text in (before, after)]
    assert days[1] == pytest.approx(days[0] * 914 / 964, abs=1)
    only = ledger.balance(dataset_account("fitted"))
    assert views.lasts(only, activity, now=end) == ""
    assert views.lasts(only, activity, now=end + 30 * 24 * HOUR) == ""


def test_one_answer_is_no_answers(running, admin):
    running.predict()
    page = admin.get("/").text
    assert "</strong> answer charged in" in page
    running.predict({**ROW, "age": 7})
    assert "</strong> answers charged in" in admin.get("/").text


def test_a_weak_limit_is_told_of_once_on_a_page(tmp_path):
    settings = settings_for(tmp_path, client_budget={"epsilon": 50.0})
    with clinic(settings) as running:
        admin = Visitor(running, running.admin)
        for page in ("/", "/keys"):
            text = admin.get(page).text
            assert text.count('role="meter"') > 1
            told = "If all of it is used, this limit alone protects hardly anything"
            assert text.count(told) == 1


def test_the_first_page_shows_what_was_chosen(running, admin, analyst):
    running.predict()
    running.predict({**ROW, "age": 7}, model="triage-3", key=running.admin)
    by_client = admin.get("/?window=7d&split=client&account=client:boss").text
    assert "in the last 7 days" in by_client
    assert "</svg> ward-7</li>" in by_client
    assert "</svg> boss</li>" in by_client
    assert "<option selected>client:boss</option>" in by_client
    nonsense = analyst.get("/?window=x&split=client&account=client:boss").text
    assert "</svg> boss" not in nonsense
    assert "client:boss" not in nonsense


# The ledger


def test_the_ledger_is_shown_and_exported(running, admin, analyst):
    running.predict()
    running.predict({**ROW, "age": 7}, key=running.admin)
    everything = admin.get("/ledger").text
    assert "client:ward-7" in everything
    assert "client:boss" in everything
    mine = analyst.get("/ledger").text
    assert "client:ward-7" in mine
    assert "client:boss" not in mine
    assert "dataset:clinic" not in mine
    sheet = analyst.get("/ledger.csv")
    assert sheet.headers["content-disposition"] == "attachment; filename=ledger.csv"
    lines = list(csv.DictReader(io.StringIO(sheet.text)))
    assert [(line["account"], line["epsilon"]) for line in lines] == [
        ("client:ward-7", "0.5")
    ]
    objects = [
        json.loads(line) for line in admin.get("/ledger.jsonl").text.split("\n")[:-1]
    ]
    charges = [line for line in objects if line["kind"] == "charge"]
    assert {line["account"] for line in charges} == {
        "dataset:clinic",
        "client:ward-7",
        "client:boss",
    }
    hashes = {entry.hash for entry in running.service.ledger.entries()}
    assert {line["hash"] for line in objects} <= hashes
    assert admin.get("/ledger.exe").status_code == 404


def test_earlier_entries_are_a_page_away(running, admin):
    for age in range(60):
        running.predict({**ROW, "age": age}, model="shared")  # free: no entry
    account = client_account("boss")
    for place in range(60):
        charged(running.service.ledger, (account,), 1e-6, key=f"x{place}")
    first = admin.get("/ledger").text
    (earlier,) = re.findall(r'href="/ledger\?before=(\d+)"', first)
    second = admin.get(f"/ledger?before={earlier}").text
    shown = [set(re.findall(r'<th scope="row">(\d+)</th>', t)) for t in (first, second)]
    assert len(shown[0]) == 50
    assert not shown[0] & shown[1]
    assert admin.get("/ledger?before=x").status_code == 200


class CountingLedger(MemoryLedger):
    """Counts the entries that were read."""

    read = 0

    def entries(self, *, after=0):
        for entry in super().entries(after=after):
            self.read += 1
            yield entry


def test_a_page_of_a_long_ledger_reads_no_more_than_it_shows(tmp_path, monkeypatch):
    ledger = CountingLedger()
    with clinic(settings_for(tmp_path), ledger=ledger) as running:
        account = (client_account("boss"),)
        for place in range(3000):
            charged(ledger, account, 1e-6, key=f"x{place}")
        admin = Visitor(running, running.admin)
        ledger.read = 0
        text = admin.get("/ledger").text
        assert f"has {ledger.length():,} entries" in text
        assert 50 <= ledger.read <= 400
        ledger.read = 0
        admin.get("/ledger?before=1500")
        assert 50 <= ledger.read <= 400
        # The charts say how far they have come.
        monkeypatch.setattr("reticent.service.activity._AT_ONCE", 1000)
        assert "cover the first 1,000 of 3," in admin.get("/").text
        for _ in range(3):
            last = admin.get("/").text
        assert "cover the first" not in last


def test_a_certificate_can_be_taken_along(running, analyst):
    from reticent.guarantees import Certificate

    certificate = running.service.registry.models["triage"].certificate
    answer = analyst.get(f"/certificates/{certificate.id}/download")
    assert "attachment" in answer.headers["content-disposition"]
    assert Certificate.from_dict(answer.json()).id == certificate.id
    assert analyst.get("/certificates/none/download").status_code == 404


# Many rows

SHEET = "ward,age,dose,smokes,floor,name\nb,41,,true,2,Eve\na,12,3.5,false,,=1+1\n"


def batch(visitor, text=SHEET, attempt="b1", model="triage", **more):
    path = f"/models/{model}/batch"
    return visitor.form(path, csv=text, attempt=attempt, **more)


def test_a_wrong_row_is_counted_as_the_page_counts(running, analyst):
    rows = "ward,age,dose,smokes,floor\nb,41,,true,2\na,12,3.5,false,\nb,410,,true,2\n"
    told = batch(analyst, rows).text
    assert "Row 3, column &#39;age&#39;" in told
    assert "rows[" not in told
    answer = analyst.form("/models/triage/try", attempt="x", **{**FILLED, "c3": ""})
    assert answer.status_code == 422
    assert "rows[" not in answer.text
    assert "Column &#39;smokes&#39;" in answer.text


def test_rows_of_a_file_are_answered_once(running, analyst):
    page = batch(analyst)
    assert page.status_code == 200
    assert "2 rows answered" in page.text
    assert "They cost 2 answers" in page.text
    assert "does not take these columns: name" in page.text
    assert spent(running) == 2
    file = batch(analyst, **{"as": "file"})
    assert file.headers["content-type"].startswith("text/csv")
    assert spent(running) == 2
    lines = list(csv.DictReader(io.StringIO(file.text)))
    assert [line["age"] for line in lines] == ["41", "12"]
    assert {line["ill (private answer)"] for line in lines} <= {"yes", "no"}
    assert lines[1]["name"] == "'=1+1"  # no formula for a spreadsheet
    assert running.predict().json()["charge"]["answers"] == 0  # the first row again


WRONG_SHEETS = {
    "empty": ("", "header"),
    "no rows": ("age,dose,ward,smokes,floor\n", "1 to 1000 rows"),
    "no column": ("age,ward\n1,a\n", "&#39;dose&#39;"),
    "a column twice": ("age,age,dose,ward,smokes,floor\n1,1,1,a,true,1\n", "age"),
    "a short row": ("age,dose,ward,smokes,floor\n1,2\n", "Row 1"),
    "no number": ("age,dose,ward,smokes,floor\nx,2,a,true,1\n", "a number is needed"),
    "out of range": ("age,dose,ward,smokes,floor\n410,2,a,true,1\n", "0 to 100"),
    "no level": ("age,dose,ward,smokes,floor\n41,2,z,true,1\n", "levels"),
    "nothing there": ("age,dose,ward,smokes,floor\n,2,a,true,1\n", "missing"),
    "a quote left open": ('age,dose,ward,smokes,floor\n"41,2,a,true,1\n', "header"),
}


@pytest.mark.parametrize("name", WRONG_SHEETS)
def test_a_file_with_a_mistake_costs_nothing(running, analyst, name):
    text, words = WRONG_SHEETS[name]
    good = "41,,b,true,2\n" if text.endswith("\n") and len(text) > 30 else ""
    answer = batch(analyst, text + (good if name != "no rows" else ""))
    assert answer.status_code == 422
    assert words in re.search(r'role="alert">([^<]*)<', answer.text)[1]
    assert spent(running) == 0


def test_separators_of_spreadsheets_are_taken():
    for separator in ",;\t":
        text = "\ufeff" + SHEET.replace(",", separator)
        found = read_batch(TRIAGE, text, 10)
        assert found.rows[0] == {**ROW, "age": 41.0}
        assert found.ignored == ["name"]
    with pytest.raises(ProblemError, match="1 to 1 rows"):
        read_batch(TRIAGE, SHEET, 1)
    found = read_batch(TRIAGE, SHEET, 10)
    assert write_batch(found, {"x": ["1", "2"]}).splitlines()[0].endswith("name,x")


def test_a_large_file_fits_where_a_form_would_not(running, analyst):
    row = "41,,b,true,2\n"
    text = "age,dose,ward,smokes,floor,note\n" + 900 * (
        row[:-1] + "," + "x" * 100 + "\n"
    )
    page = batch(analyst, text, model="shared")
    assert "900 rows answered" in page.text
    assert "They cost nothing" in page.text


# Code to copy


def test_the_code_on_the_page_asks_the_question_that_was_typed(running, analyst):
    page = analyst.form("/models/triage/try", attempt="9", **FILLED).text
    (curl,) = re.findall(r'<pre tabindex="0" id="code-1">(.*?)</pre>', page, re.S)
    body = json.loads(
        __import__("html").unescape(re.search(r"-d &#39;(.*)&#39;", curl, re.S)[1])
    )
    assert body == {"rows": [{**ROW, "age": 41.0}]}
    assert "from reticent.client import Client" in page


def test_columns_are_described(analyst):
    page = analyst.get("/models/triage").text
    assert "a number from 0 to 100" in page
    assert "one of a, b, c" in page
