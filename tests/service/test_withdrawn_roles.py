"""A role that a provider withdraws opens nothing here after `recheck_minutes`."""

import functools
import re
from contextlib import contextmanager

import httpx
import pytest

from reticent.errors import InvalidParameterError
from reticent.home import OidcSettings
from reticent.service.dashboard import board
from reticent.service.dashboard.sessions import COOKIE, Sessions
from tests.service.clinic import clinic, settings_for, store
from tests.service.real_provider import log_in_at, real_provider, registered
from tests.service.test_sign_in import CALLBACK, Browser, oidc
from tests.service.wayward_provider import wayward_provider

MINUTES = 4


@pytest.fixture
def now(monkeypatch):
    """The time that logins go by, which tests move."""
    seconds = [1_800_000_000.0]
    clocked = functools.partial(Sessions, clock=lambda: seconds[0])
    monkeypatch.setattr(board, "Sessions", clocked)
    return seconds


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return store(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def provider():
    """The provider from PyPI, as its own program."""
    with real_provider() as address:
        yield address


@contextmanager
def served(provider, folder, path, minutes):
    name, secret = registered(provider, CALLBACK, folder)
    known = {"client_id": name, "client_secret_file": secret}
    given = oidc(provider, **known, recheck_minutes=minutes)
    settings = settings_for(folder, models={"triage": path}, oidc=given)
    with clinic(settings) as made:
        made.provider = provider
        yield made


@pytest.fixture
def running(provider, tmp_path, path, now):
    with served(provider, tmp_path, path, MINUTES) as made:
        yield made


def told(provider, *roles):
    claims = {"name": "Ada", "roles": list(roles)}
    httpx.put(f"{provider}/users/ada", json=claims).raise_for_status()


def logged_in(running):
    browser = Browser(running)
    page = browser.come_back(log_in_at(browser.leave(), "ada"))
    assert page.status_code == 200, page.text
    return browser


def token(page):
    return re.search(r'name="csrf" value="(\w+)"', page.text)[1]


def acts(running):
    entries = running.service.ledger.entries()
    return [each.content()["act"] for each in entries if each.kind == "act"]


def test_a_withdrawn_role_opens_nothing_after_its_time(running, now):
    told(running.provider, "privacy")
    browser = logged_in(running)
    open_form = token(browser.get("/keys"))
    told(running.provider, "guest")
    # Until the time is over the earlier word holds.
    now[0] += MINUTES * 60 / 2 - 1
    assert browser.get("/keys").status_code == 200
    # Then the browser is sent to the provider, which no longer names the role.
    now[0] += 2
    away = browser.get("/keys")
    assert away.status_code == 303
    assert away.headers["location"].startswith(f"{running.provider}/oauth2/authorize")
    kept = dict(browser.cookies)
    page = browser.come_back(log_in_at(away.headers["location"], "ada"))
    assert page.status_code == 403
    assert "no role here" in page.text
    assert COOKIE not in browser.cookies
    # Who keeps the cookie and does not go there is no better off.
    stubborn = Browser(running)
    stubborn.cookies = kept
    now[0] += MINUTES * 60 / 2
    fields = {"csrf": open_form, "client": "ward-9"}
    refused = stubborn._take("POST", "/keys", data=fields)
    assert (refused.status_code, refused.headers["location"]) == (303, "/login")
    assert stubborn.get("/keys").headers["location"].startswith(running.provider)
    assert "ward-9" not in str(running.service.keyring.store.all())


@pytest.mark.parametrize(("minutes", "later"), [(MINUTES, -1), (60, 0)])
def test_within_its_time_the_last_word_of_the_provider_holds(
    provider, tmp_path, path, now, minutes, later
):
    """The negative control: what the test above refuses is not refused by chance."""
    with served(provider, tmp_path, path, minutes) as running:
        told(provider, "privacy")
        browser = logged_in(running)
        form = token(browser.get("/keys"))
        told(provider, "guest")
        now[0] += MINUTES * 60 + later
        fields = {"csrf": form, "client": "ward-10"}
        assert "The new key" in browser._take("POST", "/keys", data=fields).text


def test_a_role_that_holds_is_named_again_and_the_login_goes_on(running, now):
    told(running.provider, "privacy")
    browser = logged_in(running)
    began, logins = now[0], acts(running).count("admin logged in")
    form = token(browser.get("/keys"))
    for _ in range(3):
        now[0] += MINUTES * 60 * 0.6
        away = browser.get("/ledger?page=1")
        page = browser.come_back(log_in_at(away.headers["location"], "ada"))
        assert 'content="0;url=/ledger?page=1"' in page.text
        assert browser.get("/ledger?page=1").status_code == 200
    # A form that was open all the time can still be sent, and one login is one act.
    fields = {"csrf": form, "client": "ward-11"}
    assert "The new key" in browser._take("POST", "/keys", data=fields).text
    assert acts(running).count("admin logged in") == logins
    # Checks do not make a login longer.
    while now[0] + MINUTES * 60 * 0.6 < began + 3600:
        now[0] += MINUTES * 60 * 0.6
        away = browser.get("/keys")
        if away.status_code == 303:
            browser.come_back(log_in_at(away.headers["location"], "ada"))
    assert browser.get("/keys").status_code == 200
    now[0] = began + 3600
    assert browser.get("/keys").headers["location"] == "/login"


def test_a_role_that_became_smaller_is_the_smaller_one(running, now):
    told(running.provider, "privacy")
    browser = logged_in(running)
    told(running.provider, "research")
    now[0] += MINUTES * 60 * 0.6
    away = browser.get("/keys")
    page = browser.come_back(log_in_at(away.headers["location"], "ada"))
    assert "as analyst" in page.text
    assert browser.get("/keys").status_code == 403


def test_a_provider_that_is_away_is_believed_for_its_time_and_no_longer(
    tmp_path, path, now
):
    with wayward_provider() as provider:
        given = oidc(provider.address, recheck_minutes=MINUTES)
        settings = settings_for(tmp_path, models={"triage": path}, oidc=given)
        with clinic(settings) as running:
            browser = Browser(running)
            browser.come_back(provider.authorize(browser.leave()))
            people = board_of(running)
            people._provider._known = None
            provider.issuer = "https://elsewhere.example"
            now[0] += MINUTES * 60 * 0.6
            assert browser.get("/keys").status_code == 200
            now[0] += MINUTES * 60 * 0.4
            page = browser.get("/keys")
            assert page.status_code == 502
            assert "does not answer as it should" in page.text


def board_of(running):
    """Return what talks to the provider, by the route that leads there."""
    routes = {getattr(each, "path", ""): each for each in running.app.routes}
    return routes["/login/oidc"].endpoint.__self__


def test_a_cookie_of_an_earlier_version_opens_nothing(running, now):
    told(running.provider, "privacy")
    browser = logged_in(running)
    sessions = board_of(running)._board.sessions
    client = sessions._session(FakeRequest(browser.cookies)).person.client
    facts = ["person", [client, "admin", "Ada"], int(now[0]) + 3000, "0" * 32]
    browser.cookies[COOKIE] = sessions._packed("c", facts)
    assert browser.get("/keys").headers["location"] == "/login"


class FakeRequest:
    def __init__(self, cookies):
        self.cookies = cookies


@pytest.mark.parametrize("minutes", [0, -1, 1441, 2.5, "5", True, None])
def test_a_time_that_is_not_possible_is_refused(minutes):
    given = oidc("https://idp.example", recheck_minutes=minutes)
    with pytest.raises(InvalidParameterError, match="recheck_minutes"):
        OidcSettings(**given)
