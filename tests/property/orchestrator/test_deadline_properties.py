"""Queries come and go, share streams, cost more than was thought, and lose their nodes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.decide.writes import decide
from orchestrator.control.observe.view import LEAST_SAMPLES
from orchestrator.control.planning.workload import workload
from orchestrator.manifest import Manifests, QueryManifest
from orchestrator.records import CostStatus, Estimate
from orchestrator.store.protocol import QUERIES
from tests.obedient_cluster import ObedientCluster, aircraft, places_ms, query_manifest
from tests.property.orchestrator.test_decide_properties import act


def query(
    name: str,
    fragments: Mapping[str, str],
    deadline_ms: float,
    *,
    cost_us: float = 50.0,
    node: str | None = None,
) -> QueryManifest:
    """Fragments by what they read; the last one goes to the sink."""
    statements: list[str] = []
    for each, reads in fragments.items():
        parts = [f"SELECT id, x FROM {stream} [NOW]" for stream in reads.split()]
        statements.append(f"REGISTER QUERY {each} RSTREAM({' UNION ALL '.join(parts)});")
    made = query_manifest(
        name,
        "".join(statements),
        outputs={[*fragments][-1]: "control-centre"},
        deadline_ms=deadline_ms,
        recovery_bound_ms=2000.0,
    )
    record = msgspec.structs.replace(
        made.record,
        estimates={each: Estimate(cost_us=cost_us) for each in fragments},
        primaries=dict.fromkeys(fragments, (node,)) if node else {},
    )
    return msgspec.structs.replace(made, record=record)


POOL = (
    query("base", {"a": "north", "b": "a"}, 250),
    query("side", {"c": "a"}, 100),
    query("join", {"d": "a south", "e": "d"}, 280),
    query("later", {"f": "e", "g": "f a"}, 299),
    query("busy", {"h": "north"}, 200, cost_us=3000, node="paris"),
    query("busier", {"i": "south"}, 190, cost_us=2500, node="paris"),
    query("lean", {"j": "south"}, 120, cost_us=100, node="paris"),
    query("hopeless", {"k": "north"}, 5),
)

which = st.integers(0, len(POOL) - 1)
comings = st.tuples(st.sampled_from(["apply", "submit", "submit", "plan", "withdraw"]), which)
"""Queries come without a plan, with one, or with one that was made some time before."""
faults = st.tuples(
    st.sampled_from(["kill", "kill", "up", "wait", "take over", "obey", "decide", "cost"]),
    st.integers(0, len(places_ms) - 1),
)


def happen(cluster: ObedientCluster, action: str, number: int) -> None:
    name = POOL[number % len(POOL)].record.name
    running = cluster.view().queries
    match action:
        case "apply":
            if name not in running:
                one = POOL[number]
                cluster.apply(Manifests(cluster=None, streams=(), queries=(one,)))
        case "submit" | "plan":
            if name not in running:
                plan(cluster, POOL[number])
                if action == "submit":
                    cluster.apply(Manifests(cluster=None, streams=(), queries=(POOL[number],)))
        case "withdraw":
            if name in running:
                cluster.store.delete(QUERIES.key(name), running[name].version)
        case "cost":
            told = CostStatus(fixed_us=9.0, per_tuple_us=99.0 * number, samples=LEAST_SAMPLES)
            for host in cluster.hosts.values():
                host.costs = dict.fromkeys("abcdefghijk", told)
        case _:
            act(cluster, action, tuple(places_ms)[number])


def plan(cluster: ObedientCluster, one: QueryManifest) -> None:
    """Ask for a plan and want it, if there is one; later it is carried out, or refused."""
    name = f"asked-{len(cluster.server.entries)}"
    manifests = Manifests(cluster=None, streams=(), queries=(one,))
    if name not in cluster.view().requests and cluster.propose(manifests, name).refusal is None:
        cluster.consent(name)


def begun() -> ObedientCluster:
    cluster = ObedientCluster()
    cluster.apply(Manifests(cluster=None, streams=aircraft().streams, queries=()))
    return cluster


def check_demand(cluster: ObedientCluster) -> None:
    """On every node, all that is due by some time can be done by then, earliest deadline first."""
    view = cluster.view()
    records = {found.record.fragment: found.record for found in view.fragments.values()}

    def together(one: str, other: str) -> bool:
        return records[one].primary == records[other].primary

    model = workload(view, view.dataflow, view.stream_records, view.query_records)
    placed = [name for name in model.fragments if name in records]
    work: dict[str, list[tuple[float, float]]] = {}
    for chain in model.chains(placed, together):
        timings = [records[name].timing for name in chain]
        due = sum(t.sub_deadline_ms for t in timings), sum(t.cost_ms for t in timings)
        work.setdefault(records[chain[0]].primary.node, []).append(due)
    for node, due in work.items():
        done_ms = 0.0
        for deadline_ms, cost_ms in sorted(due):
            done_ms += cost_ms
            assert done_ms <= deadline_ms + 1e-3, f"{node}: {sorted(due)}"


@settings(max_examples=20, deadline=None)
@given(st.lists(comings, max_size=12))
def test_whatever_is_admitted_can_be_done_in_time(story: list[tuple[str, int]]) -> None:
    cluster = begun()
    for action, number in story:
        happen(cluster, action, number)
        cluster.settle()
        cluster.check_invariants()
        check_demand(cluster)
        view = cluster.view()
        for found in view.fragments.values():
            assert found.record.timing.sub_deadline_ms >= found.record.timing.cost_ms
        assert "hopeless.k" not in view.fragments


@settings(max_examples=30, deadline=None)
@given(st.lists(comings | faults, max_size=14))
def test_decisions_about_shared_streams_are_legal_and_come_to_rest(
    story: list[tuple[str, int]],
) -> None:
    cluster = begun()
    for action, number in story:
        happen(cluster, action, number)
        # What a new primary costs is noted a decision later, and may let in what was refused.
        for _ in range(3):
            for write in decide(cluster.view(), cluster.now_us, DecisionSettings()).writes:
                cluster.write(write)
                cluster.check_invariants()
        assert decide(cluster.view(), cluster.now_us, DecisionSettings()).writes == ()
    for found in cluster.view().fragments.values():
        timing = found.record.timing
        assert min(timing.sub_deadline_ms, timing.standby_lag_ms, timing.cost_ms) > 0
