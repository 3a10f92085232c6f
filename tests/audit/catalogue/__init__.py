"""Mistakes that have been made, as mechanisms that every audit must flag.

Each control comes with its right twin, which must not be flagged. They show that the
audits of this room can fail, and what they look like when they do.
"""

from tests.audit.catalogue.control import Control, Finding
from tests.audit.catalogue.controls import CONTROLS, control

__all__ = ["CONTROLS", "Control", "Finding", "control"]
