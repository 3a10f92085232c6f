"""Acts of the command line are in the ledger's chain; keys rotate and expire."""

import json

import pytest

from reticent.cli.main import main
from reticent.guarantees import Budget
from reticent.home import Home, Role
from reticent.ledger import AccountId, AccountScope, Cap


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Home.at(tmp_path / "home")
    made.open_dataset("census", Budget(4.0))
    with made.settings().open_ledger() as ledger:
        census = AccountId(AccountScope.DATASET, "census")
        ledger.open_account(census, Cap.basic(epsilon=4.0))
    return made


def run(home, *words, code=0):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words), "--home", str(home.path)])
    assert ended.value.code == code


def acts(home):
    with home.settings().open_ledger() as ledger:
        ledger.verify()
        found = [each.content() for each in ledger.entries() if each.kind == "act"]
    assert {each["by"] for each in found} <= {"command line"}
    return [(each["act"], each["facts"]) for each in found]


def recognised(home, *keys):
    with home.settings().open_keyring() as keyring:
        return [keyring.recognise(key) for key in keys]


def test_a_key_is_rotated_and_its_user_can_change_over(home, capsys):
    old, record = home.new_key("ward-7", Role.ADMIN, days=30)
    run(home, "keys", "rotate", record.id, "--json")
    new = json.loads(capsys.readouterr().out)
    assert new["replaces"] == record.id
    first, second = recognised(home, old, new["key"])
    assert (first.client, first.role) == (second.client, second.role)
    assert second.expires - second.created == 30 * 86_400
    run(home, "keys", "revoke", record.id)
    first, second = recognised(home, old, new["key"])
    assert (first, second.id) == (None, new["id"])
    run(home, "keys", "list")
    assert "never" not in capsys.readouterr().out
    assert [act for act, _ in acts(home)] == [
        "key created",
        "key created",
        "key revoked",
    ]


def test_a_key_is_rotated_at_once(home, capsys):
    old, record = home.new_key("ward-7", Role.ANALYST)
    run(home, "keys", "rotate", record.id, "--days", 7, "--at-once", "--json")
    new = json.loads(capsys.readouterr().out)
    first, second = recognised(home, old, new["key"])
    assert first is None
    assert second.expires - second.created == 7 * 86_400
    # What is gone is not rotated, and what never was is not known.
    run(home, "keys", "rotate", record.id, code=2)
    assert "is no longer valid" in capsys.readouterr().err
    run(home, "keys", "revoke", "0" * 16, code=2)
    run(home, "keys", "rotate", "0" * 16, code=2)
    assert len(acts(home)) == 3


@pytest.mark.parametrize(
    "words",
    [
        ("--epsilon", "1e308"),
        ("--epsilon", "1", "--delta", "2"),
        ("--epsilon", "nan"),
        ("--epsilon", "inf"),
    ],
)
def test_a_cap_that_is_refused_is_no_act(home, words):
    with home.settings().open_ledger() as ledger:
        account = AccountId(AccountScope.CLIENT, "ward")
        ledger.open_account(account, Cap.zcdp(epsilon=4.0, delta=1e-6))
    before = home.settings().datasets["census"]
    run(home, "accounts", "cap", "dataset:census", *words, code=2)
    # Its method is another one, and would have no delta.
    run(home, "accounts", "cap", "client:ward", "--epsilon", 1, "--delta", 0, code=2)
    assert acts(home) == []
    assert home.settings().datasets["census"] == before


def test_caps_are_acts(home, capsys):
    run(home, "accounts", "cap", "dataset:census", "--epsilon", 3)
    assert acts(home) == [
        ("cap set", {"account": "dataset:census", "cap": str(Budget(3.0))}),
    ]
    capsys.readouterr()
    run(home, "ledger", "history")
    told = capsys.readouterr().out
    assert "cap set" in told
    assert "command line" in told
