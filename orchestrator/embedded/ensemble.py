"""The ZooKeeper servers that a cluster on this machine starts: one, or an ensemble."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from orchestrator.embedded.java import Java
from orchestrator.embedded.ports import free_ports
from orchestrator.embedded.zookeeper import EmbeddedZooKeeper, Seat
from orchestrator.errors import InvalidInput


class ZooKeeperServers:
    """One ZooKeeper server, or an ensemble that goes on while most of its servers run.

    Parameters
    ----------
    java
        Java runtime for the servers.
    folder
        For their data, settings and logs; made if missing. They continue with the data that as many
        servers have left there.
    count
        Number of servers, odd.
    port
        Port for clients of the first server. If not given, a free port is chosen.

    Attributes
    ----------
    servers
        For drills that crash them.

    Raises
    ------
    InvalidInput
        The folder has the data of another number of servers.
    """

    def __init__(self, java: Java, folder: Path, count: int = 1, port: int | None = None) -> None:
        left = _left_in(folder)
        if left not in (0, count):
            raise InvalidInput(
                str(folder),
                "zookeeper.servers",
                str(count),
                f"is not the number of servers whose data is there, {left}",
                "State that number, or start with another folder.",
            )
        self.servers: tuple[EmbeddedZooKeeper, ...]
        if count == 1:
            self.servers = (EmbeddedZooKeeper(java, folder, port),)
            return
        ports = free_ports(2 * count)
        pairs = tuple(zip(ports[::2], ports[1::2], strict=True))
        secret = secrets.token_urlsafe(24)
        self.servers = tuple(
            EmbeddedZooKeeper(
                java,
                folder / f"server-{number}",
                port if number == 1 else None,
                Seat(number=number, ports=pairs, secret=secret),
            )
            for number in range(1, count + 1)
        )

    @property
    def connect_string(self) -> str:
        """Their addresses, as clients take them."""
        return ",".join(server.connect_string for server in self.servers)

    @property
    def all_run(self) -> bool:
        """Whether no server has ended."""
        return all(server.runs for server in self.servers)

    @property
    def pids(self) -> list[int]:
        """Of the processes that supervise the servers which run."""
        return [s.process.pid for s in self.servers if s.process is not None and s.runs]

    def start(self) -> None:
        """Start the servers that do not run, and wait until all serve.

        They start at the same time: none serves before most of them run.

        Raises
        ------
        PortTaken
            Another program listens on the requested port.
        Unreachable
            A server ended, or did not serve in time.
        """
        with ThreadPoolExecutor(len(self.servers)) as starters:
            list(starters.map(EmbeddedZooKeeper.start, self.servers))

    def stop(self) -> None:
        """End the servers and keep their data."""
        with ThreadPoolExecutor(len(self.servers)) as enders:
            list(enders.map(EmbeddedZooKeeper.stop, self.servers))


def _left_in(folder: Path) -> int:
    """How many servers have left data in a folder."""
    if (folder / "data").is_dir():
        return 1
    return sum(1 for each in folder.glob("server-*") if (each / "data").is_dir())
