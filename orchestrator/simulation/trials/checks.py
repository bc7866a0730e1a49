"""The promises, checked after a trial: each broken one is a finding, in a sentence.

This module checks the state in which the trial came to rest.
`orchestrator.simulation.trials.content_checks` checks the tuples at sinks, observers and visitors,
and `timing_checks` when they arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ha.messages import EVERY_TUPLE
from ha.replica import Replica
from ha.roles import ReplicaRole
from orchestrator.host.core.hosted_replica import HostedReplica
from orchestrator.simulation.trials.content_checks import content, losses_us
from orchestrator.simulation.trials.faults import Everything
from orchestrator.simulation.trials.observed import Observed
from orchestrator.simulation.trials.oracle import ExpectedStream
from orchestrator.simulation.trials.timing_checks import timing
from placement.standby_schemes import NO_CHECKPOINTS
from streams.vectors.chunk import Position


def findings(
    seen: Observed, expected: dict[str, ExpectedStream], calm: Callable[[], Observed]
) -> list[str]:
    """Every promise that was broken.

    Parameters
    ----------
    expected
        By stream, the right tuples.
    calm
        Plays the same trial without faults, if a check must know what is late even then.
    """
    return [
        *(f"liveness: {each}" for each in seen.stuck),
        *(f"process: {each}" for each in seen.broken),
        *_redundancy(seen),
        *_state_lost(seen),
        *_needlessly_lost(seen),
        *seen.elsewhere,
        *content(seen, expected),
        *_replicas(seen, expected),
        *_source_sites(seen),
        *_acknowledged(seen),
        *_diverged(seen),
        *_primaries(seen),
        *_budgets(seen),
        *timing(seen, calm),
    ]


def _redundancy(seen: Observed) -> Iterator[str]:
    if not seen.healed and seen.began_us:
        yield "redundancy: not every fragment has two warm replicas at the end"
    for fragment in seen.together:
        yield f"redundancy: both replicas of {fragment} may die together at the end"


def _state_lost(seen: Observed) -> Iterator[str]:
    for fragment, at_us in losses_us(seen).items():
        if not any(name in seen.exposed_us for name in seen.setting.upstream(fragment)):
            yield (
                f"state: {fragment} began from nothing at {_ms(seen, at_us)}, "
                "though a warm replica lived"
            )


def _needlessly_lost(seen: Observed) -> Iterator[str]:
    """States that are lost although everything had a whole checkpoint, and input can be read
    again."""
    faults = seen.schedule.faults
    if len(faults) != 1 or not isinstance(fault := faults[0], Everything) or fault.damaged:
        return
    if seen.schedule.operations or seen.schedule.rollouts or seen.kept is None:
        return
    all_resume = all(each.resumes for each in seen.setting.recordings.values())
    if not all_resume or len(seen.kept) < len(seen.running):
        return
    for fragment, at_us in losses_us(seen).items():
        yield f"state: {fragment} began from nothing at {_ms(seen, at_us)}, and has a checkpoint"


def _replicas(seen: Observed, expected: dict[str, ExpectedStream]) -> Iterator[str]:
    """Both replicas have evaluated everything, and are in the same state."""
    if seen.stuck or not seen.healed:
        return
    for name in sorted(seen.running):
        pair = sorted(_hosted(seen, name), key=lambda hosted: hosted.replica.role.value)
        roles = [hosted.replica.role for hosted in pair]
        if roles != [ReplicaRole.PRIMARY, ReplicaRole.STANDBY]:
            yield f"replicas: {name} has {', '.join(role.value for role in roles)}"
            continue
        one, other = (hosted.replica for hosted in pair)
        gathers = _gathers(pair[1])
        for replica in (one,) if gathers else (one, other):
            reached_ms = replica.output_watermark_ms
            if reached_ms is None or reached_ms < expected[name].end_ms:
                yield f"reader: the {replica.role.value} of {name} stopped at {reached_ms}"
        if one.generation != other.generation:
            both = f"{one.generation} and {other.generation}"
            yield f"replicas: those of {name} are of generations {both}"
        elif gathers:
            yield from _kept_back(name, pair[1].assignment.batch, one, other)
        elif one.log.end != other.log.end:
            yield f"replicas: those of {name} end at {one.log.end} and {other.log.end}"
        elif one.engine.snapshot() != other.engine.snapshot():
            yield f"replicas: those of {name} are in different states"


def _hosted(seen: Observed, fragment: str) -> list[HostedReplica]:
    managers = [host.core.replica_manager for host in seen.world.hosts.values()]
    return [found for each in managers if (found := each.replicas.get(fragment)) is not None]


def _gathers(hosted: HostedReplica) -> bool:
    """Whether a standby is behind because it is sent batches and no checkpoints.

    At the end of a stream, a producer keeps back less than a batch.
    """
    assigned, replica = hosted.assignment, hosted.replica
    batches_alone = assigned.batch != EVERY_TUPLE and assigned.checkpoint_ms == NO_CHECKPOINTS
    return batches_alone and replica.role is ReplicaRole.STANDBY and replica.is_behind


def _kept_back(name: str, batch: int, primary: Replica, standby: Replica) -> Iterator[str]:
    """Inputs of which a standby lacks as much as a batch, or other output than the primary's."""
    for stream, entry in primary.inputs.items():
        cursors = entry.cursor, standby.inputs[stream].cursor
        generations = [cursor.generation for cursor in cursors]
        if generations[0] != generations[1]:
            yield f"reader: the replicas of {name} read generations {generations} of {stream}"
            continue
        ends = [cursor.position or Position() for cursor in cursors]
        if (lacks := ends[0].next_seq - ends[1].next_seq) >= batch:
            yield f"reader: the standby of {name} lacks {lacks} tuples of {stream}"
    if primary.log.contradicts(standby.log.end):
        yield f"replicas: the standby of {name} ends at {standby.log.end}, unlike its primary"


def _source_sites(seen: Observed) -> Iterator[str]:
    """One of a stream's two sites feeds its consumers, and the other one has read as much, or
    nothing if the stream cannot resume."""
    if seen.stuck or not seen.healed:
        return
    for stream, recording in seen.setting.recordings.items():
        if recording.standby is None:
            continue
        found = [
            seen.world.hosts[site].core.replica_manager.sources.get(stream)
            for site in recording.sites
        ]
        pair = [source for source in found if source is not None]
        roles = sorted(source.role.value for source in pair)
        wanted = [ReplicaRole.PRIMARY.value]
        if recording.resumes:
            wanted.append(ReplicaRole.STANDBY.value)
        if roles != wanted:
            yield f"sites: sources of {stream} are {', '.join(roles)}"
        elif len({source.log.end for source in pair}) > 1:
            yield f"sites: those of {stream} end at {pair[0].log.end} and {pair[1].log.end}"


def _acknowledged(seen: Observed) -> Iterator[str]:
    """Every reader has acknowledged everything, and producers keep nothing for those that left.

    A standby that gathers may be behind the acknowledgements, since its primary has sent that
    output.
    """
    if seen.stuck or not seen.healed:
        return
    for node, host in sorted(seen.world.hosts.items()):
        manager = host.core.replica_manager
        logs = {name: hosted.replica.log for name, hosted in manager.replicas.items()}
        gathering = {name for name, hosted in manager.replicas.items() if _gathers(hosted)}
        logs |= {name: source.log for name, source in manager.sources.items()}
        for name, log in logs.items():
            for reader, subscriber in log.subscribers.items():
                if (read_by := seen.world.hosts.get(reader)) is None or not read_by.alive:
                    continue
                replicas = read_by.core.replica_manager.replicas.values()
                if any(name in each.replica.inputs and _gathers(each) for each in replicas):
                    continue
                acknowledged = subscriber.acknowledged.next_seq
                is_ahead = name in gathering and acknowledged > log.end.next_seq
                if acknowledged != log.end.next_seq and not is_ahead:
                    yield (
                        f"reader: {reader} has acknowledged {acknowledged} of "
                        f"{log.end.next_seq} tuples of {name} at {node}"
                    )


def _diverged(seen: Observed) -> Iterator[str]:
    """Replicas never have different output, as long as none of their state was lost."""
    if seen.exposed_us:
        return
    for entry in seen.entries:
        if entry.text.startswith("diverged "):
            yield f"replicas: at {_ms(seen, entry.at_us)}, {entry.text}"


def _primaries(seen: Observed) -> Iterator[str]:
    for (name, epoch), accepted in seen.accepted.items():
        if len(accepted) > 1:
            nodes = ", ".join(sorted(each.node for each in accepted))
            yield f"epochs: {name} had primaries {nodes} in epoch {epoch}"


def _budgets(seen: Observed) -> Iterator[str]:
    for node, memory in seen.over_budget.items():
        yield f"memory: the queues of {node} took {memory.used} of {memory.budget} bytes: {memory}"


def _ms(seen: Observed, at_us: int) -> str:
    return f"{(at_us - seen.began_us) / 1000:.0f} ms"
