"""Shared parts of the entry points: arguments, log, signals and exit status."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

from orchestrator.control.observe.running_versions import running_versions
from orchestrator.deploy.config import SECRET_VARIABLE, VARIABLES, ProcessConfig, read_config
from orchestrator.deploy.turns import EndSignals
from orchestrator.errors import Unreachable, VivaceError
from orchestrator.folders import PRIVATE_UMASK, remove_scratch
from orchestrator.health import HEALTH_VARIABLE, Health, served
from orchestrator.records import ClusterRecord
from orchestrator.records.versions import this_version
from orchestrator.store.protocol import CLUSTER, TURNS, Store, StoreError, StoreUnavailable
from orchestrator.store.zookeeper import ZooKeeperStore

LOOK_EVERY_S = 0.1
"""How often a process that only waits looks whether it should end."""

LOOK_AT_PODS_S = 1.0
"""The same where it has to ask a platform."""

SAY_EVERY_S = 10.0
"""How often a process that waits says what for."""

R = TypeVar("R")

_log = logging.getLogger("vivace.process")

Serve = Callable[[ProcessConfig, EndSignals, Health], None]
"""A process's work: serves until it is told to end, and notes each turn of its loop."""

_epilog = """\
example:
  {variable}=… python -m {module} --config vivace.yaml

Environment variables win over the file:
  {variables}
{health}=PORT serves /livez and /readyz there (0.0.0.0:PORT: to other machines, too).
The process waits for ZooKeeper, and for the cluster's settings, however long it takes. SIGTERM ends
it in order: a site or a host pool waits for its turn and leaves first, for {grace} seconds at most.
SIGINT ends it in order at once. Exit status: 0 ended in order, 2 the configuration or the secret
was refused, 3 Spark cannot be reached."""


class Ended(Exception):
    """The process was told to end while it waited for what it cannot work without."""


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
            grace=VARIABLES["grace"],
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="configuration, YAML or JSON"
    )
    file: Path = parser.parse_args(arguments).config
    os.umask(PRIVATE_UMASK)
    ending = EndSignals()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: ending.told(number))
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr
    )
    # Processes that this one starts have another port, or none.
    given = {HEALTH_VARIABLE: os.environ.pop(HEALTH_VARIABLE, "")}
    health = Health()
    try:
        config = read_config(file)
        with served(health, given):
            serve(config, ending, health)
    except Ended:
        return 0
    except VivaceError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_status
    return 0


class Waiting:
    """Waits for what other processes bring about, which may start in any order.

    Parameters
    ----------
    ended
        Whether the process is to end instead.
    health
        Told that the process waits.
    """

    def __init__(self, ended: Callable[[], bool], health: Health) -> None:
        self._ended = ended
        self._health = health
        self._say_s = 0.0

    def open_store(self, config: ProcessConfig) -> ZooKeeperStore:
        """A session with the cluster's store, once this process may use it.

        ZooKeeper must serve, and no process run of a version that this one cannot run beside.

        Raises
        ------
        Ended
            The process is to end.
        """
        while True:
            try:
                store = config.open_store()
                break
            except Unreachable as error:
                self._wait(f"ZooKeeper: {error}")
        try:
            self._versions(store)
        except BaseException:
            store.close()
            raise
        return store

    def _versions(self, store: Store) -> None:
        """Wait until there is no process that could not exchange messages or records with this."""
        while True:
            apart = [
                f"{kind} {name}, which is of another version: {obstacle}"
                for kind, name, version in self.read(lambda: [*running_versions(store)])
                if (obstacle := this_version().obstacle(version)) is not None
            ]
            if not apart:
                return
            self._wait(f"the end of {apart[0]}. `vivace preflight` tells more")

    def end_of_former(self, store: Store, owner: str) -> None:
        """Wait until no other process of an owner's has been told to end, and has yet to leave.

        Raises
        ------
        Ended
            The process is to end.
        """
        while _leaves(store, owner):
            self._wait(f"the former process of {owner}, which leaves")

    def end_of_drivers(self, running: Callable[[], Sequence[str]]) -> None:
        """Wait until no other driver of the application runs, even if it cannot say that it leaves.

        Parameters
        ----------
        running
            Looks which do.

        Raises
        ------
        Ended
            The process is to end.
        """
        while found := running():
            self._wait(f"the former driver {found[0]}, which still runs", LOOK_AT_PODS_S)

    def settings(self, store: Store) -> ClusterRecord:
        """The cluster's settings, once a coordinator has published them.

        Raises
        ------
        Ended
            The process is to end.
        """
        while (found := self.read(lambda: store.get(CLUSTER))) is None:
            self._wait("a coordinator to publish the cluster's settings")
        return found.record

    def read(self, ask: Callable[[], R]) -> R:
        """What the store responds, once it is there.

        Raises
        ------
        Ended
            The process is to end.
        """
        while True:
            try:
                return ask()
            except StoreUnavailable as error:
                self._wait(f"ZooKeeper: {error}")

    def _wait(self, awaited: str, look_every_s: float = LOOK_EVERY_S) -> None:
        self._health.waits()
        if self._ended():
            raise Ended
        if time.monotonic() >= self._say_s:
            _log.info("waiting for %s", awaited)
            self._say_s = time.monotonic() + SAY_EVERY_S
        time.sleep(look_every_s)


def _leaves(store: Store, owner: str) -> bool:
    try:
        turns = store.list(TURNS).records.values()
    except StoreError:
        # It will be known later.
        return True
    return any(found.record.owner == owner for found in turns)


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
