"""Use models trained on sensitive records without giving the records away."""

from __future__ import annotations

from reticent.errors import BudgetExhaustedError
from reticent.guarantees import Budget, Certificate, explain

__all__ = ["Budget", "BudgetExhaustedError", "Certificate", "__version__", "explain"]

__version__ = "0.1.0"
