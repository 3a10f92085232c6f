"""Use models trained on sensitive records without giving the records away."""

from __future__ import annotations

from reticent.errors import BudgetExhaustedError

__all__ = ["BudgetExhaustedError", "__version__"]

__version__ = "0.1.0"
