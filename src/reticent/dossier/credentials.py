"""Certificates as signed documents that anybody can check offline.

The form is that of W3C's Verifiable Credentials (data model 2.0), sealed by the
cryptosuite eddsa-jcs-2022. All values are texts, so the canonical form of the JSON is
plain: keys in order, no spaces.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from reticent._text import strict_json
from reticent.dossier.facts import ModelFacts
from reticent.errors import CertificateError, InvalidParameterError
from reticent.guarantees import Certificate, recheck
from reticent.home import Home
from reticent.signing import (
    ED25519_PRIVATE,
    Ed25519Signer,
    Ed25519Verifier,
    new_key,
    read_key_file,
    secret_bytes,
    write_key_file,
)

_CONTEXT = "https://www.w3.org/ns/credentials/v2"
_TYPES = ["VerifiableCredential", "PrivacyCertificate"]
_SUITE = "eddsa-jcs-2022"
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
# Says that a public key of Ed25519 follows (multicodec).
_ED25519 = b"\xed\x01"
_SUBJECT = (
    "certificate",
    "dataset",
    "delta",
    "epsilon",
    "headline",
    "id",
    "model",
    "unit",
)


def issuing_key(home: Home) -> Ed25519Signer:
    """Return the home's key for such documents, made at the first call."""
    path = home.key_file("credentials")
    if not path.exists():
        write_key_file(path, new_key(ED25519_PRIVATE))
    return Ed25519Signer(secret_bytes(read_key_file(path), ED25519_PRIVATE))


def issuer_of(key: Ed25519Signer) -> str:
    """Return the name of an issuer, which holds the public key (did:key)."""
    return f"did:key:z{_base58(_ED25519 + key.public_key)}"


def signed_certificate(facts: ModelFacts, key: Ed25519Signer) -> dict[str, Any]:
    """Return a model's certificate as a signed document.

    Parameters
    ----------
    facts : ModelFacts
        The facts about the model.
    key : Ed25519Signer
        The issuer's key.
    """
    # What is signed is the total over all periods, where there are periods: a document
    # about one answer would hide that a unit that stays pays in all of them.
    over = facts.over_periods
    certificate = facts.certificate if over is None else over.certificate
    recheck(certificate)
    issuer = issuer_of(key)
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    subject = {
        "id": f"urn:reticent:model:{facts.stored.id}",
        "model": facts.name,
        "dataset": facts.stored.dataset.name,
        "unit": facts.unit,
        "headline": certificate.headline(),
        "epsilon": repr(facts.total.epsilon),
        "delta": repr(facts.total.delta),
        "certificate": certificate.to_json(),
    }
    document = {
        "@context": [_CONTEXT],
        "type": _TYPES,
        "issuer": issuer,
        "validFrom": moment,
        "credentialSubject": subject,
    }
    proof = {
        "@context": [_CONTEXT],
        "type": "DataIntegrityProof",
        "cryptosuite": _SUITE,
        "created": moment,
        "verificationMethod": f"{issuer}#{issuer.removeprefix('did:key:')}",
        "proofPurpose": "assertionMethod",
    }
    value = "z" + _base58(key.sign(_hashed(document, proof)))
    return {**document, "proof": {**proof, "proofValue": value}}


def verified_certificate(
    text: str | bytes, issuer: str | None = None
) -> dict[str, Any]:
    """Check a signed document: its signature, and that its promise follows.

    Parameters
    ----------
    text : str or bytes
        The JSON.
    issuer : str or None, default=None
        Who must have signed it; None takes whoever it names.

    Returns
    -------
    dict
        The subject: model, dataset, unit, headline, epsilon and delta of the total.

    Raises
    ------
    CertificateError
        If the document was changed, was signed by somebody else, or states what does
        not follow.

    Guarantee
    ---------
    The holder of the issuer's key has signed exactly these texts, and the headline
    follows by the rules of `reticent.guarantees` from the mechanisms that the
    certificate names. That the model draws by these mechanisms, and that epsilon and
    delta of the total are enforced, is the issuer's word.
    """
    document, proof = _parts(text)
    named = str(document["issuer"])
    if issuer is not None and named != issuer:
        raise CertificateError(f"the document was issued by {named}, not by {issuer}.")
    value = proof.pop("proofValue")
    if not (
        proof.get("type") == "DataIntegrityProof"
        and proof.get("cryptosuite") == _SUITE
        and proof.get("proofPurpose") == "assertionMethod"
        and proof.get("verificationMethod")
        == f"{named}#{named.removeprefix('did:key:')}"
        and proof.get("@context") == document["@context"] == [_CONTEXT]
        and Ed25519Verifier(_public_key(named)).verify(
            _hashed(document, proof), _unbase58(str(value))
        )
    ):
        raise CertificateError(
            "the signature does not fit the document: it was changed, or signed with "
            "another key."
        )
    subject = document["credentialSubject"]
    certificate = Certificate.from_json(subject["certificate"])
    recheck(certificate)
    if certificate.headline() != subject["headline"]:
        raise CertificateError("the headline is not that of the certificate in it.")
    return dict(subject)


def _parts(text: str | bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the document and its proof, of the form that we write."""
    try:
        found = strict_json(text.decode() if isinstance(text, bytes) else text)
        proof = found.pop("proof")
        subject = found["credentialSubject"]
        if (
            set(found)
            == {"@context", "type", "issuer", "validFrom", "credentialSubject"}
            and found["type"] == _TYPES
            and set(subject) == set(_SUBJECT)
            and all(isinstance(value, str) for value in subject.values())
            and isinstance(proof["proofValue"], str)
        ):
            return found, dict(proof)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidParameterError):
        pass
    raise CertificateError(
        "this is not a signed certificate; give what 'reticent certificate sign' wrote."
    )


def _hashed(document: dict[str, Any], proof: dict[str, Any]) -> bytes:
    return b"".join(
        hashlib.sha256(_canonical(part)).digest() for part in (proof, document)
    )


def _canonical(data: dict[str, Any]) -> bytes:
    """Return RFC 8785's form of JSON without numbers."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def _public_key(issuer: str) -> bytes:
    raw = _unbase58(issuer.removeprefix("did:key:"))
    if not (issuer.startswith("did:key:z") and raw[:2] == _ED25519 and len(raw) == 34):
        raise CertificateError(
            f"the issuer {issuer[:100]!r} is not a did:key of Ed25519."
        )
    return raw[2:]


def _base58(content: bytes) -> str:
    number, text = int.from_bytes(content), ""
    while number:
        number, digit = divmod(number, 58)
        text = _BASE58[digit] + text
    return "1" * (len(content) - len(content.lstrip(b"\0"))) + text


def _unbase58(text: str) -> bytes:
    digits = text.removeprefix("z")
    if not (text.startswith("z") and len(text) < 200 and set(digits) <= set(_BASE58)):
        raise CertificateError("a key or a signature in the document is not readable.")
    number = 0
    for digit in digits:
        number = 58 * number + _BASE58.index(digit)
    zeros = len(digits) - len(digits.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8)
