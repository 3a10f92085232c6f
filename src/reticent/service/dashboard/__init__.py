"""The dashboard: budgets, answers and certificates in a browser.

Rendered on the server, with one small script and one style sheet of its own: it needs
no other host, and works without the script.
"""

from reticent.service.dashboard.pages import install_dashboard

__all__ = ["install_dashboard"]
