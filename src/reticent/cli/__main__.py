"""``python -m reticent.cli`` is ``reticent``."""

from reticent.cli import main

main()
