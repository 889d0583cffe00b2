"""The script `mcpcore`, and `python -m mcpcore`: the command line, where its extra is installed."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit."""
    try:
        from mcpcore.cli.app import app  # noqa: PLC0415 - click is an extra
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("click", "rich"):
            raise
        sys.stderr.write(
            "the command line needs an extra: pip install 'mcpcore[cli]', "
            "in a clone: pip install -e '.[cli]'\n"
        )
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    app(prog_name="mcpcore")


if __name__ == "__main__":
    main()
