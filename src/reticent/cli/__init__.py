"""From a shell: ``reticent schema | fit | predict | serve | keys | ledger | ...``."""


def main() -> None:
    """Run the command line."""
    try:
        from reticent.cli.main import main as run
    except ModuleNotFoundError as missing:
        import sys

        sys.exit(
            f"reticent: the command line needs {missing.name}: "
            "pip install 'reticent[cli]'."
        )
    run()


__all__ = ["main"]
