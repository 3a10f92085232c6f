"""Starts real servers quickly: imports once, then forks one for each line it reads.

Run as a process of its own; every child is a whole server with its own loop, ledger
and port, to be killed by whoever started it.
"""

from __future__ import annotations

import os
import sys


def serve(config: str, port: int) -> None:
    import uvicorn

    from reticent.home import Settings
    from reticent.service import create_app
    from reticent.service.network import Connection

    app = create_app(Settings.load(config))
    uvicorn.run(app, port=port, log_config=None, access_log=False, http=Connection)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    import uvicorn  # noqa: F401 (imported before forking, so that children start fast)

    import reticent.service  # noqa: F401

    say("ready")
    for line in sys.stdin:
        config, port = line.split()
        child = os.fork()
        if child == 0:
            sys.stdin.close()
            serve(config, int(port))
            os._exit(0)
        say(str(child))


if __name__ == "__main__":
    main()
