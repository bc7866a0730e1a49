"""Input in any order: no work is lost, and the earliest deadline runs first."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from ha.roles import ReplicaRole, RoleEvent
from orchestrator.records import FragmentAssignment
from streams.scheduling.run_queue import Policy
from tests.quiet_host import MS, QuietHost, fragment
from tests.streams_of_numbers import chunk

CHAINS = 3

Step = tuple[str, int, int]
"""What happens, to which chain, and a number."""

lengths = st.lists(st.integers(1, 3), min_size=CHAINS, max_size=CHAINS)
steps = st.lists(
    st.tuples(st.sampled_from(["come", "come", "work", "pass"]), st.integers(0, 2), st.just(0))
    | st.tuples(st.just("role"), st.integers(0, 2), st.integers(0, 2)),
    max_size=30,
)


@dataclass(slots=True)
class Chain:
    """A chain of replicas, and the input that has entered it and has not left."""

    stream: str
    names: list[str]
    sub_deadline_us: int
    entered: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    next_seq: int = 0


def chains_of(sizes: list[int]) -> list[Chain]:
    return [
        Chain(
            stream=f"s{i}",
            names=[f"c{i}o{k}" for k in range(size)],
            sub_deadline_us=(3 + 4 * i) * size * MS,
        )
        for i, size in enumerate(sizes)
    ]


def replicas(chain: Chain) -> list[FragmentAssignment]:
    return [
        fragment(
            name,
            chain.stream if k == 0 else chain.names[k - 1],
            sub_deadline_ms=chain.sub_deadline_us / len(chain.names) / MS,
            standby_lag_ms=30.0,
            readers_ms={reader: 100.0},
        )
        for k, (name, reader) in enumerate(
            zip(chain.names, [*chain.names[1:], f"sink:{chain.names[-1]}"], strict=True)
        )
    ]


def come(host: QuietHost, chain: Chain) -> None:
    timestamp_group = chain.next_seq + 1
    host.arrive(chain.stream, chunk(chain.next_seq, [(timestamp_group, 1)]))
    chain.next_seq += 1
    chain.entered.append((timestamp_group, host.now_us))


def drop_what_left(host: QuietHost, chain: Chain) -> None:
    watermark_ms = host.replica_manager.replicas[chain.names[-1]].replica.output_watermark_ms or 0
    chain.entered = [
        (timestamp_group, at)
        for timestamp_group, at in chain.entered
        if timestamp_group > watermark_ms
    ]


@settings(max_examples=150, deadline=None)
@given(lengths, steps, st.sampled_from(list(Policy)), st.sampled_from([0.0, 5.0]))
def test_no_work_is_ever_lost(
    sizes: list[int], events: list[Step], policy: Policy, batch_ms: float
) -> None:
    chains = chains_of(sizes)
    everything = [replica for chain in chains for replica in replicas(chain)]
    host = QuietHost(*everything, policy=policy, batch_ms=batch_ms)
    for kind, which, number in events:
        chain = chains[which]
        match kind:
            case "come":
                come(host, chain)
            case "work":
                host.step(took_us=MS)
            case "role":
                name = chain.names[number % len(chain.names)]
                primary = host.replica_manager.replicas[name].replica.role is ReplicaRole.PRIMARY
                host.change_role(
                    name, RoleEvent.SUPERSEDED if primary else RoleEvent.PEER_REPLICA_LOST
                )
            case _:
                host.now_us += 2 * MS
        assert (host.dispatcher.next_us is not None) == bool(host.with_work)
    while (due_us := host.dispatcher.next_us) is not None:
        host.now_us = max(host.now_us, due_us)
        assert host.step() is not None
    assert not host.with_work
    for chain in chains:
        first = host.replica_manager.replicas[chain.names[0]].replica
        assert first.log.end.next_seq == chain.next_seq


@settings(max_examples=150, deadline=None)
@given(lengths, steps)
def test_the_earliest_deadline_runs_first(sizes: list[int], events: list[Step]) -> None:
    chains = chains_of(sizes)
    host = QuietHost(*(c for chain in chains for c in replicas(chain)))
    for kind, which, _ in [*events, *(("work", 0, 0),) * 100]:
        match kind:
            case "come":
                come(host, chains[which])
            case "work":
                due_us = {
                    chain.names[0]: chain.entered[0][1] + chain.sub_deadline_us
                    for chain in chains
                    if host.with_work.intersection(chain.names)
                }
                # What is overdue may be deferred, and then waits for what can be in time.
                late_us = host.now_us
                dispatch = host.step(took_us=MS)
                assert (dispatch is None) == (not due_us)
                if dispatch is not None:
                    (chain,) = (c for c in chains if dispatch.fragment in c.names)
                    due, first = due_us[chain.names[0]], min(due_us.values())
                    in_time = [each for each in due_us.values() if each >= late_us]
                    assert due == first or first < late_us
                    assert due < late_us or due == min(in_time)
                    drop_what_left(host, chain)
            case _:
                host.now_us += 2 * MS
    assert not any(chain.entered for chain in chains)
    # Nothing of what has left makes haste now.
    host.now_us += 1000 * MS
    for chain in reversed(chains):
        come(host, chain)
    order = sorted(chains, key=lambda chain: chain.sub_deadline_us)
    assert host.steps()[0] in [
        chain.names[0] for chain in order if chain.sub_deadline_us == order[0].sub_deadline_us
    ]


@settings(max_examples=100, deadline=None)
@given(lengths, steps, st.sampled_from(list(Policy)))
def test_tasks_rest_between_beginnings(
    sizes: list[int], events: list[Step], policy: Policy
) -> None:
    batch_us = 7 * MS
    chains = chains_of(sizes)
    everything = [replica for chain in chains for replica in replicas(chain)]
    host = QuietHost(*everything, policy=policy, batch_ms=batch_us / MS)
    began_us: dict[str, int] = {}
    heads = {chain.names[0] for chain in chains}
    for kind, which, _ in events:
        match kind:
            case "come":
                come(host, chains[which])
            case "work":
                at_us = host.now_us
                # Tuples seem to cost nothing: all that wait fit into a batch.
                dispatch = host.step()
                host.now_us += MS
                if dispatch is not None and dispatch.fragment in heads:
                    # A rest ends at a multiple of its length.
                    before_us = began_us.get(dispatch.fragment, -batch_us)
                    assert at_us // batch_us > before_us // batch_us
                    began_us[dispatch.fragment] = at_us
            case _:
                host.now_us += 2 * MS
