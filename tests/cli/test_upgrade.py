"""A home of an older format is upgraded and verified, or left as it was.

The folder `format_1` was written by the last reticent whose homes had no number: a
model to ask, a released one, one of model format 1, three keys, answers and charges.
`known.json` says what that version knew.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reticent.cli.main import main
from reticent.errors import LedgerError, ReticentError
from reticent.home import Home, answer_rows
from reticent.home.on_disk import upgrade as upgrading
from tests.test_layout import ROOT

STORED = Path(__file__).parent / "format_1"
KNOWN = json.loads((STORED / "known.json").read_text("utf-8"))
# What may lie about afterwards; the next upgrade writes it again.
SCRATCH = {
    *("upgrade.lock", "service.upgraded.json", "service.upgraded.new"),
    *(f"upgrade.db{end}" for end in ("", "-wal", "-shm", "-journal")),
    *("anchor", "identity.json", "identity.json.new"),
}


def unpacked(folder):
    """Copy the stored home to where only its owner can read it."""
    for path in (STORED, *sorted(STORED.rglob("*"))):
        target = folder / path.relative_to(STORED)
        if path.is_dir():
            target.mkdir(mode=0o700)
        else:
            shutil.copyfile(path, target)
            target.chmod(0o600)
    return folder / "home"


def before_second_places(home):
    """Make a home as still older versions did: checkpoints inside, absolute paths."""
    config = home / "service.json"
    found = json.loads(config.read_text().replace("{here}", str(home)))
    shutil.move(home.parent / "second" / "checkpoint.json", home / "checkpoints.json")
    found["checkpoints"] = str(home / "checkpoints.json")
    del found["identity"]
    (home / "identity.json").unlink()
    config.write_text(json.dumps(found))


@pytest.fixture(params=["the last", "the first"])
def old(request, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    home = unpacked(tmp_path / "stored")
    if request.param == "the first":
        before_second_places(home)
    return home


def bytes_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def adopted(path):
    home = Home.existing(path)
    home.adopt()  # what is unpacked from an archive is a copy
    return home


def check_whole(path):
    """Compare a home with what the version that wrote it knew."""
    home = adopted(path)
    settings = home.settings()
    with settings.open_ledger() as ledger:
        found = ledger.verify()
        assert (found.entries, found.head) == (KNOWN["entries"], KNOWN["head"])
        spent = {str(b.account): list(b.spent) for b in ledger.balances()}
    assert spent == KNOWN["balances"]
    for name, told in KNOWN["answers"].items():
        model = settings.load_model(name)
        assert (model.id, model.certificate.id) == (told["id"], told["certificate"])
        with home.open_model(name, client="ward-7") as (ledger, served):
            table = served.stored.schema.rows(told["rows"])
            paid = answer_rows(
                ledger, served, table, client="ward-7", key=f"key-{name}"
            )
            assert [answer.decode() for answer in paid.answers] == told["said"]
            assert ledger.verify().head == KNOWN["head"]  # paid for already
    with settings.open_keyring() as keyring:
        known = {
            client: keyring.recognise(key) for client, key in KNOWN["keys"].items()
        }
    assert known.pop("gone") is None
    assert {client: found.client for client, found in known.items()} == {
        "ward-7": "ward-7",
        "desk": "desk",
    }


def test_a_home_of_the_last_format_is_upgraded_and_verified(old, capsys):
    before = bytes_of(old)
    check_whole(old)
    found = json.loads((old / "service.json").read_text())
    assert found["home_format"] == 2
    assert str(old) not in json.dumps(found)
    assert not (old / ".upgrade.db").exists()
    changed = {name for name in before if before[name] != (old / name).read_bytes()}
    assert changed <= {"service.json", "identity.json"}
    with pytest.raises(SystemExit) as ended:
        main(["ledger", "verify", "--home", str(old)])
    assert ended.value.code == 0
    assert f"{KNOWN['entries']} entries" in capsys.readouterr().out


def test_a_home_of_this_format_is_not_written_again(old):
    adopted(old).settings()
    before = bytes_of(old)
    Home.existing(old).settings()
    assert bytes_of(old) == before


@pytest.mark.parametrize("number", [0, 3, "2", True, None])
def test_a_format_that_is_not_known_is_refused(tmp_path, number):
    home = unpacked(tmp_path / "stored")
    config = home / "service.json"
    found = {**json.loads(config.read_text()), "home_format": number}
    config.write_text(json.dumps(found))
    with pytest.raises(LedgerError, match=r"not one of the formats 1 to 2 .* newer"):
        Home.existing(home).settings()


def test_new_homes_have_the_newest_format():
    assert len(upgrading.STEPS) == upgrading.HOME_FORMAT - 1


def broken_model(home):
    path = home / "models" / "first" / "weights.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")


def broken_ledger(home):
    path = home / "ledger.db"
    path.write_bytes(path.read_bytes().replace(b"ward-7", b"ward-8"))


def broken_settings(home):
    path = home / "service.json"
    path.write_text(path.read_text().replace('"datasets"', '"datasset"'))


@pytest.mark.parametrize("harm", [broken_model, broken_ledger, broken_settings])
def test_what_does_not_verify_is_not_upgraded(old, harm):
    harm(old)
    before = bytes_of(old)
    with pytest.raises(ReticentError, match="not upgraded, and nothing of it"):
        Home.existing(old).settings()
    after = bytes_of(old)
    assert {name: after[name] for name in before} == before
    assert {name.removeprefix(".") for name in after.keys() - before.keys()} <= SCRATCH


# Runs an upgrade that ends, or fails, at its n-th change of a file; says whether it got
# that far. Python tells of each before it happens.
FAILING = """
import json, os, sys
from reticent.home import Home

left, how, changes = None, None, ("os.rename", "os.mkdir", "os.remove", "os.truncate")

def told(event, arguments):
    global left
    writing = event == "open" and isinstance(arguments[2], int) and arguments[2] & 3
    database = event == "sqlite3.connect"
    if left is None or not (writing or database or event in changes):
        return
    left -= 1
    if left == 0:
        if how == "killed":
            os._exit(9)
        raise OSError(28, "No space left on device")

sys.addaudithook(told)
for line in sys.stdin:
    home, how, number = json.loads(line)
    child = os.fork()
    if child == 0:
        place = Home.existing(home)
        left = number
        try:
            place.settings()
        except Exception:
            os._exit(8)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.parametrize("how", ["killed", "failed"])
def test_an_upgrade_that_fails_anywhere_leaves_the_old_home(how, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with subprocess.Popen(
        [sys.executable, "-c", FAILING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:

        def upgraded(home, number):
            process.stdin.write(json.dumps([str(home), how, number]) + "\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        for number in range(1, 100, 1 if how == "killed" else 4):
            home = unpacked(tmp_path / f"home-{number}")
            before_second_places(home)
            before = bytes_of(home)
            code = upgraded(home, number)
            if code == 0:
                break
            after = bytes_of(home)
            assert code == (9 if how == "killed" else 8)
            assert {name: after[name] for name in before} == before
            assert {
                name.removeprefix(".") for name in after.keys() - before.keys()
            } <= (SCRATCH)
            if number % 4 == 0:
                check_whole(home)  # the next one finds nothing in its way
        process.stdin.close()
    assert number > 10
    assert json.loads((home / "service.json").read_text())["home_format"] == 2
