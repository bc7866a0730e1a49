"""Sites on this machine: processes of their own, through the entry point `deploy.site`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from orchestrator.deploy.config import SECRET_VARIABLE, VARIABLES, ProcessConfig
from orchestrator.deploy.embedded.child_process import ChildProcess
from orchestrator.deploy.embedded.packages import source_root
from orchestrator.manifest import PlaceManifest
from orchestrator.records import NodeKind


class Site:
    """The process of one site, started again when it ends.

    Parameters
    ----------
    config
        The cluster's configuration.
    place
        The site.
    secret_file
        Holds the cluster's secret; only its owner can read it.
    folder
        For the site's log and configuration file.
    """

    def __init__(
        self, config: ProcessConfig, place: PlaceManifest, secret_file: Path, folder: Path
    ) -> None:
        self.name = place.name
        self.log = folder / f"site-{place.name}.log"
        self._config_file = folder / f".site-{place.name}.json"
        spec = config.host_spec(place, NodeKind.SITE, place.name)
        self._config = {
            "cluster": spec.cluster,
            "zookeeper": spec.zookeeper,
            "secretFile": str(secret_file),
            "site": spec.node,
            "region": spec.region,
            "domain": spec.domain,
            "archive": spec.archive,
        }
        self._process: ChildProcess | None = None

    def start(self) -> None:
        """Start the process; a remaining one is ended first."""
        self.stop()
        self._config_file.write_bytes(msgspec.json.encode(self._config))
        # The user's own variables must not win over the cluster's configuration.
        ours = {*VARIABLES.values(), SECRET_VARIABLE}
        inherited = {name: value for name, value in os.environ.items() if name not in ours}
        path = os.pathsep.join(filter(None, [str(source_root()), os.environ.get("PYTHONPATH")]))
        self._process = ChildProcess(
            [
                sys.executable,
                "-m",
                "orchestrator.deploy.site",
                "--config",
                str(self._config_file),
            ],
            log=self.log,
            env={**inherited, "PYTHONPATH": path},
        )

    @property
    def ended(self) -> int | None:
        """Exit status, None while it runs."""
        return None if self._process is None else self._process.poll()

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        self._config_file.unlink(missing_ok=True)
