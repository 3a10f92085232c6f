"""``python -m reticent.cli`` is ``reticent``."""

from reticent.cli.main import main

main()
