"""Requests are responded to beside the leader's steps."""

from __future__ import annotations

import threading

import pytest

from orchestrator.control.decide import proposing
from orchestrator.control.process import Coordination
from orchestrator.errors import Refused
from orchestrator.records import ApplyRequest, RequestRecord, SwitchRequest
from orchestrator.store.protocol import REQUESTS
from tests.obedient_cluster import ObedientCluster, aircraft


def test_a_switchover_does_not_wait_for_what_is_planned_to_be_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    cluster.coordination.election.resign()
    leader = Coordination(cluster.server.connect(), "leader", on_request=lambda: None)
    planning, go_on = threading.Event(), threading.Event()

    def plans_for_long(*_: object) -> None:
        planning.set()
        go_on.wait()
        raise Refused("a query", "deadline", 1.0, "is too short", "Wait longer.", {})

    monkeypatch.setattr(proposing, "admit", plans_for_long)
    cluster.store.create(REQUESTS.key("apply"), RequestRecord(wish=ApplyRequest()))
    wish = SwitchRequest(fragment="alerts")
    cluster.store.create(REQUESTS.key("switch"), RequestRecord(wish=wish))
    leader.run_once(cluster.now_us)
    applies, *_, operations = leader.responders
    thread = threading.Thread(target=leader.respond, args=(applies,))
    thread.start()
    planning.wait()
    leader.respond(operations)
    assert cluster.view().proposals.keys() == {"switch"}
    go_on.set()
    thread.join()
    assert cluster.proposal("apply").refusal is not None
