"""A link's fault ends by itself, on the clock of the machine."""

from __future__ import annotations

import msgspec

from orchestrator.host.core.link_faults import link_delay_us, on_machine_clock
from orchestrator.records import LinkFault, Peer

PEER = Peer(node="one", incarnation="1", endpoint="", public_key="", delay_ms=20.0)


def with_fault(until_us: int, delay_ms: float | None = None) -> Peer:
    return msgspec.structs.replace(PEER, fault=LinkFault(until_us=until_us, delay_ms=delay_ms))


def test_a_link_is_cut_until_the_time_is_over() -> None:
    peer = with_fault(1_000)
    assert link_delay_us(peer, 999) is None
    assert link_delay_us(peer, 1_000) == 20_000


def test_a_link_takes_longer_until_the_time_is_over() -> None:
    peer = with_fault(1_000, delay_ms=30.0)
    assert [link_delay_us(peer, at) for at in (0, 1_000)] == [50_000, 20_000]


def test_the_end_is_told_on_the_clusters_clock() -> None:
    peer = on_machine_clock(with_fault(5_000), 4_000)
    assert peer.fault == LinkFault(until_us=1_000)


def test_without_the_clusters_clock_there_is_no_fault() -> None:
    assert on_machine_clock(with_fault(5_000), None) == PEER
