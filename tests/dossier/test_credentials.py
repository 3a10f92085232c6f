"""Signed certificates: checked offline, and refused after any change."""

import base64
import hashlib
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from reticent.cli.main import main
from reticent.dossier import (
    issuer_of,
    issuing_key,
    read_facts,
    signed_certificate,
    verified_certificate,
)
from reticent.dossier.credentials import _base58, _unbase58
from reticent.errors import CertificateError
from reticent.home import FitOptions, Home, train_and_store
from reticent.schemas import ClassLabel, Numeric, Schema
from reticent.signing import Ed25519Signer


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    rows = [f"{age},{'yes' if age > 50 else 'no'}" for age in range(100)]
    (folder / "rows.csv").write_text("\n".join(["age,sick", *rows]) + "\n")
    schema = Schema({"age": Numeric(0, 100)}, label=ClassLabel("sick", ["no", "yes"]))
    home = Home.at(folder / "home", second_place=folder / "second.json")
    options = FitOptions(
        name="model", dataset="clinic", epsilon=0.5, learner="linear", shards=3
    )
    train_and_store(home, folder / "rows.csv", schema, options)
    return home


@pytest.fixture(scope="module")
def document(home):
    return signed_certificate(read_facts(home, "model"), issuing_key(home))


def test_it_is_checked_and_says_what_is_promised(home, document):
    issuer = issuer_of(issuing_key(home))
    found = verified_certificate(json.dumps(document), issuer)
    assert found["headline"] == read_facts(home, "model").certificate.headline()
    assert float(found["epsilon"]) == 50.0


def test_the_signature_is_that_of_the_named_cryptosuite(document):
    """Written again from the specification, without our code."""
    proof = dict(document["proof"])
    value = proof.pop("proofValue")
    parts = [proof, {k: v for k, v in document.items() if k != "proof"}]
    message = b"".join(
        hashlib.sha256(
            json.dumps(part, sort_keys=True, separators=(",", ":")).encode()
        ).digest()
        for part in parts
    )
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

    def decoded(text):
        number = 0
        for letter in text:
            number = number * 58 + alphabet.index(letter)
        return number.to_bytes((number.bit_length() + 7) // 8, "big")

    raw = decoded(document["issuer"].removeprefix("did:key:z"))
    assert raw[:2] == b"\xed\x01"
    Ed25519PublicKey.from_public_bytes(raw[2:]).verify(
        decoded(value[1:]).rjust(64, b"\0"), message
    )


def places(data, path=()):
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)


def test_every_changed_value_is_refused(document):
    changed = 0
    for path in places(document):
        copy = json.loads(json.dumps(document))
        target = copy
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = str(target[path[-1]]) + "1"
        with pytest.raises(CertificateError):
            verified_certificate(json.dumps(copy))
        changed += 1
    assert changed >= 15


def test_somebody_elses_key_is_noticed(home, document):
    other = Ed25519Signer(bytes(range(32)))
    forged = signed_certificate(read_facts(home, "model"), other)
    verified_certificate(json.dumps(forged))  # its own signature is right
    with pytest.raises(CertificateError, match="issued by"):
        verified_certificate(json.dumps(forged), document["issuer"])


def test_a_promise_that_does_not_follow_is_refused_though_it_is_signed(home):
    facts, key = read_facts(home, "model"), issuing_key(home)
    document = signed_certificate(facts, key)
    subject = document["credentialSubject"]
    subject["certificate"] = subject["certificate"].replace(
        '"epsilon":0.5', '"epsilon":0.1', 1
    )
    from reticent.dossier import credentials

    proof = document.pop("proof")
    proof.pop("proofValue")
    value = "z" + _base58(key.sign(credentials._hashed(document, proof)))
    document["proof"] = {**proof, "proofValue": value}
    with pytest.raises(CertificateError):
        verified_certificate(json.dumps(document))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"proof": {}}', b"\xff"])
def test_other_files_are_refused(text):
    with pytest.raises(CertificateError):
        verified_certificate(text)


@pytest.mark.parametrize("content", [b"", b"\0\0a", b"hello", bytes(range(64))])
def test_base58_round_trips(content):
    assert _unbase58("z" + _base58(content)) == content
    assert base64.b64encode(content) is not None


def test_from_a_shell(home, tmp_path, capsys):
    file = tmp_path / "signed.json"
    for words in (
        ["sign", "model", "-o", str(file), "--home", str(home.path)],
        ["verify", str(file)],
        ["verify", str(file), "--issuer", issuer_of(issuing_key(home))],
    ):
        with pytest.raises(SystemExit) as ended:
            main(["certificate", *words])
        assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "it follows: 0.5-bounded-range DP" in said
    assert "was not checked" in said
    file.write_text(file.read_text().replace("clinic", "clinid"))
    with pytest.raises(SystemExit) as ended:
        main(["certificate", "verify", str(file)])
    assert ended.value.code != 0
