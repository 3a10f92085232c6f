"""People log in with an OpenID provider; every wrong answer of one is refused.

The first tests run a provider from PyPI, in a process of its own. The others run one
that lies, and that checks the proof of possession (PKCE) of a code.
"""

import re
import time

import httpx
import jwt
import pytest

from reticent.errors import InvalidParameterError
from reticent.home import OidcSettings
from reticent.service.dashboard.sessions import ATTEMPT_COOKIE, COOKIE
from reticent.service.identity.attempts import Attempt
from reticent.service.identity.provider import OpenIdProvider
from reticent.service.identity.tokens import key_named
from reticent.service.requests.problems import ProblemError
from tests.service.clinic import clinic, settings_for, store
from tests.service.real_provider import log_in_at, real_provider, registered
from tests.service.wayward_provider import (
    CURVE,
    KEY,
    OTHER,
    published,
    wayward_provider,
)

CALLBACK = "http://localhost/login/oidc/callback"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return store(tmp_path_factory.mktemp("models"))


def oidc(issuer, **given):
    known = {
        "issuer": issuer,
        "client_id": "reticent",
        "redirect_url": CALLBACK,
        "admins": ["privacy"],
        "analysts": ["research"],
    }
    return {**known, **given}


class Browser:
    """Keeps cookies as a browser does, as far as these tests need it."""

    def __init__(self, running):
        self._http = running.http
        self.cookies = {}

    def get(self, path, **settings):
        return self._take("GET", path, **settings)

    def _take(self, method, path, **settings):
        sent = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = self._http.request(method, path, headers={"cookie": sent}, **settings)
        self._http._client.cookies.clear()
        for line in answer.headers.get_list("set-cookie"):
            name, value = re.match(r"([^=]+)=([^;]*)", line).groups()
            self.cookies[name] = value.strip('"')
            if not self.cookies[name]:
                del self.cookies[name]
        return answer

    def form(self, path, **fields):
        token = re.search(r'name="csrf" value="(\w+)"', self.get("/keys").text)[1]
        return self._take("POST", path, data={"csrf": token, **fields})

    def leave(self):
        """Go to the provider; return the address that the service sends us to."""
        answer = self.get("/login/oidc")
        assert answer.status_code == 303
        return answer.headers["location"]

    def come_back(self, answer):
        return self.get("/login/oidc/callback", params=answer)


@pytest.fixture(scope="module")
def provider():
    """The provider from PyPI, as its own program."""
    with real_provider() as address:
        yield address


def test_a_person_logs_in_at_a_real_provider_and_acts(provider, tmp_path, path):
    claims = {"name": "Ada", "roles": ["privacy"]}
    httpx.put(f"{provider}/users/ada", json=claims).raise_for_status()
    name, secret = registered(provider, CALLBACK, tmp_path)
    given = oidc(provider, client_id=name, client_secret_file=secret)
    settings = settings_for(tmp_path, models={"triage": path}, oidc=given)
    with clinic(settings) as running:
        browser = Browser(running)
        assert "Log in with your organisation" in browser.get("/login").text
        back = log_in_at(browser.leave(), "ada")
        page = browser.come_back(back)
        assert page.status_code == 200, page.text
        assert "You are Ada, as admin" in page.text
        assert '<meta http-equiv="refresh" content="0;url=/">' in page.text
        assert set(browser.cookies) == {COOKIE}
        assert browser.get("/").status_code == 200
        made = browser.form("/keys", client="ward-9")
        assert "The new key of ward-9" in made.text
        entries = running.service.ledger.entries()
        came, created = [each.content() for each in entries if each.kind == "act"][-2:]
        assert came["act"] == "admin logged in"
        assert came["facts"]["name"] == "Ada"
        assert created["act"] == "key created"
        assert created["by"] == came["by"] == came["facts"]["client"]
        # The answer is good once.
        assert browser.come_back(back).status_code == 403
        # Somebody without a role is known, and refused.
        stranger = Browser(running)
        httpx.put(f"{provider}/users/eve", json={"roles": ["guest"]})
        page = stranger.come_back(log_in_at(stranger.leave(), "eve"))
        assert page.status_code == 403
        assert "no role here" in page.text
        assert COOKIE not in stranger.cookies


@pytest.fixture(scope="module")
def lying(tmp_path_factory, path):
    """A service and a provider that lies; each test says what about."""
    with wayward_provider() as provider:
        folder = tmp_path_factory.mktemp("lying")
        secret = folder / "client-secret"
        secret.write_text("s e:cret\n")
        secret.chmod(0o600)
        given = oidc(provider.address, client_secret_file=secret)
        settings = settings_for(folder, models={"triage": path}, oidc=given)
        with clinic(settings) as running:
            yield running, provider


@pytest.fixture
def told(lying):
    """Reset the lies after each test."""
    running, provider = lying
    before = dict(vars(provider))
    yield running, provider
    vars(provider).update(before, challenges={}, logins=[], claims={})


def attempt(running, provider, change=lambda answer: answer):
    browser = Browser(running)
    answer = provider.authorize(browser.leave())
    return browser, browser.come_back(change(answer))


def test_the_honest_answer_is_believed_and_the_client_proves_itself(told):
    running, provider = told
    browser, page = attempt(running, provider)
    assert page.status_code == 200
    assert browser.get("/keys").status_code == 200
    assert provider.logins == ["Basic cmV0aWNlbnQ6cytlJTNBY3JldA=="]


def test_roles_come_from_the_claim(told):
    running, provider = told
    provider.claims = {"roles": "research"}
    browser, page = attempt(running, provider)
    assert "as analyst" in page.text
    assert browser.get("/").status_code == 200
    assert browser.get("/keys").status_code == 403


def test_a_token_of_another_kind_of_key_is_believed(told):
    running, provider = told
    provider.signing, provider.header = (CURVE, "ES256"), {"kid": "two"}
    assert attempt(running, provider)[1].status_code == 200


NOW = int(time.time())
WRONG = {
    "another audience": {"claims": {"aud": "somebody-else"}},
    "two audiences, none in charge": {"claims": {"aud": ["reticent", "other"]}},
    "another party": {"claims": {"azp": "other"}},
    "over": {"claims": {"exp": NOW - 120, "iat": NOW - 500}},
    "from the future": {"claims": {"iat": NOW + 5000, "exp": NOW + 9000}},
    "another nonce": {"claims": {"nonce": "n" * 43}},
    "no nonce": {"claims": {"nonce": None}},
    "no expiry": {"claims": {"exp": None}},
    "no subject": {"claims": {"sub": None}},
    "an empty subject": {"claims": {"sub": ""}},
    "another issuer": {"claims": {"iss": "https://elsewhere.example"}},
    "no role": {"claims": {"roles": ["guest"]}},
    "roles that are no list": {"claims": {"roles": {"privacy": True}}},
    "not signed": {"signing": (None, "none")},
    "signed with a secret": {"signing": ("k" * 32, "HS256")},
    "signed by another key": {"signing": (OTHER, "RS256")},
    "an unknown key": {"signing": (OTHER, "RS256"), "header": {"kid": "three"}},
    "a key of another kind": {"signing": (KEY, "RS256"), "header": {"kid": "two"}},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_token_is_refused(told, wrong):
    running, provider = told
    for name, value in WRONG[wrong].items():
        setattr(provider, name, value)
    browser, page = attempt(running, provider)
    assert page.status_code == 403, wrong
    assert "sign_in_refused" not in page.text
    assert COOKIE not in browser.cookies
    assert browser.get("/").status_code == 303


CHANGES = {
    "another state": lambda answer: {**answer, "state": "s" * 43},
    "no state": lambda answer: {"code": answer["code"]},
    "no code": lambda answer: {"state": answer["state"]},
    "another code": lambda answer: {**answer, "code": "code-99"},
    "an error": lambda answer: {**answer, "error": "access_denied"},
    "another provider": lambda answer: {**answer, "iss": "https://elsewhere.example"},
    "no attempt": None,
    "the attempt of another browser": None,
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_answer_that_this_browser_did_not_ask_for_is_refused(told, change):
    running, provider = told
    browser, other = Browser(running), Browser(running)
    answer = provider.authorize(browser.leave())
    if change == "no attempt":
        browser.cookies.clear()
    elif change == "the attempt of another browser":
        other.leave()
        browser.cookies = other.cookies
    else:
        answer = CHANGES[change](answer)
    page = browser.come_back(answer)
    assert page.status_code == 403
    assert COOKIE not in browser.cookies
    assert ATTEMPT_COOKIE not in browser.cookies


def test_a_stolen_code_is_worth_nothing_without_its_verifier(told):
    running, provider = told
    victim, thief = Browser(running), Browser(running)
    stolen = provider.authorize(victim.leave())
    own = provider.authorize(thief.leave())
    page = thief.come_back({**own, "code": stolen["code"]})
    assert page.status_code == 403
    assert COOKIE not in thief.cookies


def test_keys_of_a_provider_are_read_again_but_not_for_every_stranger(told):
    running, provider = told
    attempt(running, provider)
    before = provider.reads
    provider.signing, provider.header = (OTHER, "RS256"), {"kid": "new"}
    for _ in range(5):
        assert attempt(running, provider)[1].status_code == 403
    assert provider.reads <= before + 1


def test_a_provider_that_is_another_or_away_is_said(tmp_path, path):
    with wayward_provider() as provider:
        provider.issuer = "https://elsewhere.example"
        given = oidc(provider.address)
        settings = settings_for(tmp_path, models={"triage": path}, oidc=given)
        with clinic(settings) as running:
            page = Browser(running).get("/login/oidc")
            assert page.status_code == 502
            assert "log in with a key" in page.text


def test_a_provider_that_failed_is_not_asked_again_for_every_stranger():
    now = [0.0]
    with wayward_provider() as provider:
        settings = OidcSettings(**oidc(provider.address))
        asked = OpenIdProvider(settings, clock=lambda: now[0])
        provider.issuer = "https://elsewhere.example"
        for _ in range(5):
            with pytest.raises(ProblemError):
                asked.begin(Attempt.fresh())
        assert provider.described == 1
        provider.issuer = None
        now[0] = 11.0
        assert asked.begin(Attempt.fresh()).startswith(provider.address)
        assert provider.described == 2


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [published(KEY), published(OTHER)],
        [published(KEY, use="enc")],
        [published(KEY, alg="PS256")],
        [published(CURVE)],
    ],
)
def test_a_token_is_checked_with_the_one_key_that_can_be_meant(keys):
    token = jwt.encode({"sub": "ada"}, KEY, "RS256")
    assert key_named(token, [*keys[2:], published(KEY)])
    with pytest.raises(LookupError):
        key_named(token, keys)


def test_a_login_ends_and_cannot_be_forged(told):
    running, provider = told
    browser, _ = attempt(running, provider)
    good = browser.cookies[COOKIE]
    for bad in (good[:-1] + ("0" if good[-1] != "0" else "1"), good.split(".")[0]):
        browser.cookies[COOKIE] = bad
        assert browser.get("/").status_code == 303
    # A cookie of an attempt is no login, although we signed it.
    browser.leave()
    browser.cookies[COOKIE] = browser.cookies[ATTEMPT_COOKIE]
    assert browser.get("/").status_code == 303


def test_the_challenge_is_that_of_the_rfc():
    # RFC 7636, appendix B.
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert Attempt("s", "n", verifier).challenge == challenge
    assert len({text for _ in range(50) for text in _texts(Attempt.fresh())}) == 150


def _texts(attempt):
    return attempt.state, attempt.nonce, attempt.verifier


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"issuer": "http://idp.example"}, "https"),
        ({"issuer": "https://idp.example?x=1"}, "query"),
        ({"redirect_url": "http://host.example/login/oidc/callback"}, "https"),
        ({"redirect_url": "https://host.example/other"}, "must end in"),
        ({"scopes": "profile"}, "openid"),
        ({"admins": [], "analysts": []}, "name nobody"),
        ({"admins": "privacy"}, "list of texts"),
        ({"client_id": ""}, "client_id"),
    ],
)
def test_settings_that_are_not_safe_are_refused(given, match):
    with pytest.raises(InvalidParameterError, match=match):
        OidcSettings(**{**oidc("https://idp.example"), **given})
