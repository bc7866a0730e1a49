"""A ZooKeeper for one machine, from the jars in PySpark's package.

One server, or an ensemble of several (`orchestrator.embedded.ensemble`), on the loopback
interface. They start in a second or two and end with the process that started them. Sessions,
versions, watches, ACLs and durability are those of production servers. An ensemble goes on while
most of its servers run; nothing here survives the loss of the machine.

The servers of an ensemble authenticate each other: otherwise any user of the machine could join.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from orchestrator.embedded.child_process import ChildProcess
from orchestrator.embedded.class_data import class_data_options, class_path
from orchestrator.embedded.java import LOGGING, SMALL_JVM, ZOOKEEPER_HEAP_MIB, Java
from orchestrator.embedded.ports import LOOPBACK, PortTaken, free_port, is_free
from orchestrator.errors import Unreachable
from orchestrator.folders import private_folder

TICK_MS = 200
"""ZooKeeper looks for expired sessions once per tick."""

LEAST_SESSION_MS = 2 * TICK_MS
"""Shortest session timeout that a client can ask for: ZooKeeper's minimum is two ticks."""

START_ATTEMPTS = 3
"""A port chosen as free may be taken by another program before ZooKeeper binds it."""

_modes = (b"Mode: standalone", b"Mode: leader", b"Mode: follower")
"""What a server says that accepts sessions."""

_configuration = """\
tickTime={tick_ms}
minSessionTimeout={least_session_ms}
maxSessionTimeout=60000
dataDir={data}
clientPort={port}
clientPortAddress={address}
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr,envi,mntr
preAllocSize=4096
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
"""

ENSEMBLE = """\
initLimit=50
syncLimit=25
quorumListenOnAllIPs=false
quorum.auth.enableSasl=true
quorum.auth.learnerRequireSasl=true
quorum.auth.serverRequireSasl=true
"""
"""Of each server of an ensemble. Limits in ticks: 10 s to join, 5 s to follow."""

CREDENTIALS = """\
QuorumServer {{
  org.apache.zookeeper.server.auth.DigestLoginModule required user_server="{secret}";
}};
QuorumLearner {{
  org.apache.zookeeper.server.auth.DigestLoginModule required username="server" password="{secret}";
}};
"""


def credential_options(file: str) -> list[str]:
    """Java's options for a server whose credentials are in a file."""
    # Of the mechanisms, only DIGEST-MD5 needs no Kerberos; FIPS 140 does not allow it.
    return [f"-Djava.security.auth.login.config={file}", "-Dzookeeper.fips-mode=false"]


@dataclass(frozen=True, slots=True)
class Seat:
    """A server's place in an ensemble.

    Attributes
    ----------
    number
        Of the server, from 1 on.
    ports
        Of each server, in order: where it follows the leader, and where it votes.
    secret
        By which the servers know each other: letters, digits, `-` and `_`.
    """

    number: int
    ports: tuple[tuple[int, int], ...]
    secret: str

    @property
    def settings(self) -> str:
        """What the server's configuration file says of the ensemble."""
        servers = [
            f"server.{number}={LOOPBACK}:{follow}:{vote}\n"
            for number, (follow, vote) in enumerate(self.ports, 1)
        ]
        return ENSEMBLE + "".join(servers)


class EmbeddedZooKeeper:
    """One ZooKeeper server on this machine.

    Parameters
    ----------
    java
        Java runtime for the server.
    data_dir
        Folder for its data, settings and log; made if missing. The server continues with the
        data of an earlier server in the same folder.
    port
        Port for clients. If not given, a free port is chosen and kept over restarts.
    seat
        Its place in an ensemble; None: it serves alone.

    Attributes
    ----------
    log
        File with its warnings and errors.
    process
        The running server, for drills that crash it.
    """

    def __init__(
        self, java: Java, data_dir: Path, port: int | None = None, seat: Seat | None = None
    ) -> None:
        self._java = java
        self._folder = data_dir.absolute()
        self._port = port
        self._seat = seat
        # For Java's temporary files, which a killed process leaves behind.
        self._temporary = self._folder / "tmp"
        self.log = self._folder / "zookeeper.log"
        self.process: ChildProcess | None = None

    @property
    def port(self) -> int:
        """The port it listens on, once it was started."""
        if self._port is None:
            raise RuntimeError("ZooKeeper was not started yet, so it has no port")
        return self._port

    @property
    def runs(self) -> bool:
        """Whether the server was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    @property
    def connect_string(self) -> str:
        """Its address, as clients take it."""
        return f"{LOOPBACK}:{self.port}"

    def start(self, timeout_s: float = 60.0) -> None:
        """Start the server and wait until it serves; does nothing if it runs.

        Raises
        ------
        PortTaken
            Another program listens on the requested port.
        Unreachable
            The server ended, or did not serve within `timeout_s`.
        """
        if self.runs:
            return
        self.stop()
        private_folder(self._folder)
        private_folder(self._folder / "data")
        attempts = 1 if self._port is not None else START_ATTEMPTS
        for attempt in range(1, attempts + 1):
            port = free_port() if self._port is None else self._port
            if not is_free(port):
                # A process that another thread starts just now holds what this one had open for a
                # moment, as the probe of its port: then try again with another port.
                if attempt == attempts:
                    raise PortTaken("ZooKeeper", port)
                continue
            try:
                self._launch(port, timeout_s)
            except Unreachable:
                self.stop()
                # If another program has taken the port meanwhile, try again with another port.
                if is_free(port) or attempt == attempts:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                self._port = port
                return

    def stop(self, timeout_s: float = 5.0) -> None:
        """End the server and keep its data."""
        if self.process is not None:
            self.process.stop(timeout_s)
            self.process = None
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _launch(self, port: int, timeout_s: float) -> None:
        self._temporary.mkdir(exist_ok=True)
        configuration = self._folder / "zoo.cfg"
        settings = _configuration.format(
            tick_ms=TICK_MS,
            least_session_ms=LEAST_SESSION_MS,
            data=_escaped(self._folder / "data"),
            port=port,
            address=LOOPBACK,
        )
        options: list[str] = []
        if self._seat is not None:
            settings += self._seat.settings
            options = self._prove(self._seat)
        configuration.write_text(settings, encoding="utf-8")
        logging = self._folder / "log4j2.properties"
        logging.write_text(LOGGING.format(level="warn"), encoding="utf-8")
        self.process = ChildProcess(
            [
                str(self._java.executable),
                *SMALL_JVM,
                *class_data_options(self._java),
                f"-Xmx{ZOOKEEPER_HEAP_MIB}m",
                "-Dzookeeper.jmx.log4j.disable=true",
                f"-Djava.io.tmpdir={self._temporary}",
                *options,
                f"-Dlog4j2.configurationFile={logging.as_uri()}",
                "-cp",
                class_path(),
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                str(configuration),
            ],
            log=self.log,
            env=self._java.environment(),
            cwd=self._folder,
        )
        self._await_service(self.process, port, timeout_s)

    def _prove(self, seat: Seat) -> list[str]:
        """Write the server's number and its credentials; the options that name them."""
        (self._folder / "data" / "myid").write_text(str(seat.number), encoding="ascii")
        credentials = self._folder / "quorum.jaas"
        credentials.touch(mode=0o600)
        credentials.write_text(CREDENTIALS.format(secret=seat.secret), encoding="ascii")
        return credential_options(str(credentials))

    def _await_service(self, process: ChildProcess, port: int, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not _serves(port):
            status = process.poll()
            if status is not None:
                raise self._failure(port, f"ended with exit status {status}")
            if time.monotonic() > deadline:
                raise self._failure(port, f"does not serve after {timeout_s:g} s")
            time.sleep(0.02)

    def _failure(self, port: int, problem: str) -> Unreachable:
        return Unreachable(
            "The embedded ZooKeeper", f"{LOOPBACK}:{port}", problem, f"Its log is {self.log}."
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


def _escaped(path: Path) -> str:
    """A path as the value of a Java property."""
    return str(path).replace("\\", "\\\\")


def _serves(port: int) -> bool:
    """Whether a ZooKeeper responds there that accepts sessions."""
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), 1.0) as client:
        client.sendall(b"srvr")
        while received := client.recv(4096):
            answer += received
    return any(mode in answer for mode in _modes)
