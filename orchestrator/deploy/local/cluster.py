"""A whole cluster on this machine, as `vivace up` runs it: started in order, ended in reverse.

Spark applications, sites, coordinators and the HTTP API run as processes of their own, through the
entry points `deploy.host_pool`, `deploy.site`, `deploy.coordinator` and `web`. They and ZooKeeper
are started again when they end. All of them end with this process, however it ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import msgspec

from orchestrator.checkpoints.checkpoint_file import CheckpointRefused
from orchestrator.clock import now_us
from orchestrator.deploy.config import ProcessConfig
from orchestrator.deploy.context import ClusterExists
from orchestrator.deploy.coordinator import publish, settings_of
from orchestrator.deploy.local.members import Member
from orchestrator.deploy.local.readiness import LOOK_EVERY_S, await_ready
from orchestrator.deploy.local.services import ServiceMeter
from orchestrator.deploy.restoring import STORE_FOLDER, check_complete, find_savepoint, restore
from orchestrator.embedded.ensemble import ZooKeeperServers
from orchestrator.embedded.java import Java, find_java
from orchestrator.embedded.ports import LOOPBACK, free_port, is_free
from orchestrator.errors import Unreachable, VivaceError
from orchestrator.folders import private_folder
from orchestrator.manifest import ClusterManifest, cluster_record
from orchestrator.manifest.applications import applications_of
from orchestrator.progress import Progress, silent
from orchestrator.records import Record
from orchestrator.store.protocol import (
    LEADER,
    NODES,
    SERVICES,
    TURNS,
    WEBS,
    Key,
    RecordMissing,
    Store,
)
from orchestrator.store.zookeeper import ZooKeeperStore

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
    savepoint
        The savepoint that it goes on from; None: none.
    anew
        Streams of the savepoint that begin anew.
    on_progress
        Told each step, on the thread that calls `start`.
    """

    def __init__(
        self,
        manifest: ClusterManifest,
        folder: Path,
        *,
        zookeeper_port: int | None = None,
        savepoint: str | None = None,
        anew: Collection[str] = (),
        on_progress: Progress = silent,
    ) -> None:
        self.manifest = manifest
        self.folder = folder.absolute()
        self.logs = self.folder / "logs"
        self.archive = self.folder / "archive"
        self._port = zookeeper_port
        self._savepoint, self._anew = savepoint, anew
        self._on_progress = _changes(on_progress)
        self._config: ProcessConfig | None = None
        self._zookeeper: ZooKeeperServers | None = None
        self._store: ZooKeeperStore | None = None
        self._coordinators: list[Member] = []
        self._applications: list[Member] = []
        self._members: list[Member] = []
        """With the coordinators and applications."""
        self._undo: list[tuple[str, Callable[[], None]]] = []
        self._stopping = threading.Event()

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
    def api(self) -> str:
        """URL of its HTTP API."""
        return f"http://{self.config.web}"

    @property
    def token(self) -> str:
        """A token that may do everything there."""
        assert self.config.token_file is not None, "it has one"
        return kept_secret(self.config.token_file)

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
        """End all hosts, and Spark with them.

        The coordinators end first: they would treat the end of the hosts as a failure.
        """
        for coordinator in self._coordinators:
            coordinator.stop()
        if self._applications:
            with ThreadPoolExecutor(len(self._applications)) as enders:
                list(enders.map(Member.stop, self._applications))

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
        """Wait for the cluster's end, at most `timeout_s`; whether it has ended."""
        return self._stopping.wait(timeout_s)

    def _start(self) -> None:
        if find_spec("litestar") is None or find_spec("uvicorn") is None:
            raise VivaceError(
                "the packages of the HTTP API are not installed: pip install 'vivace[cluster,web]'"
            )
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
            web=f"{LOOPBACK}:{free_port()}",
            token_file=self.folder / "token",
        )
        kept_secret(self.folder / "token")
        self._on_progress("java", "looking for a runtime")
        java = find_java(self.folder / "java")
        self._on_progress("java", f"{java.version} in {java.home}")
        config = self._start_zookeeper(config, java)
        publish(self.store, settings_of(config))
        self._restore()
        self._start_applications(config, secret_file, java)
        for number in range(1, self.manifest.coordinators + 1):
            coordinator = Member.coordinator(config, number, secret_file, self.logs)
            self._coordinators.append(coordinator)
            self._start_member(coordinator)
        for place in self.manifest.sites:
            self._start_member(Member.site(config, place, secret_file, self.logs))
        self._start_member(Member.web(config, secret_file, self.logs))
        # Hosts end before the sites that they send to.
        self._undo.append(("the hosts", self.stop_hosts))
        names = [place.name for place in (*self.manifest.nodes, *self.manifest.sites)]
        await_ready(self.store, names, self.logs, self._on_progress, self._check)
        self._on_progress("api", f"waiting for {self.api}")
        while is_free(int(self.config.web.rpartition(":")[2])):
            self._check()
            time.sleep(LOOK_EVERY_S)
        supervisor = threading.Thread(target=self._supervise, name="supervise", daemon=True)
        supervisor.start()
        self._undo.append(("the supervisor", supervisor.join))

    def _restore(self) -> None:
        """Bring the savepoint there that the cluster goes on from, before anything runs."""
        if (named := self._savepoint) is None:
            check_complete(self.store, self.folder)
            return
        try:
            savepoint = find_savepoint(named, self.manifest.record.state)
            restore(
                self.store,
                savepoint,
                named,
                self.folder,
                now_us(),
                self._anew,
                self._on_progress,
                archive=self.archive,
            )
        except CheckpointRefused as refused:
            raise VivaceError(f"savepoint {named} cannot be brought here: {refused}") from refused

    def _start_zookeeper(self, config: ProcessConfig, java: Java) -> ProcessConfig:
        """Start ZooKeeper, unless it runs already, and open the store; the configuration with
        ZooKeeper's address."""
        wanted = self.manifest.zookeeper
        address = wanted.address
        if not address:
            self._on_progress("zookeeper", "starting")
            folder = self.folder / STORE_FOLDER
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

    def _start_applications(self, config: ProcessConfig, secret_file: Path, java: Java) -> None:
        """Start Spark first, which takes longest."""
        self._on_progress("spark", f"starting {len(self.manifest.nodes)} executors")
        self._undo.append(("the hosts", self.stop_hosts))
        delays_ms = cluster_record(self.manifest).delays_ms
        for each in applications_of(self.manifest, delays_ms):
            application = Member.application(config, each, secret_file, self.logs, java)
            self._applications.append(application)
            application.start()
            self._members.append(application)

    def _start_member(self, member: Member) -> None:
        self._undo.append((member.name, member.stop))
        member.start()
        self._members.append(member)

    def _check(self) -> None:
        """Raise if a member has ended while the others still start."""
        for member in self._members:
            if (status := member.ended) is not None:
                raise Unreachable(
                    f"Process {member.name}",
                    "this machine",
                    f"ended with exit status {status}",
                    f"Its log is {member.log}.",
                )

    def _supervise(self) -> None:
        """Start ZooKeeper and members again that ended, as Spark does with executors."""
        meter = ServiceMeter(self.store, self._services)
        tasks = (self._mend_zookeeper, meter.attend, *(member.mend for member in self._members))
        while not self._stopping.wait(SUPERVISE_EVERY_S):
            for mend in tasks:
                try:
                    mend()
                # The supervisor must outlive whatever goes wrong with one process.
                except Exception as error:  # noqa: BLE001
                    _log.warning("%s: %s", type(error).__name__, error)

    def _services(self) -> dict[str, list[int]]:
        """Kind of process that is no host → the parents of those that run."""
        kinds = {"coordinator": self._coordinators, "spark": self._applications}
        found = {
            kind: [pid for member in members if (pid := member.pid) is not None]
            for kind, members in kinds.items()
        }
        return found | {"zookeeper": self._zookeeper.pids if self._zookeeper else []}

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
    left += [(SERVICES.key(name), f.version) for name, f in store.list(SERVICES).records.items()]
    left += [(TURNS.key(name), found.version) for name, found in store.list(TURNS).records.items()]
    left += [(WEBS.key(name), found.version) for name, found in store.list(WEBS).records.items()]
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
    """The secret in a file that only its owner can read, or a new one."""
    with contextlib.suppress(FileNotFoundError):
        return file.read_text(encoding="ascii")
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    secret = secrets.token_urlsafe(24)
    with os.fdopen(handle, "w", encoding="ascii") as opened:
        opened.write(secret)
    return secret
