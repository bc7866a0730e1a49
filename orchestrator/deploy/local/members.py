"""Members of a cluster on this machine: processes of their own, through their entry points."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import msgspec

from orchestrator.deploy.config import SECRET_VARIABLE, VARIABLES, ProcessConfig
from orchestrator.embedded.child_process import ChildProcess
from orchestrator.embedded.java import JAVA_VARIABLE, Java
from orchestrator.embedded.packages import python_path
from orchestrator.health import HEALTH_VARIABLE
from orchestrator.host.shell.leave_order import RUN_VARIABLE
from orchestrator.manifest import ClusterManifest, PlaceManifest
from orchestrator.manifest.applications import SparkApplication
from orchestrator.records import NodeKind

STOP_S = 10.0
"""Time for a process to end when asked, before it is killed."""

APPLICATION_STOP_S = 40.0
"""Time for a host pool to end: its hosts and then Spark's driver do, one after the other."""

GRACE_S = 3600
"""Time for a process that somebody has told to end by SIGTERM: nobody kills it here."""

APPLICATION_REST_S = 2.0
"""Pause before a host pool is started again. Starting Spark takes all processors for seconds, which
the takeovers from its hosts need first."""

_log = logging.getLogger("vivace.cluster")


class Member:
    """One process, started again when it ends.

    Parameters
    ----------
    module
        Of its entry point.
    name
        For its log and messages.
    config
        Fields of its configuration file.
    folder
        For its log and configuration file.
    variables
        Added to its environment.
    stop_s
        Time for it to end when asked.
    rest_s
        Pause before it is started again.
    """

    def __init__(
        self,
        module: str,
        name: str,
        config: Mapping[str, str | None],
        folder: Path,
        *,
        variables: Mapping[str, str] | None = None,
        stop_s: float = STOP_S,
        rest_s: float = 0.0,
    ) -> None:
        self.name = name
        self._variables = dict(variables or {})
        self._stop_s = stop_s
        self._rest_s = rest_s
        self._ended_at: float | None = None
        self.log = folder / f"{name}.log"
        self._module = module
        self.config = config
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
        spec = config.host_spec(place, NodeKind.SITE)
        own = {
            "site": spec.node,
            "region": spec.region,
            "domain": spec.labels.domain or None,
            "archive": spec.archive,
        }
        given = {**_shared(config, secret_file), **own}
        return cls("orchestrator.deploy.site", f"site-{place.name}", given, folder)

    @classmethod
    def coordinator(
        cls, config: ProcessConfig, number: int, secret_file: Path, folder: Path
    ) -> Self:
        """A candidate for leader, which works with the settings that the store has."""
        given = _shared(config, secret_file)
        return cls("orchestrator.deploy.coordinator", f"coordinator-{number}", given, folder)

    @classmethod
    def web(cls, config: ProcessConfig, secret_file: Path, folder: Path) -> Self:
        """The HTTP API."""
        own = {
            "web": config.web,
            "tokenFile": str(config.token_file),
            "archive": str(config.archive),
            # Drills strike ZooKeeper servers that are its children, and tell what all of them take.
            "startedBy": str(os.getpid()),
            "logs": str(folder),
        }
        return cls("orchestrator.web", "web", {**_shared(config, secret_file), **own}, folder)

    @classmethod
    def application(
        cls,
        config: ProcessConfig,
        application: SparkApplication,
        secret_file: Path,
        folder: Path,
        java: Java,
    ) -> Self:
        """One of the cluster's Spark applications, which runs the hosts of its nodes.

        Parameters
        ----------
        java
            Java runtime for Spark's driver and executors.
        """
        name = application.name
        cluster = folder / f".{name}-cluster.json"
        cluster.write_bytes(msgspec.json.encode(_document(config.cluster_manifest(), application)))
        own = {
            "manifest": str(cluster),
            "work": str(config.work_folder() / name),
            "sparkMaster": config.spark_master,
            "bind": config.bind,
            "advertise": config.advertise or None,
        }
        given = {**_shared(config, secret_file), **own}
        variables = {JAVA_VARIABLE: str(java.home)}
        return cls(
            "orchestrator.deploy.host_pool",
            name,
            given,
            folder,
            variables=variables,
            stop_s=APPLICATION_STOP_S,
            rest_s=APPLICATION_REST_S,
        )

    def start(self) -> None:
        """Start the process; a remaining one is ended first."""
        # The user's own variables must not win over the cluster's configuration.
        ours = {*VARIABLES.values(), SECRET_VARIABLE, HEALTH_VARIABLE, RUN_VARIABLE}
        inherited = {name: value for name, value in os.environ.items() if name not in ours}
        with self._changing:
            self.stop()
            self._config_file.write_bytes(msgspec.json.encode(self.config))
            self._process = ChildProcess(
                [sys.executable, "-m", self._module, "--config", str(self._config_file)],
                log=self.log,
                env={**inherited, **self._variables, "PYTHONPATH": python_path()},
                # At once: who ends one ends all. SIGTERM would have it wait for its turn.
                ends_by=signal.SIGINT,
            )

    @property
    def pid(self) -> int | None:
        """Of the process that supervises it, the parent of all others; None while it is stopped."""
        return None if self._process is None else self._process.pid

    @property
    def ended(self) -> int | None:
        """Exit status, None while it runs or after `stop`."""
        return None if self._process is None else self._process.poll()

    def mend(self) -> None:
        """Start the process again if it has ended without `stop`, after its pause."""
        with self._changing:
            if self.ended is None:
                return
            now = time.monotonic()
            if self._ended_at is None:
                _log.warning("%s ended with %s", self.name, self.ended)
                self._ended_at = now
            if now - self._ended_at >= self._rest_s:
                self._ended_at = None
                self.start()

    def stop(self) -> None:
        """End the process, if it runs."""
        with self._changing:
            if self._process is not None:
                self._process.stop(self._stop_s)
                self._process = None
            self._config_file.unlink(missing_ok=True)


def _document(manifest: ClusterManifest, application: SparkApplication) -> dict[str, object]:
    """What a host pool must know of a Cluster manifest, as one with its application alone."""
    return {
        "kind": "Cluster",
        "name": manifest.name,
        "nodes": [
            {"name": place.name, "region": place.region, "domain": place.domain or None}
            for place in application.nodes
        ],
        "executorMemory": f"{manifest.executor_memory_bytes // 2**20}m",
        "applications": [
            {
                "name": application.name,
                "nodes": [place.name for place in application.nodes],
                "zone": application.zone or None,
            }
        ],
    }


def _shared(config: ProcessConfig, secret_file: Path) -> dict[str, str | None]:
    return {
        "cluster": config.cluster,
        "zookeeper": config.zookeeper,
        "secretFile": str(secret_file),
        "grace": str(GRACE_S),
    }
