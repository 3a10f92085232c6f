"""A dossier: what a data protection officer needs to know about one model.

Every field is derived from the certificate, the ledger, the schema, the audit and the
settings, or is one of five texts that the curator writes. What is not known is marked
as open.
"""

from reticent.dossier.credentials import (
    issuer_of,
    issuing_key,
    signed_certificate,
    verified_certificate,
)
from reticent.dossier.dossier import Dossier, recheck_dossier, write_dossier
from reticent.dossier.facts import ModelFacts, Texts, read_facts
from reticent.dossier.fields import Field, Section

__all__ = [
    "Dossier",
    "Field",
    "ModelFacts",
    "Section",
    "Texts",
    "issuer_of",
    "issuing_key",
    "read_facts",
    "recheck_dossier",
    "signed_certificate",
    "verified_certificate",
    "write_dossier",
]
