"""What a drill watches, what it strikes, and what it leaves in the history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import msgspec
import pytest

from orchestrator.api import Cluster, drilling
from orchestrator.api.aiming import Moved
from orchestrator.api.drilling import BEGUN, FAILED
from orchestrator.api.observer import Observer
from orchestrator.deploy.config import ProcessConfig
from orchestrator.drills.acting import Acting, DrillFailed, Inapplicable
from orchestrator.drills.disturbances import DRILLS
from orchestrator.edges.events import Deliver
from orchestrator.errors import Refused
from orchestrator.manifest import Manifests
from orchestrator.store.protocol import fragment_key
from tests.obedient_cluster import ObedientCluster, aircraft, query_manifest, replica
from tests.streams_of_numbers import chunk

ALERTS = "proximity.alerts"


class SilentObserver:
    """Is delivered nothing."""

    def poll(self, _seconds: float) -> list[object]:
        return []


def test_outputs_that_do_not_flow_have_a_drill_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drilling, "FLOW_TIMEOUT_S", 0.01)
    silent = cast(Observer, SilentObserver())
    watch = drilling._Watch(  # pyright: ignore[reportPrivateUsage]
        silent, ["alerts", "totals"], lambda: None
    )
    with pytest.raises(Refused) as refused:
        watch.await_flow("hang")
    assert str(refused.value).startswith("drill hang refused: outputs 'alerts, totals': no result")
    watch.deliveries = {stream: [cast(drilling.Deliver, None)] for stream in watch.deliveries}
    watch.await_flow("hang")


class Struck(DrillFailed):
    """A fault would have struck."""


class Drilled:
    """A cluster whose outputs flow, and in which something moves once a drill watches them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, moves: Callable[[], None]) -> None:
        self.cluster = ObedientCluster()
        self.cluster.apply(aircraft())
        self.cluster.settle()
        self.struck: list[tuple[str, list[str]]] = []
        """Node or link that was struck, and the primaries that its node ran then."""
        self._moves = moves
        self._awaited = False
        monkeypatch.setattr(drilling, "CALM_S", 0.01)
        monkeypatch.setattr(drilling, "Observer", self._observed)
        monkeypatch.setattr(drilling, "DRILLS", {n: self._harmless(n) for n in DRILLS})

    def primaries(self, node: str) -> list[str]:
        fragments = self.cluster.view().fragments.items()
        return [name for name, found in fragments if found.record.primary.node == node]

    def put(self, name: str, primary: str, secondary: str) -> None:
        """Have a fragment run on these nodes."""
        found = self.cluster.view().fragments[name]
        record = msgspec.structs.replace(
            found.record,
            primary=replica(self.cluster, primary),
            secondary=replica(self.cluster, secondary),
            epoch=found.record.epoch + 1,
        )
        self.cluster.store.update(
            fragment_key(record.query, record.fragment), record, found.version
        )
        self.cluster.settle()

    def switch(self, name: str) -> None:
        """Have a fragment's replicas change roles."""
        record = self.cluster.view().fragments[name].record
        assert record.secondary is not None
        self.put(name, record.secondary.node, record.primary.node)

    def drill(self, name: str, target: str = ALERTS, archive: Path | None = None) -> None:
        reach = ProcessConfig(file="", cluster="aircraft", zookeeper="", secret="", archive=archive)
        drilling.drill(Cluster(reach, self.cluster.store), name, target)

    def history(self) -> list[str]:
        kinds = [entry.event.kind for entry in self.cluster.store.history()]
        return [kind for kind in kinds if kind.startswith("drill")]

    def _observed(self, _reach: object, outputs: list[str], _region: str) -> Drilled:
        self._outputs, self._awaited = outputs, True
        return self

    def __enter__(self) -> Drilled:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def poll(self, _seconds: float) -> list[Deliver]:
        if self._awaited:
            self._awaited = False
            self._moves()
        return [
            Deliver(stream=stream, epoch=1, chunk=chunk(0, [(1, 1)]), lost=0, arrived_us=1)
            for stream in self._outputs
        ]

    def _harmless(self, name: str) -> object:
        return replace(DRILLS[name], strike=self._strike)

    def _strike(self, acting: Acting) -> None:
        node = acting.node or acting.links[0].partition(":")[0]
        self.struck.append((node, self.primaries(node)))
        raise Struck(node)


@pytest.mark.parametrize(
    "name", ["kill-executor", "slow-node", "cut-link", "switchover", "drain-and-kill"]
)
def test_a_drill_aims_again_if_what_it_is_to_hit_has_moved(
    monkeypatch: pytest.MonkeyPatch, name: str, tmp_path: Path
) -> None:
    def moves() -> None:
        if not moved:
            moved.append(drilled.cluster.view().fragments[ALERTS].record.primary.node)
            for fragment in drilled.primaries(moved[0]):
                drilled.switch(fragment)

    moved: list[str] = []
    drilled = Drilled(monkeypatch, moves)
    with pytest.raises(Struck):
        drilled.drill(name, archive=tmp_path)
    ((node, primaries),) = drilled.struck
    assert node != moved[0]
    assert ALERTS in primaries
    assert drilled.history() == [BEGUN, FAILED]


@pytest.mark.parametrize("there_is", [False, True])
def test_what_no_archive_would_show_is_not_drilled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, there_is: bool
) -> None:
    drilled = Drilled(monkeypatch, lambda: None)
    primary = drilled.cluster.view().fragments[ALERTS].record.primary.node
    archive = tmp_path if there_is else tmp_path / "elsewhere"
    with pytest.raises(Struck if there_is else Inapplicable) as raised:
        drilled.drill("delay-link", f"{primary}:control-centre", archive)
    assert bool(drilled.struck) is there_is
    if not there_is:
        assert "only an archive of alerts would say" in str(raised.value)
        assert drilled.history() == []


@pytest.mark.parametrize("name", ["kill-executor", "slow-node"])
@pytest.mark.parametrize("by_node", [True, False])
def test_a_drill_spares_a_node_to_which_something_else_has_moved(
    monkeypatch: pytest.MonkeyPatch, name: str, *, by_node: bool
) -> None:
    def moves() -> None:
        node = drilled.cluster.view().fragments[ALERTS].record.primary.node
        for fragment in drilled.primaries(node):
            drilled.switch(fragment)
        elsewhere = next(n for n in drilled.cluster.view().executors if n != node)
        drilled.put("other.seen", node, elsewhere)

    drilled = Drilled(monkeypatch, moves)
    other = query_manifest(
        "other",
        "REGISTER QUERY seen RSTREAM(SELECT id FROM north [NOW]);",
        outputs={"seen": "control-centre"},
    )
    drilled.cluster.apply(Manifests(cluster=None, streams=(), queries=(other,)))
    drilled.cluster.settle()
    node = drilled.cluster.view().fragments[ALERTS].record.primary.node
    target = node if by_node else ALERTS
    with pytest.raises(Moved, match=f"'{target}': has moved meanwhile"):
        drilled.drill(name, target)
    assert not drilled.struck
    assert drilled.history() == []


def test_a_drill_whose_move_is_refused_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_acting: Acting) -> None:
        raise Refused("drain of paris", "node", "paris", "is busy", "Wait.", {})

    drilled = Drilled(monkeypatch, lambda: None)
    monkeypatch.setattr(
        drilling, "DRILLS", {"drain-and-kill": replace(DRILLS["drain-and-kill"], strike=refused)}
    )
    with pytest.raises(Refused, match="is busy"):
        drilled.drill("drain-and-kill")
    assert drilled.history() == [BEGUN, FAILED]
