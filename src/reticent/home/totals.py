"""The forms in which the one total of a lasting model can be charged."""

from __future__ import annotations

from typing import Any

from reticent.guarantees import Certificate, GaussianDP, gaussian_to_zcdp
from reticent.ledger import Charge


def total_forms(certificate: Certificate[Any]) -> list[Certificate[Any]]:
    """Return the forms in which a total can be charged, those that cost least first.

    Gaussian DP is best added up as zCDP; where an account has no delta left to convert
    that, the total is charged as printed.
    """
    found = [certificate]
    for node in certificate.walk():
        if isinstance(node.guarantee, GaussianDP):
            found.insert(0, gaussian_to_zcdp(node))
            break
    return found


def total_charges(certificate: Certificate[Any]) -> list[Charge]:
    """Return the charges of a total in these forms."""
    return [Charge.of(form) for form in total_forms(certificate)]
