"""Shared parts of the entry points: arguments, log, signals and exit status."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from orchestrator.deploy.config import SECRET_VARIABLE, VARIABLES, ProcessConfig, read_config
from orchestrator.errors import VivaceError
from orchestrator.folders import remove_scratch
from orchestrator.health import HEALTH_VARIABLE, Health, served

LOOK_EVERY_S = 0.1
"""How often a process that only waits looks whether it should end."""

Serve = Callable[[ProcessConfig, Callable[[], bool], Health], None]
"""A process's work: serves until the function it is given says that the process should end, and
notes each turn of its loop."""

_epilog = """\
example:
  {variable}=… python -m {module} --config vivace.yaml

Environment variables win over the file:
  {variables}
{health}=PORT serves /livez and /readyz there (0.0.0.0:PORT: to other machines, too).
SIGTERM ends the process in order. Exit status: 0 ended in order, 2 the configuration was refused,
3 ZooKeeper or Spark cannot be reached."""


def run(module: str, about: str, serve: Serve, arguments: Sequence[str] | None = None) -> int:
    """Run an entry point until SIGTERM or SIGINT; its exit status.

    Parameters
    ----------
    module
        The entry point's.
    about
        Description of the process, for `--help`.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=about,
        epilog=_epilog.format(
            module=module,
            variable=SECRET_VARIABLE,
            variables="\n  ".join((SECRET_VARIABLE, *VARIABLES.values())),
            health=HEALTH_VARIABLE,
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="configuration, YAML or JSON"
    )
    file: Path = parser.parse_args(arguments).config
    ending = False

    def end(_number: int, _frame: object) -> None:
        nonlocal ending
        ending = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr
    )
    # Processes that this one starts have another port, or none.
    given = {HEALTH_VARIABLE: os.environ.pop(HEALTH_VARIABLE, "")}
    health = Health()
    try:
        config = read_config(file)
        with served(health, given):
            serve(config, lambda: ending, health)
    except VivaceError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_status
    return 0


def leave(status: int) -> NoReturn:
    """End the process, which has closed what it has opened, with this exit status.

    A thread that reads a source may still be in the code of Arrow. At an interpreter's ordinary end
    it would be ended inside, which aborts the process.
    """
    remove_scratch()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
