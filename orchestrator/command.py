"""The command `vivace`, also where only the client is installed.

`pip install vivace` installs the clients of clusters and sites. The command line, like everything
that runs in a cluster, needs the packages of the extra `cluster`.
"""

from __future__ import annotations

import sys

EXIT_NOT_INSTALLED = 2
"""Exit status of a command whose packages are not installed: as of any wrong request."""

EXIT_INTERRUPTED = 130
"""The status that shells report of a command that Ctrl-C ended."""

OURS = ("orchestrator", "ha", "placement", "streams", "topology", "vivace")


def main() -> None:
    """Run the command line, or say what to install."""
    try:
        from orchestrator.cli.main import main as run

        run()
    except KeyboardInterrupt:
        # Before the command line was there to say it.
        sys.exit(EXIT_INTERRUPTED)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in OURS:
            raise
        sys.stderr.write(
            f"vivace: the package {missing} is not installed: this is the client only. For the "
            "command line and for clusters, install the extra: pip install 'vivace[cluster]'\n"
        )
        sys.exit(EXIT_NOT_INSTALLED)
