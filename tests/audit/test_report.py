"""The report: right about honest models, about dishonest ones, and fit to be read."""

import json
import re
import shutil
import stat
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from reticent.audit import (
    Report,
    Status,
    examine,
    membership_inference,
    trade_off,
)
from reticent.audit.report import attack as report_attack
from reticent.audit.report import checks as report_checks
from reticent.audit.report.last_step import VoteStep, last_step
from reticent.audit.report.plots import bars_picture
from reticent.audit.report.report import best_guess
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.guarantees import ZCDP, PureDP, ReplaceOne, Scope, claim, gaussian_ratio
from reticent.learners import (
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    ObjectivePerturbationClassifier,
    ObjectivePerturbationRegressor,
    OutputPerturbationClassifier,
    OutputPerturbationRegressor,
)
from reticent.mechanisms import soft_vote
from reticent.prediction import VoteRule
from reticent.schemas import Encoder
from reticent.signing import new_key
from reticent.storage import save_model
from tests.stats import ALPHA
from tests.storage.workshop import CASES, KEY, fitted, forge, table_for, write

ASKED = [case for case in CASES if "released" not in case]
RELEASED = [case for case in CASES if "released" in case]


@pytest.fixture
def stored(tmp_path):
    """Store one of the workshop's models and return its directory."""

    def store(case):
        model, encoder, _ = fitted(case)
        folder = tmp_path / case
        save_model(folder, model, encoder.schema, signing_key=KEY, encoder=encoder)
        return folder

    return store


@pytest.fixture
def _never_by_chance(monkeypatch):
    """Refute a promise that is kept once in 10^9 audits, not once in 10^4."""
    monkeypatch.setattr(report_checks, "CONFIDENCE", 1 - ALPHA)


def found(report):
    return {check.name: check.status for check in report.checks}


@pytest.mark.usefixtures("_never_by_chance")
@pytest.mark.parametrize("case", CASES)
def test_an_honest_model_is_not_refuted(case, stored):
    report = examine(stored(case), signing_key=KEY, quick=True)
    assert not report.refuted, str(report)
    states = found(report)
    assert states["signature"] is states["files"] is Status.KEPT
    assert states["certificate"] is states["parameters"] is Status.KEPT
    if case in ASKED:
        assert states["sampling"] is Status.KEPT
    if case in ASKED and case != "voting-gaussian":
        assert states["small-datasets"] is Status.KEPT
    if case in ("voting-linear", "voting-trees", "averaging-two"):
        # The last step is computed, and uses its promise up.
        (exact,) = (check for check in report.checks if check.name == "exact")
        assert exact.status is Status.KEPT
        assert 0.99 < exact.numbers["share"] <= 1 + 1e-9
    json.loads(report.to_json())
    assert "Nothing was refuted" in report.to_html()


def claim_less(manifest, factor=0.05):
    """Let a certificate promise more than its rules conclude, at every level."""

    def lower(certificate):
        for name in ("epsilon", "rho"):
            if name in certificate["guarantee"]:
                certificate["guarantee"][name] *= factor
        for premise in certificate["premises"]:
            lower(premise)

    lower(manifest["certificate"])


@pytest.mark.parametrize("case", ASKED)
def test_a_promise_that_claims_too_much_is_refuted(case, stored):
    folder = stored(case)
    forge(folder, claim_less)
    report = examine(folder, signing_key=KEY, quick=True)
    assert report.refuted
    states = found(report)
    assert states["signature"] is Status.KEPT  # it was signed, and is wrong
    assert states["certificate"] is Status.REFUTED
    if case.startswith("voting") or case == "averaging-two":
        assert states["exact"] is Status.REFUTED
    if case != "voting-gaussian":
        assert states["small-datasets"] is Status.REFUTED
    if case in ("voting-linear", "voting-scaled-three", "voting-trees"):
        assert states["sampling"] is Status.REFUTED
    page = report.to_html()
    assert "The promise is broken" in page
    assert "claimed, and refuted" in page


def test_noisier_claims_than_drawn_are_refuted_by_samples_alone(stored):
    # The certificate follows from its rules, but the model draws by another epsilon.
    folder = stored("averaging-number")

    def louder(manifest):
        manifest["parameters"]["epsilon"] = 5.0

    forge(folder, louder)
    states = found(examine(folder, signing_key=KEY, quick=True))
    assert states["certificate"] is Status.KEPT
    assert states["parameters"] is Status.REFUTED
    assert states["sampling"] is Status.REFUTED


@pytest.mark.parametrize("case", ["voting-linear", *RELEASED])
def test_a_changed_model_is_refuted(case, stored):
    folder = stored(case)
    array = next(folder.glob("*.npy"))
    content = bytearray(array.read_bytes())
    content[-1] ^= 1
    write(array, bytes(content))
    assert found(examine(folder, signing_key=KEY, quick=True))["files"] is (
        Status.REFUTED
    )


def test_a_stranger_s_signature_is_refuted(stored):
    report = examine(stored("voting-linear"), signing_key=new_key(), quick=True)
    assert found(report)["signature"] is Status.REFUTED
    assert found(report)["files"] is Status.NOT_RUN


@pytest.mark.parametrize("damage", ["gone", "garbage", "open"])
def test_a_directory_that_cannot_be_read_is_refuted(damage, stored):
    folder = stored("voting-linear")
    if damage == "gone":
        shutil.rmtree(folder)
    elif damage == "garbage":
        write(folder / "manifest.json", b"\x00garbage")
    else:
        folder.chmod(0o755)
    report = examine(folder, signing_key=KEY, quick=True)
    assert report.refuted
    assert report.certificate is None
    assert "could not be read" in report.to_html()


@pytest.mark.usefixtures("_never_by_chance")
def test_assumptions_are_put_before_a_person(tmp_path):
    from reticent.prediction import PrivateVotingClassifier

    table = table_for(CASES["voting-linear"][0])
    encoder = fitted("voting-linear")[1]
    model = PrivateVotingClassifier(LogisticRegression(), 0.5, n_shards=6)
    model.fit(encoder.transform(table), encoder.schema.classes[table.label])
    folder = tmp_path / "assuming"
    save_model(folder, model, encoder.schema, signing_key=KEY, encoder=encoder)
    report = examine(folder, signing_key=KEY, quick=True)
    assert found(report)["assumptions"] is Status.NOTED
    assert "PUBLIC_LABELS" in str(report)
    assert "if its assumptions hold" in report.to_html()
    assert not report.refuted


@pytest.fixture(scope="module")
def with_records(tmp_path_factory):
    model, encoder, table = fitted("voting-linear")
    folder = tmp_path_factory.mktemp("audited") / "ward"
    save_model(folder, model, encoder.schema, signing_key=KEY, encoder=encoder)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(report_checks, "CONFIDENCE", 1 - ALPHA)
        return examine(folder, signing_key=KEY, records=table, quick=True)


def test_records_are_looked_at_and_attacked(with_records):
    assert not with_records.refuted
    states = found(with_records)
    assert states["records"] is states["attack"] is Status.KEPT
    assert with_records.attack.certificate is not None
    assert with_records.unprotected.certificate is None
    page = with_records.to_html()
    assert "attack on the same learner, unprotected" in page
    assert "keep this page as carefully" in page


TWO, AMOUNT = CASES["released-two"][0], CASES["released-number"][0]
LEARNERS = {
    "gradient": NoisyGradientClassifier(1.0, delta=1e-6, norm_bound=2.0, steps=5),
    "objective": ObjectivePerturbationClassifier(1.0, norm_bound=2.0),
    "output": OutputPerturbationClassifier(1.0, delta=1e-6, norm_bound=2.0),
    "gradient-number": NoisyGradientRegressor(
        1.0, delta=1e-6, bounds=(0, 50), norm_bound=2.0
    ),
    "objective-number": ObjectivePerturbationRegressor(
        1.0, bounds=(0, 50), norm_bound=2.0
    ),
    "output-number": OutputPerturbationRegressor(
        1.0, delta=0.0, bounds=(0, 50), norm_bound=2.0
    ),
}


@pytest.fixture
def _few_games(monkeypatch):
    """Attack in fewer games; which copy is attacked is the question, not how well."""
    sizes = {"games": 10, "shadows": 2, "targets": 1}
    monkeypatch.setattr(
        report_attack,
        "membership_inference",
        lambda model, X, y, **given: membership_inference(model, X, y, **given | sizes),
    )


@pytest.mark.usefixtures("_few_games")
@pytest.mark.parametrize("name", LEARNERS)
def test_copies_of_a_release_are_attacked(name, tmp_path, monkeypatch):
    concentrated = name == "gradient-number"
    monkeypatch.setattr(report_attack, "_CONFIDENCE", 1 - ALPHA)
    schema = AMOUNT if "number" in name else TWO
    table, encoder = table_for(schema), Encoder(schema)
    model = clone(LEARNERS[name])
    if schema is TWO:
        model.set_params(classes=TWO.classes.tolist())
    y = table.label if schema is AMOUNT else schema.classes[table.label]
    model.fit(encoder.transform(table), y)
    save_model(
        tmp_path / "released",
        model,
        schema,
        signing_key=KEY,
        encoder=encoder,
        concentrated=concentrated,
    )
    report = examine(tmp_path / "released", signing_key=KEY, records=table, quick=True)
    assert found(report)["attack"] is Status.KEPT
    attacked, stored = report.attack.certificate, report.certificate
    assert {step.rule for step in attacked.walk()} & {
        step.rule for step in stored.walk()
    }
    if not concentrated:
        promised = pytest.approx(stored.guarantee.epsilon)
        assert attacked.guarantee.epsilon == promised


@pytest.mark.parametrize("rho", [1e-4, 0.028, 2.0])
def test_the_copy_of_a_concentrated_release_has_its_noise(rho):
    epsilon = report_attack._epsilon_of(rho)
    ratio = gaussian_ratio(epsilon, report_attack._DELTA)
    assert ratio**2 / 2 == pytest.approx(rho, rel=1e-6)


def test_no_record_is_in_the_report(with_records):
    table = fitted("voting-linear")[2]
    text = with_records.to_html() + with_records.to_json()
    # Full precision makes every age and dose a canary.
    values = {repr(float(v)) for v in table.numbers.ravel() if np.isfinite(v)}
    assert len(values) > 400
    assert not [value for value in values if value in text]


def test_records_of_another_kind_are_refused(stored, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidDataError):
        examine(stored("voting-linear"), signing_key=KEY, records=other, quick=True)


@pytest.mark.usefixtures("_never_by_chance")
def test_an_encrypted_model_needs_its_key(tmp_path, stored):
    model, encoder, _ = fitted("voting-linear")
    folder, secret = tmp_path / "sealed", new_key("aes-256-gcm")
    save_model(
        *(folder, model, encoder.schema),
        signing_key=KEY,
        encoder=encoder,
        encryption_key=secret,
    )
    with pytest.raises(InvalidParameterError, match="encryption key"):
        examine(folder, signing_key=KEY, quick=True)
    with pytest.raises(InvalidParameterError, match="not encrypted"):
        examine(stored("voting-linear"), signing_key=KEY, encryption_key=secret)
    report = examine(folder, signing_key=KEY, encryption_key=secret, quick=True)
    assert not report.refuted


def test_reports_are_written_for_their_owner_alone(with_records, tmp_path):
    paths = with_records.write(tmp_path / "out")
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert paths[1].read_text() == with_records.to_json()
    with_records.write(tmp_path / "out")  # again, over the old one


VOID = {"meta", "br", "hr", "img", "link", "input"}


class Strict(HTMLParser):
    """Notes whatever a page does wrong: tags, ids, references, names for pictures."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.wrong, self.named = [], [], [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if len(given) != len(attrs):
            self.wrong.append(f"{tag} repeats an attribute")
        if "id" in given:
            self.ids.append(given["id"])
        self.named += given.get("aria-labelledby", "").split()
        fetched = [given[name] for name in ("src", "href") if name in given]
        if fetched or tag == "script":
            self.wrong.append(f"{tag} fetches {fetched}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes another")


def faults(page):
    reader = Strict()
    reader.feed(page)
    reader.close()
    twice = [name for name in reader.ids if reader.ids.count(name) > 1]
    missing = set(reader.named) - set(reader.ids)
    return [*reader.wrong, *reader.open, *twice, *missing]


@pytest.mark.parametrize("case", ["voting-linear", "averaging-number", "released-two"])
def test_pages_are_valid_and_need_no_other_file(case, stored):
    report = examine(stored(case), signing_key=KEY, quick=True, name='<b>"&x')
    page = report.to_html()
    assert faults(page) == []
    assert "<b>" not in page.replace("<figcaption><b>", "")
    assert not re.findall(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)
    for picture in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        drawn = ElementTree.fromstring(picture)
        spaces = {"s": "http://www.w3.org/2000/svg"}
        assert drawn.get("role") == "img"
        assert drawn.find("s:title", spaces).text
        assert len(drawn.find("s:desc", spaces).text) > 20


def test_the_page_check_notices_mistakes():
    assert faults("<p><b>x</p></b>")
    assert faults('<p id="a"></p><p id="a"></p>')
    assert faults('<p aria-labelledby="nobody"></p>')
    assert faults('<img src="x.png">')
    assert not faults('<p id="a">x</p><section aria-labelledby="a"></section>')


def luminance(colour):
    digits = colour if len(colour) == 6 else "".join(2 * d for d in colour)
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_stands_out_in_light_and_dark(with_records):
    page = with_records.to_html()
    themes = re.findall(r":root \{(.*?)\}", page, re.DOTALL)
    assert len(themes) == 2
    for theme in themes:
        colour = dict(re.findall(r"--([\w-]+): #([0-9a-f]{3,6})", theme))
        pairs = [("ink", "card"), ("ink", "paper"), ("soft", "paper"), ("soft", "card")]
        pairs += [(mood, f"{mood}-wash") for mood in ("fine", "warn", "bad")]
        pairs += [("ink", "fine-wash"), ("ink", "bad-wash"), ("main", "card")]
        for text, behind in pairs:
            one, two = sorted(luminance(colour[name]) for name in (text, behind))
            assert (two + 0.05) / (one + 0.05) >= 4.5, (text, behind)


def test_best_guess_is_the_classical_one():
    answer = claim(PureDP(1.0), ReplaceOne(9), Scope.ANSWER, statement="for a test")
    share = np.exp(1.0) / (1 + np.exp(1.0))
    assert share <= best_guess(trade_off(answer)) < share + 1e-3


def test_a_report_says_what_many_answers_promise(with_records):
    guesses = dict(with_records.guesses())
    assert list(guesses) == sorted(guesses)
    assert list(guesses.values()) == sorted(guesses.values())
    total = with_records.promise(100).guarantee
    assert total.epsilon > with_records.certificate.guarantee.epsilon
    assert isinstance(with_records, Report)


def test_all_divisions_are_gone_through_or_it_is_said():
    small = VoteStep(lambda votes: soft_vote(votes, 1.0), 7, 3)
    assert len(small.divisions()) == 36  # 7 votes among 3 labels: 9 over 2
    assert small.worst_pair(PureDP(1.0)).complete
    large = VoteStep(lambda votes: soft_vote(votes, 1.0), 5000, 4)
    seen = large.worst_pair(PureDP(1.0))
    assert seen.holds
    assert not seen.complete


def test_a_doubled_vote_is_caught_by_exact_and_by_sampling():
    wrong = VoteStep(lambda votes: soft_vote(2 * np.asarray(votes), 1.0), 20, 2)
    assert not wrong.worst_pair(PureDP(1.0)).holds
    left, right = wrong.pair(20_000)
    assert sum(abs(a - b) for a, b in zip(left, right, strict=True)) == 2


def test_gaussian_votes_are_checked_by_their_concentration():
    vote = VoteRule("gaussian", 3.0)
    step = last_step(
        "voting",
        {"rule": "gaussian", "parameter": 3.0, "n_shards": 15, "classes": [0, 1]},
    )
    promised = vote.certificate(100).guarantee
    assert isinstance(promised, ZCDP)
    assert step.worst_pair(promised).holds
    assert not step.worst_pair(ZCDP(promised.rho / 30)).holds


def test_bars_reach_as_far_as_what_they_show():
    drawn = ElementTree.fromstring(
        bars_picture([("a", 1.0, "found"), ("b", 0.5, "over")], 0.5)
    )
    widths = [
        float(bar.get("width"))
        for bar in drawn.iter("{http://www.w3.org/2000/svg}rect")
    ]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)
