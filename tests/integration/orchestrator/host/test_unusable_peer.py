"""One host's record names an address that no socket takes: the other hosts go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from orchestrator.clock import now_us
from orchestrator.edges.sinks.sink_drivers import HandingSink, SinkDrivers
from orchestrator.host.shell.loop import HostLoop, Surroundings, host_identity
from orchestrator.host.shell.name_claim import Claimed
from orchestrator.host.shell.transport import KeyPair, Transport
from orchestrator.records import (
    ClusterRecord,
    HostSpec,
    NodeKind,
    ReplicaId,
)
from orchestrator.store.protocol import NODES
from tests.obedient_cluster import ObedientCluster

SPEC = HostSpec(
    cluster="c", node="paris", kind=NodeKind.EXECUTOR, region="", zookeeper="",
    secret="",
)  # fmt: skip


@pytest.fixture
def transport() -> Iterator[Transport]:
    with closing(Transport("paris", KeyPair.generate(), "127.0.0.1", now_us)) as made:
        yield made


def run_paris(cluster: ObedientCluster, transport: Transport) -> HostLoop:
    """A real loop and real sockets for `paris`, on the cluster's store."""
    found = cluster.hosts["paris"].store.get(NODES.key("paris"))
    assert found is not None
    incarnation = found.record.incarnation
    surroundings = Surroundings(
        clock_us=now_us,
        send=lambda _to, _message: None,
        set_peers=transport.set_peers,
        sinks=SinkDrivers(lambda _assignment: HandingSink(lambda _delivery: None)),
        report=lambda _report: None,
        finish=lambda _worked, _began_us, _then: 0.0,
        message_failed=lambda _message, _error: None,
    )
    claimed = Claimed(
        replica_of=ReplicaId(node="paris", incarnation=incarnation), precondition=None
    )
    # The incarnation is a number in hexadecimal digits.
    identity = host_identity(SPEC, "1", "")
    settings = ClusterRecord(name="c", delays_ms={})
    return HostLoop(surroundings, settings, cluster.store, identity, claimed)


# `VIVACE_ADVERTISE=10.0.0.5/24`, or a space after it; a key of another version; a key that is none.
@pytest.mark.parametrize(
    "unusable",
    [
        {"endpoint": "tcp://10.0.0.5/24:41000"},
        {"endpoint": "tcp://10.0.0.5 :41000"},
        {"endpoint": "tcp://127.0.0.1:41000", "public_key": "none"},
    ],
    ids=["netmask", "space", "key"],
)
def test_an_address_of_one_host_that_nobody_can_connect_to_ends_no_other_host(
    transport: Transport, unusable: dict[str, str]
) -> None:
    cluster = ObedientCluster()
    good = KeyPair.generate().public.decode()
    for host in cluster.hosts.values():
        host.tell(endpoint="tcp://127.0.0.1:1", public_key=good)
    cluster.hosts["lyon"].tell(**unusable)
    cluster.settle()
    loop = run_paris(cluster, transport)
    loop.link.exchange()
    assert loop.link.events, "it is told of its peers"
    # `HostProcess.run` ends with whatever a turn raises.
    loop.turn(())
