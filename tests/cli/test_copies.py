"""Copied homes refuse to spend until one of them is chosen; moved homes work."""

import json
import os
import shutil

import pytest

from reticent.cli.main import main
from reticent.errors import LedgerError
from reticent.guarantees import Budget
from reticent.home import Home
from reticent.ledger import AccountId, AccountScope, Cap, Charge, Request

DATASET = AccountId(AccountScope.DATASET, "census")


@pytest.fixture
def home(tmp_path):
    made = Home.at(tmp_path / "home")
    made.open_dataset("census", Budget(4.0))
    with made.settings().open_ledger() as ledger:
        ledger.open_account(DATASET, Cap.basic(epsilon=4.0))
    return made


def spend(path, key):
    with Home.existing(path).settings().open_ledger() as ledger:
        receipt = ledger.charge(
            Request(
                key=key,
                accounts=(DATASET,),
                charge=Charge.loss(epsilon=1.0, certificate="one"),
                queries=(key.encode(),),
            )
        )
        ledger.settle(receipt, [b"yes"])


def run(*words, code=0):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code == code


@pytest.mark.parametrize("copy", [shutil.copytree, "cp -a", "cp -r", "tar"])
def test_a_copy_refuses_to_spend_and_the_original_goes_on(home, copy, tmp_path):
    spend(home.path, "a")
    other = tmp_path / "other"
    if copy == "tar":
        other.mkdir(mode=0o700)
        os.system(f"tar -C {home.path} -cf - . | tar -C {other} -xpf -")
    elif callable(copy):
        copy(home.path, other)
    else:
        os.system(f"{copy} {home.path} {other}")
        other.chmod(0o700)
    with pytest.raises(LedgerError, match=r"is a copy of the home at .*home adopt"):
        spend(other, "b")
    spend(home.path, "b")


def test_what_is_adopted_goes_on_and_the_other_is_retired(home, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(home.path, other)
    run("home", "adopt", "--home", other)
    assert "stays in use" in capsys.readouterr().out
    spend(other, "b")
    with pytest.raises(LedgerError, match=r"retired on .* a copy of it, at .*other"):
        spend(home.path, "c")
    # The ledger of the retired home can still be looked at.
    shutil.rmtree(other)
    run("home", "adopt", "--home", home.path)
    with pytest.raises(LedgerError, match="older copy"):  # what the other spent is gone
        spend(home.path, "c")


def test_the_retired_home_can_be_chosen_again_before_anything_is_spent(home, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(home.path, other)
    run("home", "adopt", "--home", other)
    run("home", "adopt", "--home", home.path)
    spend(home.path, "a")
    with pytest.raises(LedgerError, match=r"retired|older copy"):
        spend(other, "b")


def test_a_copy_can_be_looked_at(home, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(home.path, other)
    run("ledger", "show", "--home", other)
    assert "dataset:census" in capsys.readouterr().out
    run("home", "show", "--home", other, code=1)
    assert "copy" in capsys.readouterr().err
    run("keys", "create", "ward", "--home", other, code=1)
    assert "home adopt" in capsys.readouterr().err


def test_a_moved_home_works(home, tmp_path):
    spend(home.path, "a")
    for name in ("moved", "again"):
        home.path.rename(tmp_path / name) if name == "moved" else os.rename(
            tmp_path / "moved", tmp_path / name
        )
        spend(tmp_path / name, name)
    assert str(tmp_path / "home") not in (tmp_path / "again/service.json").read_text()


def test_a_new_home_in_the_old_place_of_a_moved_one_disturbs_nobody(home, tmp_path):
    spend(home.path, "a")
    home.path.rename(tmp_path / "moved")
    fresh = Home.at(home.path)
    fresh.open_dataset("census", Budget(4.0))
    with fresh.settings().open_ledger() as ledger:
        ledger.open_account(DATASET, Cap.basic(epsilon=4.0))
    spend(tmp_path / "moved", "b")
    spend(fresh.path, "b")


def test_a_snapshot_of_the_disk_is_a_copy(home, tmp_path):
    # It keeps inodes and times, so the anchor alone does not tell.
    other = tmp_path / "other"
    shutil.copytree(home.path, other)
    found = json.loads((other / "identity.json").read_text())
    stat = (other / "anchor").stat()
    found["anchor"] = [stat.st_ino, stat.st_ctime_ns]
    (other / "identity.json").write_text(json.dumps(found))
    with pytest.raises(LedgerError, match="is a copy of the home at"):
        spend(other, "a")


def test_a_home_that_moved_to_another_disk_works(home, tmp_path):
    # Such a move copies everything and then deletes it.
    other = tmp_path / "other"
    shutil.copytree(home.path, other)
    shutil.rmtree(home.path)
    spend(other, "a")
    spend(other, "b")


def test_a_home_from_another_machine_must_be_adopted(home, tmp_path, monkeypatch):
    other = tmp_path / "other"
    shutil.copytree(home.path, other)
    shutil.rmtree(home.path)
    monkeypatch.setattr("reticent.home.on_disk.identity._machine", lambda: "another")
    with pytest.raises(LedgerError, match="home adopt"):
        spend(other, "a")
    run("home", "adopt", "--home", other)
    spend(other, "a")


def test_the_home_of_an_older_version_becomes_movable(home, tmp_path):
    text = home.config.read_text().replace("{here}", str(home.path))
    found = json.loads(text)
    del found["identity"], found["home_format"]
    home.config.write_text(json.dumps(found))
    (home.path / "identity.json").unlink()
    (home.path / "anchor").unlink()
    copied = tmp_path / "copied"
    shutil.copytree(home.path, copied)
    spend(home.path, "a")
    assert str(home.path) not in home.config.read_text().replace(
        found["checkpoints"], ""
    )
    # Its copy would have used the ledger of the original.
    with pytest.raises(LedgerError, match="whose ledger it would use"):
        spend(copied, "b")
    home.path.rename(tmp_path / "moved")
    spend(tmp_path / "moved", "c")


def test_a_home_without_its_identity_is_refused(home):
    (home.path / "identity.json").write_text("{")
    with pytest.raises(LedgerError, match="missing or damaged"):
        spend(home.path, "a")
