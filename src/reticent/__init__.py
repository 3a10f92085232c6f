"""Use models trained on sensitive records without giving the records away."""

from reticent.errors import BudgetExhaustedError, ReticentError
from reticent.guarantees import Budget, Certificate, explain

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "BudgetExhaustedError",
    "Certificate",
    "ReticentError",
    "__version__",
    "explain",
]
