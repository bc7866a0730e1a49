"""Members of a cluster on this machine: processes of their own, through their entry points."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import msgspec

from orchestrator.deploy.config import SECRET_VARIABLE, VARIABLES, ProcessConfig
from orchestrator.deploy.embedded.child_process import ChildProcess
from orchestrator.deploy.embedded.packages import source_root
from orchestrator.manifest import PlaceManifest
from orchestrator.records import NodeKind

_log = logging.getLogger("vivace.cluster")


class Member:
    """One process, started again when it ends.

    Parameters
    ----------
    entry_point
        Module below `orchestrator.deploy`.
    name
        For its log and messages.
    config
        Fields of its configuration file.
    folder
        For its log and configuration file.
    """

    def __init__(
        self, entry_point: str, name: str, config: Mapping[str, str | None], folder: Path
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._entry_point = entry_point
        self._config = config
        self._config_file = folder / f".{name}.json"
        self._process: ChildProcess | None = None
        self._changing = threading.RLock()

    @classmethod
    def site(
        cls, config: ProcessConfig, place: PlaceManifest, secret_file: Path, folder: Path
    ) -> Self:
        """A site.

        Parameters
        ----------
        config
            The cluster's configuration.
        secret_file
            Holds the cluster's secret; only its owner can read it.
        """
        spec = config.host_spec(place, NodeKind.SITE, place.name)
        own = {
            "site": spec.node,
            "region": spec.region,
            "domain": spec.domain,
            "archive": spec.archive,
        }
        given = {**_shared(config, secret_file), **own}
        return cls("site", f"site-{place.name}", given, folder)

    @classmethod
    def coordinator(
        cls, config: ProcessConfig, number: int, secret_file: Path, folder: Path
    ) -> Self:
        """A candidate for leader, which works with the settings that the store has."""
        return cls("coordinator", f"coordinator-{number}", _shared(config, secret_file), folder)

    def start(self) -> None:
        """Start the process; a remaining one is ended first."""
        # The user's own variables must not win over the cluster's configuration.
        ours = {*VARIABLES.values(), SECRET_VARIABLE}
        inherited = {name: value for name, value in os.environ.items() if name not in ours}
        path = os.pathsep.join(filter(None, [str(source_root()), os.environ.get("PYTHONPATH")]))
        module = f"orchestrator.deploy.{self._entry_point}"
        with self._changing:
            self.stop()
            self._config_file.write_bytes(msgspec.json.encode(self._config))
            self._process = ChildProcess(
                [sys.executable, "-m", module, "--config", str(self._config_file)],
                log=self.log,
                env={**inherited, "PYTHONPATH": path},
            )

    @property
    def ended(self) -> int | None:
        """Exit status, None while it runs or after `stop`."""
        return None if self._process is None else self._process.poll()

    def mend(self) -> None:
        """Start the process again if it has ended without `stop`."""
        with self._changing:
            if self.ended is not None:
                _log.warning("%s ended with %s", self.name, self.ended)
                self.start()

    def stop(self) -> None:
        """End the process, if it runs."""
        with self._changing:
            if self._process is not None:
                self._process.stop()
                self._process = None
            self._config_file.unlink(missing_ok=True)


def _shared(config: ProcessConfig, secret_file: Path) -> dict[str, str | None]:
    return {
        "cluster": config.cluster,
        "zookeeper": config.zookeeper,
        "secretFile": str(secret_file),
    }
