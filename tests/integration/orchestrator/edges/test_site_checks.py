"""Ports and brokers, when a site looks at sources and sinks."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.edges import kafka, site_check
from orchestrator.edges.http_server import Route, serve
from orchestrator.edges.listening import Endpoint
from orchestrator.edges.site_checks import EdgeChecks
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.driver import SourceDriver
from orchestrator.edges.sources.http import Http
from orchestrator.edges.sources.kafka import Kafka
from orchestrator.edges.sources.tcp import Tcp
from orchestrator.embedded.ports import free_port
from orchestrator.records import DriverSpec, EdgeCheck, EdgeFault, SinkAssignment, SourceAssignment
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.protocol import CHECKS
from orchestrator.store.responding import RespondingThread
from tests.conftest import PATIENCE_S, WaitUntil
from tests.mock_kafka import PARTITIONS, MockKafka

COLUMNS = {"number": "int"}


def source(stream: str, name: str, driver: SourceDriver) -> SourceAssignment:
    return SourceAssignment(
        stream=stream, columns=COLUMNS, source=spec_of(name, driver), start_at_us=None
    )


def sink(driver: str, **options: object) -> SinkAssignment:
    spec = DriverSpec(driver=driver, options=options)
    return SinkAssignment(stream="alerts", columns=COLUMNS, deadline_ms=100.0, sink=spec)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "site"


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(site_check, "PORT_PATIENCE_S", 0.0)
    return free_port()


def fault(folder: Path, *asked: SourceAssignment | SinkAssignment) -> EdgeFault | None:
    store = MemoryServer().connect()
    check = EdgeCheck(
        site="here",
        sources=tuple(each for each in asked if isinstance(each, SourceAssignment)),
        sinks=tuple(each for each in asked if isinstance(each, SinkAssignment)),
    )
    store.create(CHECKS.key("one"), check)
    EdgeChecks(store, "here", folder).respond()
    found = store.get(CHECKS.key("one"))
    assert found is not None
    assert found.record.is_done
    return found.record.fault


def test_a_port_that_another_process_has(folder: Path, port: int) -> None:
    at = Endpoint(port=port)
    asked = (source("a", "tcp", Tcp(listen=at)), source("a", "http", Http(listen=at)))
    assert [fault(folder, each) for each in asked] == [None, None]
    with socket.create_server(("127.0.0.1", port)):
        for each in (*asked, sink("http", listen={"port": port})):
            found = fault(folder, each)
            assert found is not None
            assert (found.option, found.value) == ("listen", f"127.0.0.1:{port}")
            assert found.problem == "cannot be listened at (Address already in use)"
    assert [fault(folder, each) for each in asked] == [None, None]


def test_an_address_of_another_machine(folder: Path) -> None:
    found = fault(folder, source("a", "tcp", Tcp(listen=Endpoint(host="192.0.2.1", port=0))))
    assert found is not None
    assert found.problem == "cannot be listened at (Cannot assign requested address)"


def test_a_port_that_is_still_being_closed_is_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_check, "PORT_PATIENCE_S", PATIENCE_S)
    held = socket.create_server(("127.0.0.1", 0))
    closes = threading.Timer(0.1, held.close)
    closes.start()
    listen = Endpoint(port=held.getsockname()[1])
    assert fault(folder, source("a", "tcp", Tcp(listen=listen))) is None
    closes.join()


def test_streams_over_http_share_a_port_and_others_do_not(folder: Path, port: int) -> None:
    at = Endpoint(port=port)
    over_http = source("a", "http", Http(listen=at))
    assert fault(folder, over_http, sink("http", listen={"port": port})) is None
    found = fault(folder, over_http, source("b", "tcp", Tcp(listen=at)))
    assert found is not None
    assert (found.stream, found.option) == ("b", "listen")
    assert found.problem.startswith("is where a is to listen")
    _, end = serve(at, "known", Route(token=None, get=lambda _: {}))
    try:
        assert fault(folder, over_http) is None
        assert fault(folder, source("b", "tcp", Tcp(listen=at))) is not None
    finally:
        end()


def test_topics(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = MockKafka()
    brokers.create("trades")

    def reads(topic: str, partitions: int | None = None) -> EdgeFault | None:
        target = kafka.Topic(brokers=brokers.brokers, name=topic)
        return fault(folder, source("a", "kafka", Kafka(source=target, partitions=partitions)))

    def writes(topic: str, **options: str) -> EdgeFault | None:
        target = {"brokers": brokers.brokers, "name": topic}
        return fault(folder, sink("kafka", target=target, **options))

    assert reads("trades") is None
    assert reads("trades", PARTITIONS) is None
    assert writes("trades", key="number") is None
    for found in (reads("missing"), writes("missing")):
        assert found is not None
        assert (found.option, found.value) == ("topic", "missing")
        assert "Unknown topic" in found.problem
    # Whoever only looks makes no topic.
    assert reads("missing") is not None
    found = reads("trades", PARTITIONS + 1)
    assert found is not None
    assert found.remedy == f"Write {PARTITIONS}."
    found = writes("trades", key="name")
    assert found is not None
    assert (found.option, found.value) == ("key", "name")
    monkeypatch.setattr(kafka, "REACH_S", 0.2)
    nobody = kafka.Topic(brokers=f"127.0.0.1:{free_port()}", name="trades")
    found = fault(folder, source("a", "kafka", Kafka(source=nobody)))
    assert found is not None
    assert (found.option, found.value) == ("brokers", nobody.brokers)


def test_a_site_responds_whenever_it_is_asked(folder: Path, wait_until: WaitUntil) -> None:
    server = MemoryServer()
    client, own = server.connect(), server.connect()
    with closing(RespondingThread(own, CHECKS, EdgeChecks(own, "here", folder).respond)):
        for away in (False, True):
            name = CHECKS.key(f"{away}")
            if away:
                own.suspend()
            client.create(name, EdgeCheck(site="here"), ephemeral=True)
            own.resume()
            wait_until(lambda name=name: client.get(name).record.is_done)  # pyright: ignore[reportOptionalMemberAccess]
