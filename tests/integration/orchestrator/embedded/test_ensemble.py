"""An ensemble goes on while most of its servers run, and lets in only servers of its own."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from orchestrator.embedded.ensemble import ZooKeeperServers
from orchestrator.embedded.java import Java
from orchestrator.embedded.ports import free_ports
from orchestrator.embedded.zookeeper import EmbeddedZooKeeper, Seat
from orchestrator.errors import InvalidInput, Unreachable

pytestmark = pytest.mark.zookeeper


def written(client: KazooClient, value: bytes) -> bool:
    """Whether a value could be written: the client may have to turn to another server first."""
    with contextlib.suppress(KazooException):
        client.set_async("/kept", value, -1).get()
        return True
    return False


def test_data_survives_the_death_of_one_server_and_the_end_of_all(
    java: Java, tmp_path: Path, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    ensemble = ZooKeeperServers(java, tmp_path, 3)
    try:
        ensemble.start()
        client = KazooClient(ensemble.connect_string)
        client.start()
        client.create_async("/kept", b"value").get()
        process = ensemble.servers[0].process
        assert process is not None
        process.kill()
        assert not ensemble.all_run
        wait_until(lambda: written(client, b"later"))
        ensemble.start()
        assert ensemble.all_run
        client.stop()
        client.close()
        ensemble.stop()
        ensemble.start()
        client = KazooClient(ensemble.connect_string)
        client.start()
        assert client.get_async("/kept").get()[0] == b"later"
        client.stop()
        client.close()
    finally:
        ensemble.stop()


def test_a_server_without_the_secret_is_not_let_in(
    java: Java, tmp_path: Path, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    first, second, vote, elect = free_ports(4)
    ports = ((first, vote), (second, elect))

    def server(number: int, name: str, secret: str) -> EmbeddedZooKeeper:
        seat = Seat(number=number, ports=ports, secret=secret)
        return EmbeddedZooKeeper(java, tmp_path / name, seat=seat)

    one, two, stranger = server(1, "1", "ours"), server(2, "2", "ours"), server(2, "s", "guessed")
    with ThreadPoolExecutor(2) as starters:
        try:
            serves = starters.submit(one.start)
            intrudes = starters.submit(stranger.start)
            # Either may notice first; the other then finds its connection reset.
            logs = (one.log, stranger.log)
            wait_until(
                lambda: (
                    serves.done()
                    or intrudes.done()
                    or any("SaslException" in log.read_text() for log in logs if log.exists())
                )
            )
            assert not serves.done()
            assert not intrudes.done()
            stranger.stop()
            with pytest.raises(Unreachable):
                intrudes.result()
            two.start()
            serves.result()
        finally:
            for each in (one, two, stranger):
                each.stop()


@pytest.mark.parametrize(("left", "wanted"), [(1, 3), (3, 1), (3, 5)])
def test_data_of_another_number_of_servers_is_refused(
    tmp_path: Path, java: Java, left: int, wanted: int
) -> None:
    folders = [tmp_path] if left == 1 else [tmp_path / f"server-{n}" for n in range(1, left + 1)]
    for folder in folders:
        (folder / "data").mkdir(parents=True)
    with pytest.raises(InvalidInput, match=rf"servers: '{wanted}'.*whose data is there, {left}"):
        ZooKeeperServers(java, tmp_path, wanted)
    shutil.rmtree(tmp_path)
    ZooKeeperServers(java, tmp_path, wanted)
