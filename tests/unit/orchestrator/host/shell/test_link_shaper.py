"""When a link of a WAN would deliver what arrived over one of a single machine."""

from __future__ import annotations

import msgspec

from orchestrator.host.shell.link_shaper import LinkShaper
from orchestrator.records import LinkFault, Peer

PEER = Peer(node="far", incarnation="1", endpoint="", public_key="", delay_ms=10.0)


def test_what_was_sent_arrives_one_delay_later() -> None:
    shaper = LinkShaper[str]()
    assert shaper.next_due_us is None
    assert shaper.hold("a", PEER, 1000, 4000, after_us=0) == 11_000
    assert shaper.next_due_us == 11_000
    assert shaper.due(10_999) == []
    assert shaper.due(11_000) == ["a"]
    assert shaper.next_due_us is None


def test_a_link_is_first_in_first_out_and_a_sender_s_clock_may_be_wrong() -> None:
    shaper = LinkShaper[str]()
    late_us = shaper.hold("from the future", PEER, 99_000, 5000, after_us=0)
    assert late_us == 15_000
    assert shaper.hold("next", PEER, 1000, 5000, after_us=late_us) == late_us
    assert shaper.hold("long ago", PEER, -99_000, 5000, after_us=0) == 5000
    assert shaper.due(20_000) == ["long ago", "from the future", "next"]


def test_a_broken_connection_is_told_although_the_link_is_cut() -> None:
    cut = msgspec.structs.replace(PEER, fault=LinkFault(until_us=9000))
    assert LinkShaper[str]().hold("lost", cut, 1000, 1000, after_us=0) == 1000
