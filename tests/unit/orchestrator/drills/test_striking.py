"""A drill asks a process to fail, waits until it says that it does, and takes its record away."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from orchestrator.control.observe.view import ClusterView
from orchestrator.drills.acting import Acting, DrillFailed
from orchestrator.drills.hands import Hands
from orchestrator.drills.striking import TAKE_S, end_coordinator, struck_host
from orchestrator.progress import silent
from orchestrator.records import StrikeKind, StrikeRecord
from orchestrator.store.protocol import STRIKES
from tests.obedient_cluster import EXECUTORS, ObedientCluster

NODE = EXECUTORS[0]
STRUCK_US = 77


class Meanwhile(Hands):
    """While a drill rests, the process does something; a clock that goes on."""

    def __init__(self, does: Callable[[], None] = lambda: None) -> None:
        self.at_us = 0
        self.does = does

    def now_us(self, view: ClusterView) -> int:
        return self.at_us

    def rest(self, seconds: float) -> None:
        self.at_us += round(seconds * 1e6)
        self.does()


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.settle()
    return made


def acting(cluster: ObedientCluster, hands: Hands) -> Acting:
    return Acting(
        view=cluster.view(),
        node=NODE,
        store=cluster.store,
        on_progress=silent,
        by="me",
        hands=hands,
    )


def says(cluster: ObedientCluster, **fields: object) -> Callable[[], None]:
    """What a process writes into the record that asks it."""

    def write() -> None:
        found = cluster.store.get(STRIKES.key(NODE))
        assert found is not None
        record = msgspec.structs.replace(found.record, **fields)
        cluster.store.update(STRIKES.key(NODE), record, found.version)

    return write


def test_a_host_is_asked_in_its_present_life_and_tells_when_it_fails(
    cluster: ObedientCluster,
) -> None:
    hands = Meanwhile(says(cluster, struck_us=STRUCK_US))
    with struck_host(acting(cluster, hands), NODE, StrikeKind.HANG, 5.0) as at_us:
        assert at_us == STRUCK_US
        assert cluster.view().strikes[NODE].record == StrikeRecord(
            kind=StrikeKind.HANG,
            life=cluster.view().nodes[NODE].record.incarnation,
            take_by_us=round(TAKE_S * 1e6),
            lasts_us=5_000_000,
            by="me",
            struck_us=STRUCK_US,
        )
    assert cluster.view().strikes == {}
    (told,) = [each.event for each in cluster.store.history() if each.event.kind == "strike"]
    assert (told.subject, told.detail) == (NODE, "hang for 5 s, by me")


def test_one_strike_at_a_time(cluster: ObedientCluster) -> None:
    hands = Meanwhile(says(cluster, struck_us=STRUCK_US))
    with struck_host(acting(cluster, hands), NODE, StrikeKind.HANG, 5.0):
        again = struck_host(acting(cluster, hands), NODE, StrikeKind.KILL)
        with pytest.raises(DrillFailed, match=f"another drill strikes {NODE}"):
            again.__enter__()
        assert cluster.view().strikes[NODE].record.kind is StrikeKind.HANG


def test_one_that_nobody_obeys_fails_the_drill_and_leaves_nothing(cluster: ObedientCluster) -> None:
    hands = Meanwhile()
    with pytest.raises(DrillFailed, match="candidate-1 has not failed as it was asked to within"):
        end_coordinator(acting(cluster, hands), "candidate-1", StrikeKind.KILL)
    assert hands.at_us == pytest.approx(TAKE_S * 1e6, rel=0.05)
    assert cluster.view().strikes == {}


@pytest.mark.parametrize("began", [True, False])
def test_a_process_that_could_not_says_why(cluster: ObedientCluster, *, began: bool) -> None:
    could_not = says(cluster, problem="no right to")
    hands = Meanwhile(says(cluster, struck_us=STRUCK_US) if began else could_not)
    with (
        pytest.raises(DrillFailed, match=f"{NODE} could not fail as it was asked to: no right to"),
        struck_host(acting(cluster, hands), NODE, StrikeKind.SLOW, 5.0),
    ):
        could_not()
    assert cluster.view().strikes == {}
