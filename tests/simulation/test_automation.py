"""Random changes one after the other, and a leader that moves replicas by itself.

`make automation SEEDS=200` plays more seeds; a failure names the seed and the change.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest

from orchestrator.control.decide.automation import PROPOSED
from orchestrator.control.decide.move_steps import Places, then
from orchestrator.control.decide.steadiness import AUTOMATION, HOUR_US
from orchestrator.control.planning.planner import Planning
from orchestrator.manifest import Manifests
from orchestrator.records import (
    AutomationMode,
    CordonRecord,
    CostStatus,
    Estimate,
    MovePlan,
    ReplicaLoad,
)
from orchestrator.store.protocol import CORDONS
from tests.automated import AutomatedCluster
from tests.long_tests import mostly_long
from tests.obedient_cluster import EXECUTORS, places_ms, query_manifest

FROM, SEEDS = (
    int(os.environ.get(f"AUTOMATION_{name}") or n) for name, n in (("FROM", 0), ("SEEDS", 6))
)

CHANGES = 20

MOVES_AN_HOUR = 10

STATE_BYTES = 200_000

WAITS_S = (6.0, 65.0, 300.0)
"""After a change: until it is noticed, until round trips count, and until rates do."""

LEAST_NODES = 4

NORTHERN = """\
REGISTER QUERY northern ISTREAM(SELECT id, x FROM north [RANGE 10 SECONDS] WHERE x > 1);
"""

SOUTHERN = """\
REGISTER QUERY southern RSTREAM(SELECT id, x FROM south [NOW] WHERE x > 2);
REGISTER QUERY southernmost RSTREAM(SELECT id, x FROM southern [NOW] WHERE x > 3);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeMove:
    """A move that the leader has made by itself."""

    change: int
    begun_us: int
    fragment: str
    left: tuple[tuple[str, str], ...]
    """Role, and the node that it has left."""
    reached: tuple[tuple[str, str], ...]
    told: str
    """The event of its proposal."""


class DriftingCluster(AutomatedCluster):
    """A cluster around which something changes now and then.

    Attributes
    ----------
    made
        All moves so far, and the changes before them.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng((seed, 46))
        self.made: list[MadeMove] = []
        self.changes: list[str] = []
        self._seen: set[str] = set()
        super().__init__(AutomationMode.APPLY, moves_an_hour=MOVES_AN_HOUR)
        self.apply(_more())
        for host in self.hosts.values():
            host.state_bytes = STATE_BYTES
        self.settle()

    def up(self, name: str) -> None:
        """Start a host, which reports what all of them do."""
        known = next(iter(self.hosts.values()), None)
        super().up(name)
        if known is not None:
            host = self.hosts[name]
            host.state_bytes = known.state_bytes
            host.costs, host.loads = known.costs, known.loads

    def wait(self, seconds: float) -> None:
        """Let time pass; check what the leader does meanwhile."""
        self.now_us += round(seconds * 1e6)
        broken = self.broken()
        self.settle()
        plans = [p for p in self.plans() if p.ended_us is not None and p.name not in self._seen]
        for plan in plans:
            self._seen.add(plan.name)
            assert all(step.done for step in plan.steps), plan.outcome
            self.made += self._moves_of(plan)
        if plans:
            # Nothing else has changed in between.
            assert self.broken() <= broken, f"{plans} break {self.broken() - broken}"

    def disturbed(self) -> None:
        """Have something change, and the leader do what follows."""
        self.change()
        for seconds in WAITS_S:
            self.wait(seconds)

    def plans(self) -> list[MovePlan]:
        """Those that nobody has asked for."""
        found = [each.record for each in self.view().moves.values()]
        return [plan for plan in found if plan.by == AUTOMATION]

    def broken(self) -> set[str]:
        """Promises that are broken by what is measured now."""
        planning = Planning.of(self.view())
        found: set[str] = set()
        for query in planning.queries:
            if not planning.runs(query):
                continue
            (figures,) = planning.evaluate(query).queries
            if figures.latency_ms > figures.deadline_ms:
                found.add(f"the deadline of {query}")
            if figures.recovery_ms > figures.bound_ms:
                found.add(f"the bound of {query}")
        return found

    def _moves_of(self, plan: MovePlan) -> Iterator[MadeMove]:
        events = {
            e.event.subject: e.event for e in self.store.history() if e.event.kind == PROPOSED
        }
        for step in plan.steps:
            assert step.was is not None
            assert step.begun_us is not None
            was = Places(primary=step.was[0], secondary=step.was[1])
            now = then(was, step)
            pairs = (
                ("primary", was.primary, now.primary),
                ("secondary", was.secondary, now.secondary),
            )
            yield MadeMove(
                change=len(self.changes),
                begun_us=step.begun_us,
                fragment=step.fragment,
                left=tuple((role, old) for role, old, new in pairs if old != new),
                reached=tuple((role, new) for role, old, new in pairs if old != new),
                told=events[plan.digest].detail,
            )

    def change(self) -> None:
        """Have something change."""
        live = [name for name in EXECUTORS if name in self.hosts]
        possible = [self._distance, self._distance, self._link, self._rate, self._cost]
        if len(live) > LEAST_NODES:
            possible.append(self._loss)
        if len(live) < len(EXECUTORS):
            possible.append(self._return)
        possible.append(self._uncordon if self.view().cordons else self._cordon)
        self.changes.append(possible[int(self.rng.integers(len(possible)))]())

    def _one(self, names: list[str]) -> str:
        return str(self.rng.choice(sorted(names)))

    def _distance(self) -> str:
        name, by_ms = self._one([*self.hosts]), float(self.rng.uniform(-20, 30))
        for other in self.hosts.keys() - {name}:
            self._tell(name, other, self.hosts[name].record.latencies_ms[other] + by_ms)
        return f"{name} farther by {by_ms:.1f} ms"

    def _link(self) -> str:
        one = self._one([*self.hosts])
        other = self._one([*self.hosts.keys() - {one}])
        rtt_ms = float(self.rng.uniform(1, 50))
        self._tell(one, other, rtt_ms)
        return f"{one}–{other} {rtt_ms:.1f} ms"

    def _tell(self, one: str, other: str, rtt_ms: float) -> None:
        for here, there in ((one, other), (other, one)):
            record = self.hosts[here].record
            told = {**record.latencies_ms, there: max(rtt_ms, 0.5)}
            spreads = {**record.spreads_ms, there: 0.5}
            self.hosts[here].tell(latencies_ms=told, spreads_ms=spreads)

    def _rate(self) -> str:
        name = self._one([found.record.fragment for found in self.view().fragments.values()])
        tuples_s = float(self.rng.uniform(500, 8000))
        load = ReplicaLoad(
            cores=0.05, evaluations_s=10.0, timestamps_s=10.0, tuples_s=tuples_s,
            emitted_s=tuples_s * float(self.rng.uniform(0.1, 1.0)),
        )  # fmt: skip
        for host in self.hosts.values():
            host.loads = {**host.loads, name: load}
        return f"{name} {tuples_s:.0f} tuples/s"

    def _cost(self) -> str:
        name = self._one([found.record.fragment for found in self.view().fragments.values()])
        cost = CostStatus(
            fixed_us=float(self.rng.uniform(50, 500)),
            per_tuple_us=float(self.rng.uniform(1, 40)),
            samples=1000,
        )
        for host in self.hosts.values():
            host.costs = {**host.costs, name: cost}
        return f"{name} {cost.per_tuple_us:.1f} us a tuple"

    def _loss(self) -> str:
        name = self._one([name for name in EXECUTORS if name in self.hosts])
        for found in self.view().fragments.values():
            if found.record.primary.node == name:
                self.take_over(found.record, found.version)
        self.kill(name)
        return f"{name} lost"

    def _return(self) -> str:
        name = self._one([name for name in EXECUTORS if name not in self.hosts])
        self.up(name)
        return f"{name} back"

    def _cordon(self) -> str:
        name = self._one([name for name in EXECUTORS if name in self.hosts])
        record = CordonRecord(node=name, since_us=self.now_us)
        self.store.create(CORDONS.key(name), record)
        return f"{name} cordoned"

    def _uncordon(self) -> str:
        name, found = next(iter(self.view().cordons.items()))
        self.store.delete(CORDONS.key(name), found.version)
        return f"{name} uncordoned"


def _more() -> Manifests:
    """Two more queries beside the first one."""
    queries = [
        query_manifest("north_side", NORTHERN, outputs={"northern": "control-centre"}),
        query_manifest("south_side", SOUTHERN, outputs={"southernmost": "north-receiver"}),
    ]
    names = [("northern",), ("southern", "southernmost")]
    stated = [
        msgspec.structs.replace(
            query.record,
            estimates=dict.fromkeys(made, Estimate(cost_us=20.0, selectivity=0.8)),
        )
        for query, made in zip(queries, names, strict=True)
    ]
    return Manifests(
        cluster=None,
        streams=(),
        queries=tuple(
            msgspec.structs.replace(query, record=record)
            for query, record in zip(queries, stated, strict=True)
        ),
    )


def check_undone(made: list[MadeMove]) -> None:
    """No two plans undo each other, unless what was measured between them says so."""
    for number, now in enumerate(made):
        for before in made[:number]:
            if now.fragment != before.fragment or now.begun_us - before.begun_us >= HOUR_US:
                continue
            if not {*now.reached} & {*before.left} or now.told == before.told:
                continue
            assert now.change > before.change, (before, now)
            assert "takes back" in now.told, (before, now)


def check_budget(made: list[MadeMove]) -> None:
    """Within any hour there are no more moves than may be."""
    for last in made:
        within = [each for each in made if 0 <= last.begun_us - each.begun_us < HOUR_US]
        assert len(within) <= MOVES_AN_HOUR, within


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_long(range(FROM, FROM + SEEDS)))
def test_nothing_goes_back_and_forth_and_promises_and_budget_are_kept(seed: int) -> None:
    cluster = DriftingCluster(seed)
    assert cluster.hosts.keys() == places_ms.keys()
    for _ in range(CHANGES):
        cluster.disturbed()
    told = cluster.changes
    check_undone(cluster.made)
    check_budget(cluster.made)
    # With the budget of another hour it comes to an end.
    cluster.wait(HOUR_US / 1e6)
    for seconds in WAITS_S:
        cluster.wait(seconds)
    moves = len(cluster.made)
    for seconds in WAITS_S:
        cluster.wait(seconds)
    assert len(cluster.made) == moves, told
    assert not cluster.coordination.internal_errors
