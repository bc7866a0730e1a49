"""A whole cluster on this machine, as `vivace up` runs it: started in order, ended in reverse.

Sites and coordinators run as processes of their own, through the entry points `deploy.site` and
`deploy.coordinator`. The host pool runs in this process, through the function that its entry point
calls. All processes end with this one, however it ends: ZooKeeper, coordinators, sites, and Spark's
driver with its executors.

Spark takes longest to start, so ZooKeeper, the coordinators and the sites start meanwhile.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from orchestrator.deploy.config import ProcessConfig
from orchestrator.deploy.context import ClusterExists
from orchestrator.deploy.coordinator import publish, settings_of
from orchestrator.deploy.embedded.ensemble import ZooKeeperServers
from orchestrator.deploy.embedded.java import Java, find_java
from orchestrator.deploy.host_pool import SparkLost, start_hosts, start_spark
from orchestrator.deploy.local.members import Member
from orchestrator.deploy.local.readiness import LOOK_EVERY_S, await_ready
from orchestrator.errors import Unreachable, VivaceError
from orchestrator.folders import private_folder
from orchestrator.manifest import ClusterManifest
from orchestrator.progress import Progress, silent
from orchestrator.records import Record
from orchestrator.store.protocol import LEADER, NODES, Key, RecordMissing, Store
from orchestrator.store.zookeeper import ZooKeeperStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orchestrator.spark.hosts.pool import HostPool

SUPERVISE_EVERY_S = 0.2
"""How often the supervisor looks for processes that have ended: short beside the second or more
that one takes to start."""

EXPIRY_S = 20.0
"""Time in which the sessions of processes expire that did not end in order."""

_log = logging.getLogger("vivace.cluster")


def _changes(on_progress: Progress) -> Progress:
    """Progress that is not repeated while it stays the same."""
    told = ("", "")

    def tell(step: str, detail: str) -> None:
        nonlocal told
        if (step, detail) != told:
            told = (step, detail)
            on_progress(step, detail)

    return tell


class LocalCluster:
    """A cluster on this machine.

    Parameters
    ----------
    manifest
        Its nodes, sites and settings.
    folder
        For its data, logs, archive and temporary files; made if missing. ZooKeeper continues with
        the data of an earlier cluster in the same folder.
    zookeeper_port
        Where the first ZooKeeper server that is started listens; a free port if not given.
    on_progress
        Told each step, on the thread that calls `start`.
    """

    def __init__(
        self,
        manifest: ClusterManifest,
        folder: Path,
        *,
        zookeeper_port: int | None = None,
        on_progress: Progress = silent,
    ) -> None:
        self.manifest = manifest
        self.folder = folder.absolute()
        self.logs = self.folder / "logs"
        self.archive = self.folder / "archive"
        self._port = zookeeper_port
        self._on_progress = _changes(on_progress)
        self._config: ProcessConfig | None = None
        self._zookeeper: ZooKeeperServers | None = None
        self._store: ZooKeeperStore | None = None
        self._spark: Future[SparkSession] | None = None
        self._pool: HostPool | None = None
        self._coordinators: list[Member] = []
        self._members: list[Member] = []
        """With the coordinators."""
        self._undo: list[tuple[str, Callable[[], None]]] = []
        self._stopping = threading.Event()
        self._failure: VivaceError | None = None

    @property
    def config(self) -> ProcessConfig:
        """The configuration of its processes: ZooKeeper's address, the secret."""
        assert self._config is not None, "the cluster was not started"
        return self._config

    @property
    def store(self) -> ZooKeeperStore:
        """Its store."""
        assert self._store is not None, "the cluster was not started"
        return self._store

    @property
    def session(self) -> SparkSession:
        """Its Spark session. The hosts occupy all executors until `stop_hosts`."""
        assert self._spark is not None, "the cluster was not started"
        return self._spark.result()

    def start(self) -> None:
        """Start everything, and wait until it is ready for queries.

        Raises
        ------
        VivaceError
            A part did not start; all others have been ended again.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop_hosts(self) -> None:
        """End all hosts but not Spark, so that other jobs can use the executors.

        The coordinators end first: they would treat the end of the hosts as a failure.
        """
        for coordinator in self._coordinators:
            coordinator.stop()
        if self._pool is not None:
            self._pool.stop()

    def stop(self) -> None:
        """End everything in reverse order; a second call does nothing."""
        self._stopping.set()
        while self._undo:
            what, undo = self._undo.pop()
            _log.info("ending %s", what)
            try:
                undo()
            # The remaining parts must end whatever the error is.
            except Exception:  # noqa: BLE001
                _log.exception("%s did not end in order", what)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the cluster's end, at most `timeout_s`; whether it has ended.

        Raises
        ------
        SparkLost
            The cluster ended because Spark did.
        """
        ended = self._stopping.wait(timeout_s)
        if self._failure is not None:
            raise self._failure
        return ended

    def _start(self) -> None:
        for folder in (self.logs, self.archive):
            private_folder(folder)
        secret_file = self.folder / "secret"
        config = ProcessConfig(
            file=self.manifest.file,
            cluster=self.manifest.name,
            zookeeper="",
            secret=kept_secret(secret_file),
            manifest=self.manifest,
            archive=self.archive,
            work=self.folder / "spark",
        )
        self._on_progress("java", "looking for a runtime")
        java = find_java(self.folder / "java")
        self._on_progress("java", f"{java.version} in {java.home}")
        spark = self._begin_spark(config, java)
        config = self._start_zookeeper(config, java)
        publish(self.store, settings_of(config))
        for number in range(1, self.manifest.coordinators + 1):
            coordinator = Member.coordinator(config, number, secret_file, self.logs)
            self._coordinators.append(coordinator)
            self._start_member(coordinator)
        for place in self.manifest.sites:
            self._start_member(Member.site(config, place, secret_file, self.logs))
        self._start_hosts(config, spark)
        names = [place.name for place in (*self.manifest.nodes, *self.manifest.sites)]
        await_ready(self.store, names, self._on_progress, self._check)
        supervisor = threading.Thread(target=self._supervise, name="supervise", daemon=True)
        supervisor.start()
        self._undo.append(("the supervisor", supervisor.join))

    def _begin_spark(self, config: ProcessConfig, java: Java) -> Future[SparkSession]:
        # Importing Spark is slow, and only a cluster's process needs it.
        from orchestrator.spark.hosts.session import stop_session

        starter = ThreadPoolExecutor(1, thread_name_prefix="spark")
        session = starter.submit(start_spark, config, java)
        starter.shutdown(wait=False)

        def stop() -> None:
            # Also waits for a start that was interrupted, which cannot be called off half-way.
            if session.exception() is None:
                stop_session(session.result())

        self._undo.append(("Spark", stop))
        self._spark = session
        return session

    def _start_zookeeper(self, config: ProcessConfig, java: Java) -> ProcessConfig:
        """Start ZooKeeper, unless it runs already, and open the store; the configuration with
        ZooKeeper's address."""
        wanted = self.manifest.zookeeper
        address = wanted.address
        if not address:
            self._on_progress("zookeeper", "starting")
            folder = self.folder / "zookeeper"
            zookeeper = ZooKeeperServers(java, folder, wanted.servers, self._port)
            self._undo.append(("ZooKeeper", zookeeper.stop))
            zookeeper.start()
            self._zookeeper, address = zookeeper, zookeeper.connect_string
        config = msgspec.structs.replace(config, zookeeper=address)
        self._config = config
        self._store = config.open_store()
        self._undo.append(("the store's session", self._store.close))
        if wanted.address:
            await_former_processes(self._store, self.manifest.name)
        else:
            remove_former_processes(self._store)
        self._on_progress("zookeeper", f"serves at {address}")
        return config

    def _start_member(self, member: Member) -> None:
        self._undo.append((member.name, member.stop))
        member.start()
        self._members.append(member)

    def _start_hosts(self, config: ProcessConfig, spark: Future[SparkSession]) -> None:
        count = len(self.manifest.nodes)
        self._on_progress("spark", f"starting {count} executors")
        while True:
            self._check()
            with contextlib.suppress(StillRunning):
                session = spark.result(LOOK_EVERY_S)
                break
        self._undo.append(("the hosts", self.stop_hosts))
        self._pool = start_hosts(config, session, self._on_lost)
        self._on_progress("spark", f"runs {count} executors")

    def _on_lost(self, failure: SparkLost) -> None:
        if not self._stopping.is_set():
            self._failure = failure
            self._stopping.set()

    def _check(self) -> None:
        """Raise if Spark or a member has ended while the others still start."""
        if self._failure is not None:
            raise self._failure
        for member in self._members:
            if (status := member.ended) is not None:
                raise Unreachable(
                    f"Process {member.name}",
                    "this machine",
                    f"ended with exit status {status}",
                    f"Its log is {member.log}.",
                )

    def _supervise(self) -> None:
        """Restart ZooKeeper and members that ended, as Spark restarts executors."""
        while not self._stopping.wait(SUPERVISE_EVERY_S):
            for mend in (self._mend_zookeeper, *(member.mend for member in self._members)):
                try:
                    mend()
                # The supervisor must outlive whatever goes wrong with one process.
                except Exception as error:  # noqa: BLE001
                    _log.warning("%s: %s", type(error).__name__, error)

    def _mend_zookeeper(self) -> None:
        if self._zookeeper is not None and not self._zookeeper.all_run:
            _log.warning("ZooKeeper ended; starting it again")
            self._zookeeper.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


def remove_former_processes(store: Store) -> None:
    """Delete the ephemeral records of an earlier cluster, which nobody is left to renew."""
    left: list[tuple[Key[Record], int]] = [
        (NODES.key(name), found.version) for name, found in store.list(NODES).records.items()
    ]
    if (leader := store.get(LEADER)) is not None:
        left.append((LEADER, leader.version))
    for key, version in left:
        # The session that owns the record may expire at this moment.
        with contextlib.suppress(RecordMissing):
            store.delete(key, version)


def await_former_processes(store: Store, cluster: str) -> None:
    """Wait until the records of an earlier cluster of this name have ended with their sessions.

    Raises
    ------
    ClusterExists
        They do not: that cluster runs.
    """
    give_up_s = time.monotonic() + EXPIRY_S
    while (left := [*store.list(NODES).records]) or store.get(LEADER) is not None:
        if time.monotonic() >= give_up_s:
            holders = ", ".join(left) or "a coordinator"
            raise ClusterExists(
                f"cluster {cluster} runs already with this ZooKeeper, on other machines or from "
                f"another folder ({holders}); end it there, or give this one another name"
            )
        time.sleep(LOOK_EVERY_S)


def kept_secret(file: Path) -> str:
    """The secret that locks the data in the folder, or a new one."""
    with contextlib.suppress(FileNotFoundError):
        return file.read_text(encoding="ascii")
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    secret = secrets.token_urlsafe(24)
    with os.fdopen(handle, "w", encoding="ascii") as opened:
        opened.write(secret)
    return secret
