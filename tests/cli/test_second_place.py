"""The second place lies outside the home: a restored backup of the home is refused."""

import json
import os
import shutil
import stat

import pytest

from reticent.cli.main import main
from reticent.errors import BudgetExhaustedError, InvalidParameterError, LedgerError
from reticent.guarantees import Budget
from reticent.home import Home
from reticent.home.on_disk.second_place import second_place_risk
from reticent.ledger import AccountId, AccountScope, Cap, Charge, Request

DATASET = AccountId(AccountScope.DATASET, "census")
CAP = 4


@pytest.fixture
def home(tmp_path):
    made = Home.at(tmp_path / "home")
    made.open_dataset("census", Budget(float(CAP)))
    with made.settings().open_ledger() as ledger:
        ledger.open_account(DATASET, Cap.basic(epsilon=float(CAP)))
    return made


def spend(home, *keys):
    """Draw one answer per key."""
    with home.settings().open_ledger() as ledger:
        for key in keys:
            receipt = ledger.charge(
                Request(
                    key=key,
                    accounts=(DATASET,),
                    charge=Charge.loss(epsilon=1.0, certificate="one"),
                    queries=(key.encode(),),
                )
            )
            ledger.settle(receipt, [b"yes"])


def back_up(home):
    copy = home.path.with_name("backup")
    shutil.copytree(home.path, copy)
    return copy


def restore(home, copy):
    shutil.rmtree(home.path)
    shutil.copytree(copy, home.path)


def as_an_older_version_left_it(home):
    """Put the second place into the home."""
    inside = home.path / "checkpoints.json"
    found = json.loads(home.config.read_text())
    outside = found["checkpoints"]
    shutil.move(outside, inside)
    found["checkpoints"] = str(inside)
    del found["home_format"]
    home.config.write_text(json.dumps(found))
    return inside


def test_restored_home_is_refused(home):
    spend(home, "a")
    copy = back_up(home)
    spend(home, "b", "c", "d")
    restore(home, copy)
    with pytest.raises(LedgerError, match="an older copy was put in its place"):
        spend(home, "e")


def test_restored_home_goes_on_when_its_budget_is_written_off(home):
    spend(home, "a")
    copy = back_up(home)
    spend(home, "b")
    restore(home, copy)
    words = ["ledger", "write-off", "--reason", "a backup was restored"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--home", str(home.path)])
    assert ended.value.code == 0
    with pytest.raises(BudgetExhaustedError):
        spend(home, "c")


def test_second_place_is_the_users_folder_for_state(home, monkeypatch, tmp_path):
    place = home.settings().second_place
    assert place.is_relative_to(os.environ["XDG_STATE_HOME"])
    assert not place.is_relative_to(home.path)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    # Another home has another one; a relative path does not count.
    other = Home.at(tmp_path / "other")
    monkeypatch.setenv("XDG_STATE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    other.open_dataset("census", Budget(1.0))
    assert (
        tmp_path / "user" / ".local" / "state"
    ) in other.settings().second_place.parents
    assert other.settings().second_place.parent.name != place.parent.name


def test_second_place_goes_to_another_disk_if_there_is_one(tmp_path, monkeypatch):
    from reticent.home.on_disk import second_place

    monkeypatch.setattr(second_place, "_SYSTEM", tmp_path)
    monkeypatch.setattr(
        second_place, "on_one_disk", lambda place, home: place != tmp_path
    )
    found = second_place.default_second_place(tmp_path / "home", b"s" * 32)
    assert found.is_relative_to(tmp_path / "reticent")


def test_home_of_an_older_version_is_moved_and_then_protected(home, caplog):
    inside = as_an_older_version_left_it(home)
    spend(home, "a")
    assert "moved to" in caplog.text
    assert "restored backup" in caplog.text
    place = home.settings().second_place
    assert not place.is_relative_to(home.path)
    assert place.exists()
    copy = back_up(home)
    spend(home, "b")
    restore(home, copy)
    with pytest.raises(LedgerError, match="an older copy"):
        spend(home, "c")
    assert inside.exists()  # another process may still use it


def test_backup_from_before_the_move_is_refused_too(home):
    as_an_older_version_left_it(home)
    copy = back_up(home)
    spend(home, "a", "b")
    restore(home, copy)
    with pytest.raises(LedgerError, match="an older copy"):
        spend(home, "c")


def test_warnings_name_the_risk(tmp_path):
    ledger = f"sqlite:///{tmp_path / 'home' / 'ledger.db'}"
    (tmp_path / "home").mkdir()
    inside = second_place_risk(ledger, tmp_path / "home" / "deep" / "c.json")
    assert "in the ledger's own folder" in inside
    beside = second_place_risk(ledger, tmp_path / "state" / "c.json")
    assert "on the same disk" in beside
    assert "can be spent again" in second_place_risk(ledger, None)
    assert second_place_risk("postgresql://host/x", tmp_path / "c.json") is None


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs a second disk")
def test_another_disk_has_no_risk(tmp_path):
    from pathlib import Path

    ledger = f"sqlite:///{tmp_path}/ledger.db"
    if tmp_path.stat().st_dev == Path("/dev/shm").stat().st_dev:
        pytest.skip("the tests themselves are on it")
    assert second_place_risk(ledger, Path("/dev/shm/c.json")) is None


def test_home_keeps_what_it_was_told(tmp_path):
    made = Home.at(tmp_path / "home", second_place=tmp_path / "there.json")
    made.open_dataset("census", Budget(1.0))
    assert made.settings().second_place == tmp_path / "there.json"


@pytest.mark.parametrize("mode", [0o602, 0o622, 0o666])
def test_settings_that_others_can_change_are_refused(home, mode):
    home.config.chmod(mode)
    with pytest.raises(InvalidParameterError, match="others can change it"):
        home.settings()


def test_links_are_refused(home, tmp_path):
    real = home.config.rename(tmp_path / "real.json")
    home.config.symlink_to(real)
    with pytest.raises(InvalidParameterError, match="symbolic link"):
        home.settings()
    home.config.unlink()
    real.rename(home.config)
    link = tmp_path / "link"
    link.symlink_to(home.path)
    with pytest.raises(InvalidParameterError, match="symbolic link"):
        Home.existing(link)
    ledger = home.path / "ledger.db"
    ledger.rename(tmp_path / "moved.db")
    ledger.symlink_to(tmp_path / "moved.db")
    with pytest.raises(LedgerError, match="symbolic link"):
        spend(home, "a")


def test_loose_second_place_is_refused(home, tmp_path):
    place = home.settings().second_place
    place.chmod(0o644)
    with pytest.raises(LedgerError, match="set it to 600"):
        spend(home, "a")
    place.chmod(0o600)
    place.parent.chmod(0o777)
    with pytest.raises(LedgerError, match="others can replace its files"):
        spend(home, "a")
    place.parent.chmod(0o700)
    moved = place.rename(tmp_path / "elsewhere.json")
    place.symlink_to(moved)
    with pytest.raises(LedgerError, match="symbolic link"):
        spend(home, "a")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_other_users_are_refused(home):
    place = home.settings().second_place
    for path in (home.path / "ledger.db", place, home.config):
        os.chown(path, 12345, -1)
        with pytest.raises((LedgerError, InvalidParameterError), match="uid=12345"):
            spend(home, "a")
        os.chown(path, os.geteuid(), -1)
    spend(home, "a")


def test_folder_of_the_ledger_that_others_can_write_to_is_refused(home):
    settings = home.settings()
    home.path.chmod(0o703)
    with pytest.raises(LedgerError, match="others can replace its files"):
        settings.open_ledger()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_groups_of_several_users_may_not_write(home):
    home.config.chmod(0o620)
    home.settings()  # the group has our own name and nobody else in it
    os.chown(home.config, -1, 12345)
    with pytest.raises(InvalidParameterError, match="others can change it"):
        home.settings()


@pytest.mark.parametrize("epsilon", ['"1"', "true", "NaN", '1, "epsilon": 9'])
def test_settings_are_read_strictly(home, epsilon):
    text = home.config.read_text()
    assert '"epsilon": 4.0' in text
    home.config.write_text(text.replace('"epsilon": 4.0', f'"epsilon": {epsilon}'))
    with pytest.raises(InvalidParameterError, match=r"twice|number|NaN"):
        home.settings()


def test_variables_are_read_strictly(home, monkeypatch):
    monkeypatch.setenv("RETICENT_DATASETS", '{"a": {"epsilon": 1, "epsilon": 9}}')
    with pytest.raises(InvalidParameterError, match="twice"):
        home.settings()


@pytest.mark.parametrize("client", ["../x", "a/b", "", ".", "a b", "-x", "x" * 65])
def test_clients_have_plain_names(home, client):
    from reticent.home import Role, client_account

    with pytest.raises(InvalidParameterError, match="client must be"):
        client_account(client)
    with pytest.raises(InvalidParameterError, match="client must be"):
        home.new_key(client, Role.ANALYST)
    with home.settings().open_ledger() as ledger:
        assert len(ledger.balances()) == 1
