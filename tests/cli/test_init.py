"""``reticent init``: a messy hospital file becomes a served model, in one sitting.

The session runs in a pseudo-terminal, as a person would see it.
"""

import csv
import json
import os
import pty
import random
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from reticent.cli.init.running import parts_of
from reticent.cli.main import main
from reticent.guarantees import Budget, gaussian_ratio
from reticent.home import client_account
from reticent.ledger import Cap, Charge, MemoryLedger, Request
from reticent.schemas import ClassLabel, FileFormat, Numeric, Schema
from tests.service.live_server import free_port, wait_until_ready
from tests.service.test_browser import Board

HEAD = "pid;Geschlecht;Größe;Aufnahme;Gewicht;Gewicht;Notiz;Befund;krank"
WORDS = ["hustet", "Fieber, hoch", "gut", "übel", ""]


def patients(path, n=1500):
    """Semicolons, Latin-1, dates, free text, gaps, decimal commas, a header twice."""
    draw = random.Random(1)
    lines = [HEAD]
    for number in range(n):
        height = draw.uniform(1.4, 2.0)
        ill = "ja" if height + draw.gauss(0, 0.08) > 1.7 else "nein"
        fields = [
            f"P{number // 2}",  # two rows per person
            draw.choice(["männlich", "weiblich"]),
            f"{height:.2f}".replace(".", ","),
            f"{draw.randint(1, 28):02d}.{draw.randint(1, 12):02d}.2024",
            ""
            if draw.random() < 0.1
            else f"{draw.uniform(40, 120):.1f}".replace(".", ","),
            "80",
            draw.choice(WORDS),
            "CANARY-731",
            ill,
        ]
        lines.append(";".join(f'"{f}"' if "," in f and ";" in f else f for f in fields))
    path.write_bytes(("\n".join(lines) + "\n").encode("latin-1"))


class Terminal:
    """A session of a person with a command, in a pseudo-terminal."""

    def __init__(self, words, folder, environment):
        self.said = ""
        self._pid, self._line = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            program = [sys.executable, "-m", "reticent.cli", *words]
            os.execve(sys.executable, program, environment)

    def wait_for(self, text, seconds=240):
        """Read until a text has appeared after what was seen before."""
        until = time.monotonic() + seconds
        start = len(self.said)
        while text not in self.said[start:]:
            left = until - time.monotonic()
            assert left > 0, f"no {text!r} after {self.said[start:]!r}"
            ready, _, _ = select.select([self._line], [], [], left)
            if ready:
                try:
                    data = os.read(self._line, 65536)
                except OSError:
                    data = b""
                assert data, f"it ended without {text!r}: {self.said[-3000:]}"
                self.said += data.decode("utf-8", "replace")

    def answer(self, question, text):
        self.wait_for(question)
        os.write(self._line, text.encode() + b"\n")

    def end(self):
        """Read to the end; return the exit code."""
        while True:
            try:
                data = os.read(self._line, 65536)
            except OSError:
                break
            if not data:
                break
            self.said += data.decode("utf-8", "replace")
        _, status = os.waitpid(self._pid, 0)
        return os.waitstatus_to_exitcode(status)

    def interrupt(self):
        os.kill(self._pid, signal.SIGINT)
        return self.end()


@pytest.fixture
def ward(tmp_path):
    patients(tmp_path / "patients.csv")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    environment |= {"RETICENT_PORT": str(free_port())}
    environment.pop("RETICENT_HOME", None)
    return tmp_path, environment


def session(folder, environment):
    """Answer every question, with some mistakes on the way."""
    person = Terminal(["init", "patients.csv"], folder, environment)
    person.answer("How are letters stored", "")  # it proposes cp1252
    person.answer("between fields", "")  # it proposes ;
    person.answer("before fractions", "")  # it proposes ,
    person.answer("between thousands", "")
    person.answer("to be predicted", "nosuch")
    person.answer("answer with one of", "krank")
    person.answer("one of a list, or a number", "list")
    person.answer("All values that 'krank' can have", "nein, ja")
    person.answer("whose row it is", "pid")
    person.answer("Geschlecht: number", "category")
    person.answer("all values", "männlich, weiblich")
    person.answer("may values be missing", "")
    person.answer("Größe: number", "number")
    person.answer("smallest and largest", "tall")
    person.answer("a range reads like", "1,0:2,5")
    person.answer("may values be missing", "no")
    person.answer("Aufnahme: number", "date")
    person.answer("written as", "%d.%m")
    person.answer("needs %Y", "%d.%m.%Y")
    person.answer("parts to use", "month")
    person.answer("Gewicht: number", "number")
    person.answer("smallest and largest", "0:300")
    person.answer("may values be missing", "yes")
    person.answer("Gewicht (2): number", "ignore")
    person.answer("Notiz: number", "text")
    person.answer("how many buckets", "4")
    person.answer("Befund: number", "ignore")
    person.answer("not in the file?", "y")
    person.answer("Epsilon:", "4")
    person.answer("How many questions", "")
    person.answer("Continue with it?", "y")
    person.answer("measure how good the model is? [Y/n]", "")
    return person


def test_a_messy_file_becomes_a_served_model_in_one_sitting(ward, browser):
    """From the file to answers on the command line, over HTTP and in a browser."""
    folder, environment = ward
    person = session(folder, environment)
    person.answer("Serve it now", "y")
    person.wait_for("admin key, shown this once: ")
    person.wait_for("\n")
    told = person.said
    assert "one person, with all rows of one 'pid'" in told
    assert "times in 100" in told
    assert "CANARY" not in told
    # The epsilons that are printed are short, and said why.
    assert re.search(r"--release --epsilon \d\.\d{1,3} --budget 4\.0 ", told)
    assert "losses are added up as zCDP, by which noise counts for more" in told
    assert re.search(r"and ε = 0\.\d+ is kept for the measurement\.", told)
    assert "measured on held-out units: accuracy" in told
    assert "not measured" not in told
    assert "only a measurement tells" not in told
    key = re.search(r"shown this once: (rk_\S+)", told)[1]
    address = re.search(r"at (http://\S+)", told)[1]
    schema = Schema.read(folder / "patients.schema.json")
    assert schema.unit == "pid"
    assert schema.ignored == ("Gewicht (2)", "Befund")
    row = {
        "Geschlecht": "weiblich",
        "Größe": 1.9,
        "Aufnahme": "03.02.2024",
        "Gewicht": None,
        "Notiz": "hustet",
    }
    assert ask(address, key, row)["answers"][0] in ("nein", "ja")
    in_a_browser(Board(browser, address), key, folder)
    person.interrupt()
    questions = folder / "questions.csv"
    questions.write_bytes(
        "Geschlecht;Größe;Aufnahme;Gewicht;Notiz\n"
        "weiblich;1,95;03.02.2024;;übel\nmännlich;1,41;04.02.2024;70,5;\n".encode(
            "latin-1"
        )
    )
    done = subprocess.run(
        [
            *(sys.executable, "-m", "reticent.cli", "predict", "model"),
            *("questions.csv", "--output", "answered.csv"),
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""  # the answers are in the file
    assert "wrote 2 rows to answered.csv" in done.stderr
    with (folder / "answered.csv").open(encoding="cp1252", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    # They are far from the border of 1.7.
    assert [r["prediction"] for r in rows] == ["ja", "nein"]
    assert rows[0]["Notiz"] == "übel"
    served_again(browser, folder, environment, key)


QUESTIONS = (
    "Geschlecht;Größe;Aufnahme;Gewicht;Gewicht;Notiz\n"
    "weiblich;1,99;03.02.2024;;80;übel\n"
    "männlich;1,41;04.02.2024;70,5;80;\n"
).encode("latin-1")


def in_a_browser(board, key, folder):
    """Ask one question by hand and two by a file, and look at every page."""
    board.log_in(key)
    board.press("a[href='/models/model']")
    labels = [label.text for label in board.all("form[action$='/try'] label")]
    assert [text.split(" (")[0] for text in labels] == [
        *("Geschlecht", "Größe", "Aufnahme", "Gewicht", "Notiz"),
    ]  # as in the file, not what is computed from it
    Select(board.find("#c0")).select_by_visible_text("weiblich")
    for field, text in (("#c1", "1.98"), ("#c2", "31.02.2024"), ("#c4", "hustet")):
        board.find(field).send_keys(text)
    board.press("form[action$='/try'] button")
    assert "no such day" in board.find("[role=alert]").text
    board.find("#c2").clear()
    board.find("#c2").send_keys("03.02.2024")
    board.press("form[action$='/try'] button")
    assert board.find("#answer").text == "ja"
    assert "It cost nothing" in board.find(".answer").text  # it was released
    sheet = folder / "sheet.csv"
    sheet.write_bytes(QUESTIONS)
    board.find("#file").send_keys(str(sheet))
    board.until(lambda: "männlich" in board.find("#csv").get_attribute("value"))
    board.press("form[data-upload] button")
    many = board.find("section[aria-labelledby=many]")
    assert "2 rows answered" in many.text
    cells = many.find_elements(By.CSS_SELECTOR, "tbody td")
    assert [cell.text for cell in cells] == ["ja", "nein"]
    look_at_every_page(board, folder)


def look_at_every_page(board, folder):
    """On a screen and on a phone, light and dark, nothing is cut off or unreadable."""
    pages = ("/", "/models/model", "/ledger")
    kept = Path(os.environ.get("RETICENT_SCREENSHOTS") or folder / "screens")
    kept.mkdir(exist_ok=True)
    for scheme in ("light", "dark"):
        board.browser.prefer(scheme)
        for width in (1280, 390):
            board.browser.resize(width, 900)
            for page in pages:
                board.go(page)
                assert board.complaints() == [], (page, width, scheme)
                wide = board.driver.execute_script(
                    "return document.documentElement.scrollWidth"
                )
                assert wide <= width, (page, width, scheme)
                name = page.strip("/").replace("/", "-") or "home"
                board.browser.photograph(kept / f"{name}-{width}-{scheme}.png")
    assert len(list(kept.glob("*.png"))) >= 4 * len(pages)


def served_again(browser, folder, environment, key):
    """`reticent serve` goes on where the sitting ended: same key, same ledger."""
    service = subprocess.Popen(
        [sys.executable, "-m", "reticent.cli", "serve"],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = f"http://127.0.0.1:{environment['RETICENT_PORT']}"
        wait_until_ready(address, service)
        board = Board(browser, address)
        board.log_in(key)
        board.go("/ledger")
        # The release and its measurement were charged, whatever was asked since.
        rows = [row.text for row in board.all("tbody tr") if "charge" in row.text]
        assert len(rows) == 2
        assert all("dataset:data" in row for row in rows)
    finally:
        browser.driver.get("about:blank")
        service.send_signal(signal.SIGTERM)
        assert service.wait(180) == 0


def ask(address, key, row):
    request = urllib.request.Request(
        f"{address}/v1/models/model/predict",
        data=json.dumps({"rows": [row]}).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    for _ in range(200):
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return json.loads(reply.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read()) from None
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the service did not answer")


FLAGS = [
    *("--label", "krank", "--classes", "nein,ja", "--unit", "pid"),
    *("--levels", "Geschlecht=männlich,weiblich", "--numeric", "Größe=1:2.5"),
    *("--date", "Aufnahme=%d.%m.%Y", "--numeric", "Gewicht=0:300"),
    *("--missing", "Gewicht", "--ignore", "Gewicht (2)", "--words", "Notiz=4"),
    *("--ignore", "Befund", "--public-facts", "--epsilon", "4", "--yes"),
]


@pytest.fixture
def run(capsys, ward, monkeypatch):
    monkeypatch.chdir(ward[0])

    def run(*words, code=0):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        said = capsys.readouterr()
        assert ended.value.code == code, said
        return said

    return run


def test_in_a_pipe_options_say_everything(run):
    said = run("init", "patients.csv", *FLAGS, "--json")
    found = json.loads(said.out)
    assert found["model"] == "model"
    assert Path("patients.schema.json").exists()
    row = {
        "Geschlecht": "weiblich",
        "Größe": 1.9,
        "Aufnahme": "03.02.2024",
        "Gewicht": 70,
        "Notiz": "",
    }
    assert run("predict", "model", "--row", json.dumps(row)).out.strip() == "ja"


def test_in_a_pipe_nothing_is_measured_unless_it_is_asked_for(run):
    assert "measured" not in run("init", "patients.csv", *FLAGS).err
    Path("patients.schema.json").unlink()
    flags = [*FLAGS, "--name", "again", "--dataset", "other", "--measure"]
    assert (
        "measured on held-out units: accuracy"
        in run("init", "patients.csv", *flags).err
    )
    spent = json.loads(run("ledger", "show", "--json").out)["accounts"]
    other = next(a for a in spent if a["account"] == "dataset:other")
    assert other["answers"] == 2
    assert 0.99 < other["spent"]["rho"] / other["cap"]["rho"] <= 1


@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 30.0])
def test_a_budget_covers_a_release_and_its_measurement(epsilon, delta):
    parts = parts_of(Budget(epsilon, delta))
    cap = Cap.within(Budget(epsilon, delta))
    costs = [
        Charge.loss(epsilon=parts.release, certificate="a"),
        Charge.loss(epsilon=parts.measurement, certificate="b"),
    ]
    if delta:
        ratio = gaussian_ratio(parts.release, delta)
        costs = [
            Charge.loss(rho=ratio**2 / 2, certificate="a"),
            Charge.loss(rho=parts.measurement**2 / 2, certificate="b"),
        ]
    ledger, account = MemoryLedger(), client_account("x")
    ledger.open_account(account, cap)
    for place, cost in enumerate(costs):  # the ledger refuses what does not fit
        ledger.charge(
            Request(key=str(place), accounts=(account,), charge=cost, queries=(b"q",))
        )
    used, _ = ledger.balance(account).share
    assert 0.97 < used <= 1


@pytest.mark.parametrize(
    ("left_out", "needed"),
    [
        ("--label", "--label"),
        ("--classes", "--classes"),
        ("--unit", "--unit"),
        ("--numeric", "'Größe'"),
        ("--levels", "'Geschlecht'"),
        ("--public-facts", "--public-facts"),
        ("--epsilon", "--epsilon"),
    ],
)
def test_what_a_human_must_say_is_never_made_up(run, left_out, needed):
    flags = list(FLAGS)
    place = flags.index(left_out)
    del flags[place : place + (1 if left_out == "--public-facts" else 2)]
    said = run("init", "patients.csv", *flags, code=2).err
    assert needed in said
    assert not Path(".reticent").exists()
    assert "CANARY" not in said


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("krank", "gesund", "the file has no column 'gesund'; it has 'pid', "),
        ("krank", "Befund", "'Befund' is declared twice"),
        ("pid", "patient", "the file has no column 'patient'"),
        ("Gewicht", "Gewicht,Größe", "Give --missing once for each column"),
        ("4", "-1", "epsilon must be a number above 0"),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_written(run, old, new, told):
    flags = list(FLAGS)
    flags[flags.index(old)] = new
    assert told in run("init", "patients.csv", *flags, code=2).err
    assert not Path("patients.schema.json").exists()


def test_a_file_that_does_not_fit_is_told_by_line(run):
    flags = [flag.replace("männlich,weiblich", "weiblich") for flag in FLAGS]
    said = run("init", "patients.csv", *flags, code=2).err
    assert re.search(r"Geschlecht: not one of the levels \(lines \d+", said)
    assert "--schema patients.schema.json" in said
    again = run("init", "patients.csv", *FLAGS, code=2).err
    assert "is there already" in again


def test_options_about_the_file_override_a_schema_that_is_given(tmp_path, capsys):
    data = tmp_path / "rows.csv"
    lines = [f"{number % 2}.{number % 1000:03d};{number % 2}" for number in range(400)]
    data.write_text("\n".join(["dose;ill", *lines]) + "\n")
    declared = Schema(
        {"dose": Numeric(0, 2000)},
        label=ClassLabel("ill", [0, 1]),
        file=FileFormat(separator=";", decimal=","),
    )
    declared.write(tmp_path / "rows.json")
    words = ["init", str(data), "--schema", str(tmp_path / "rows.json")]
    words += ["--epsilon", "2", "--yes", "--home", str(tmp_path / "home")]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "dose: not a number" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main([*words, "--thousands", "."])
    assert ended.value.code == 0
    assert " --thousands ." in capsys.readouterr().err
