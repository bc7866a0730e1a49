"""Drills of what is done on purpose clean up after themselves, whatever happens."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from orchestrator.api import Cluster, DrillRun, drill_audit
from orchestrator.control.observe.view import ClusterView
from orchestrator.deploy.context import ClusterContext
from orchestrator.drills import acting as acting_on
from orchestrator.drills import planned
from orchestrator.drills.acting import Acting, DrillFailed, Inapplicable
from orchestrator.drills.disturbances import DRILLS, aimed_at
from orchestrator.drills.hands import Hands
from orchestrator.errors import InvalidInput, Refused
from orchestrator.progress import silent
from orchestrator.records import FailureLabels, StrikeKind
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft

NOBODY = 4_194_305
"""No process has a number above 2²²."""


@dataclass
class FakeMover:
    """Notes what it is asked for; refuses drains, or the first few."""

    refuses: bool = False
    refusals: int = 0
    calls: list[str] = field(default_factory=list[str])

    def switch(self, fragment: str) -> str:
        self.calls.append(f"switch {fragment}")
        return "plan"

    def drain(self, node: str) -> None:
        self.calls.append(f"drain {node}")
        if self.refuses or len(self.calls) <= self.refusals:
            raise Refused(f"drain of {node}", "node", node, "is busy", "", {})

    def uncordon(self, node: str) -> None:
        self.calls.append(f"uncordon {node}")


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def acting(cluster: ObedientCluster, mover: FakeMover, node: str = "") -> Acting:
    return Acting(
        view=cluster.view(),
        node=node,
        by="",
        cluster_pid=NOBODY,
        store=cluster.store,
        mover=mover,
        on_progress=silent,
    )


def test_roles_change_twice(cluster: ObedientCluster) -> None:
    mover, view = FakeMover(), cluster.view()
    node = aimed_at(view, DRILLS["switchover"], "alerts")
    planned.switch_over(acting(cluster, mover, node))
    (name,) = set(mover.calls)
    assert len(mover.calls) == 2
    assert view.fragments[name.removeprefix("switch ")].record.primary.node == node


@pytest.mark.parametrize("refuses", [True, False])
def test_a_node_that_cannot_be_drained_is_not_killed_and_may_be_used_again(
    cluster: ObedientCluster, *, refuses: bool
) -> None:
    """A drain that leaves a replica behind has failed too."""
    mover = FakeMover(refuses=refuses)
    node = aimed_at(cluster.view(), DRILLS["drain-and-kill"], "alerts")
    with pytest.raises(Refused if refuses else DrillFailed):
        planned.drain_and_kill(acting(cluster, mover, node))
    assert mover.calls == [f"drain {node}", f"uncordon {node}"]


class Patient(Hands):
    """Kills nothing; a clock that goes on while it rests."""

    def __init__(self) -> None:
        self.at_us = 0

    def now_us(self, view: ClusterView) -> int:
        return self.at_us

    def rest(self, seconds: float) -> None:
        self.at_us += round(seconds * 1e6)


def _nothing(_acting: Acting, _node: str) -> None:
    """The host is back at once."""


@pytest.mark.parametrize("refusals", [0, 3, 10_000])
def test_a_rolling_restart_waits_until_a_node_can_be_drained(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch, refusals: int
) -> None:
    """What refuses it may be the load of what has just been started."""
    killed: list[tuple[str, StrikeKind]] = []

    def end_host(acting: Acting, kind: StrikeKind) -> int:
        killed.append((acting.node, kind))
        return 0

    monkeypatch.setattr(planned, "await_successor", _nothing)
    monkeypatch.setattr(planned, "end_host", end_host)
    mover, hands = FakeMover(refusals=refusals), Patient()
    made = replace(acting(cluster, mover, EXECUTORS[0]), hands=hands)
    remark = planned.restart_node(made)
    assert killed == [(EXECUTORS[0], StrikeKind.KILL_EXECUTOR)]
    assert mover.calls[-1] == f"uncordon {EXECUTORS[0]}"
    if refusals > 1000:
        assert "was not drained" in (remark or "")
        assert hands.at_us == pytest.approx(planned.DRAIN_PATIENCE_S * 1e6, rel=0.05)
    else:
        assert remark is None
        assert mover.calls.count(f"drain {EXECUTORS[0]}") == refusals + 1


@pytest.mark.parametrize(
    ("further_ms", "waited_s"),
    [([7], 0.0), ([5, 5, 6], 0.2), ([5] * 1000, acting_on.FLOW_PATIENCE_S)],
)
def test_outputs_are_waited_for_while_they_rest_but_not_for_ever(
    cluster: ObedientCluster,
    monkeypatch: pytest.MonkeyPatch,
    further_ms: list[int],
    waited_s: float,
) -> None:
    alerts = ("control-centre", "alerts")
    reached: list[dict[tuple[str, str], int]] = [{}, *({alerts: ms} for ms in further_ms)]

    def next_one(_acting: Acting) -> dict[tuple[str, str], int]:
        return reached.pop(0)

    monkeypatch.setattr(acting_on, "reached_ms", next_one)
    hands = Patient()
    made = replace(acting(cluster, FakeMover()), hands=hands)
    acting_on.await_flow(made, {alerts: 5})
    assert hands.at_us / 1e6 == pytest.approx(waited_s, abs=0.11)


def test_drills_that_strike_no_site_take_no_target(cluster: ObedientCluster) -> None:
    view = cluster.view()
    for name in ("lose-quorum", "kill-coordinator", "rolling-restart"):
        assert aimed_at(view, DRILLS[name], None) == ""
        with pytest.raises(InvalidInput, match=f"target: .*{name} takes none"):
            aimed_at(view, DRILLS[name], "paris")


def test_a_drill_that_does_not_fit_has_neither_passed_nor_failed(cluster: ObedientCluster) -> None:
    for name in EXECUTORS:
        cluster.hosts[name].tell(labels=FailureLabels(application="application-1"))
    why = DRILLS["kill-driver"].unfit(cluster.view(), NOBODY)
    assert why is not None
    assert "one Spark application" in why
    assert DRILLS["kill-executor"].unfit(cluster.view(), NOBODY) is None
    assert DRILLS["lose-quorum"].unfit(cluster.view(), NOBODY) is not None
    assert not DrillRun(drill="kill-driver", inapplicable=why).passed
    assert why in str(Inapplicable("kill-driver", why))
    reach = ClusterContext(cluster="c", pid=1, started_s=0.0, folder="")
    records = {each.name: each for each in drill_audit(Cluster(reach, cluster.store)).drills}
    assert (records["kill-driver"].passed, records["kill-driver"].unfit) == (None, why)


def test_all_nodes_of_an_application_fail_with_their_driver(cluster: ObedientCluster) -> None:
    for number, name in enumerate(EXECUTORS):
        machine = "here" if number < 2 else "there"
        cluster.hosts[name].tell(
            labels=FailureLabels(application=f"application-{number % 2}", machine=machine)
        )
    view = cluster.view()
    assert DRILLS["kill-driver"].struck(view, EXECUTORS[0]) == tuple(sorted(EXECUTORS[::2]))
    assert DRILLS["hang"].struck(view, EXECUTORS[0]) == (EXECUTORS[0],)
