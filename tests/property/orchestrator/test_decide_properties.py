"""Whatever happens to nodes, in whatever order, what is decided is legal and final."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.decide.writes import decide
from orchestrator.records import CordonRecord, MovePlan, MoveStep
from orchestrator.store.protocol import CORDONS, MOVES, QUERIES, STREAMS
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft, places_ms

nodes = st.sampled_from(tuple(places_ms))
actions = st.lists(
    st.one_of(
        st.tuples(st.just("kill"), nodes),
        st.tuples(st.just("up"), nodes),
        st.tuples(st.just("cold"), st.sampled_from(EXECUTORS)),
        st.tuples(st.just("wait"), st.just("")),
        st.tuples(st.just("take over"), st.just("")),
        st.tuples(st.just("obey"), st.just("")),
        st.tuples(st.just("decide"), st.just("")),
        st.tuples(st.just("move primary"), nodes),
        st.tuples(st.just("move secondary"), nodes),
        st.tuples(st.just("cordon"), nodes),
        st.tuples(st.just("apply again"), st.just("")),
    ),
    max_size=14,
)


def act(cluster: ObedientCluster, action: str, node: str) -> None:
    match action:
        case "kill":
            if node in cluster.hosts:
                cluster.kill(node)
        case "up":
            cluster.up(node)
        case "cold":
            if node in cluster.hosts:
                cluster.hosts[node].cold = True
        case "wait":
            cluster.now_us += DecisionSettings().takeover_grace_us
        case "take over":
            view = cluster.view()
            for found in view.fragments.values():
                if view.alive(found.record.secondary) and not view.alive(found.record.primary):
                    cluster.take_over(found.record, found.version)
        case "move primary" | "move secondary":
            role = "primary" if action == "move primary" else "secondary"
            step = MoveStep(fragment="proximity.alerts", role=role, node=node)
            name = f"move-{len(cluster.view().moves)}"
            plan = MovePlan(name=name, steps=(step,), submitted_us=cluster.now_us)
            cluster.store.create(MOVES.key(name), plan)
        case "cordon":
            if node not in cluster.view().cordoned:
                record = CordonRecord(node=node, since_us=cluster.now_us)
                cluster.store.create(CORDONS.key(node), record)
        case "apply again":
            view = cluster.view()
            cluster.store.delete(QUERIES.key("proximity"), view.queries["proximity"].version)
            cluster.settle_coordinator()
            # The leader misses that the streams were gone.
            for name, found in view.streams.items():
                cluster.store.delete(STREAMS.key(name), found.version)
            cluster.apply(aircraft())
        case "obey":
            for host in cluster.hosts.values():
                host.obey()
        case _:
            cluster.settle_coordinator()


@settings(max_examples=60, deadline=None)
@given(actions)
@example([("wait", ""), ("move primary", "london"), ("move primary", "paris"), ("obey", "")])
def test_decisions_are_legal_and_idempotent(story: list[tuple[str, str]]) -> None:
    """Deciding again yields nothing, unless the journal of moves has just told of a step: then the
    fragment's next one may follow."""
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    for action, node in story:
        act(cluster, action, node)
        cluster.check_invariants()
        tells = True
        for _ in range(2 * len(story) + 1):
            if not tells:
                break
            writes = decide(cluster.view(), cluster.now_us, DecisionSettings()).writes
            for write in writes:
                cluster.write(write)
                cluster.check_invariants()
            tells = any(write.key.path.startswith(MOVES.path) for write in writes)
        assert decide(cluster.view(), cluster.now_us, DecisionSettings()).writes == ()


@settings(max_examples=30, deadline=None)
@given(actions)
def test_every_query_is_protected_once_faults_end(story: list[tuple[str, str]]) -> None:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    for action, node in story:
        act(cluster, action, node)
    for name, found in cluster.view().cordons.items():
        cluster.store.delete(CORDONS.key(name), found.version)
    for name in places_ms:
        if name not in cluster.hosts:
            cluster.up(name)
        cluster.hosts[name].cold = False
    for _ in range(3):
        cluster.settle()
        cluster.now_us += DecisionSettings().takeover_grace_us
    cluster.settle()
    view = cluster.view()
    assert len(view.fragments) == 3
    assert all(view.settled(found.record) for found in view.fragments.values())
    assert all(found.record.ended_us is not None for found in view.moves.values())
