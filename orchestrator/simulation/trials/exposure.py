"""Which fragments a fault takes the last warm replica of, so that their state is lost by right."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from ha.roles import ReplicaRole
from orchestrator.host.core.hosted_replica import HostedReplica
from orchestrator.records import FragmentRecord, ReplicaId
from orchestrator.simulation.trials.observed import Observed
from orchestrator.simulation.world.hosts import SimulatedHost
from orchestrator.store.protocol import FRAGMENTS
from streams.vectors.chunk import Position

Needed = dict[str, tuple[int, Position]]
"""Input of a replica → the generation and the position from which on it needs that."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """Follows what the store says of fragments, and what their hosts hold.

    Attributes
    ----------
    observed
        Is told which fragments are exposed, and which primaries the store has accepted.
    struck_output
        Fragment → the generation and the event time that the output of its struck replicas had
        reached, the furthest of them: its consumers may have as much.
    needed
        Fragment of which all other warm replicas were struck when one was behind → what that one
        needs to catch up.
    """

    observed: Observed
    struck_output: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    needed: dict[str, Needed] = field(default_factory=dict[str, Needed])

    def store_changed(self, path: str) -> None:
        """Look at a record that has changed."""
        seen = self.observed
        folder, _, name = path.partition("/")
        if folder == FRAGMENTS.path and (record := self.fragment(name)) is not None:
            seen.accepted.setdefault((name, record.epoch), set()).add(record.primary)
            host = seen.world.hosts.get(record.primary.node)
            is_deaf = host is None or not host.runs or host.store.unreachable
            needed = self.needed.get(record.fragment, {})
            if _is_new(record) and (
                is_deaf or self._is_out_of_reach(record.fragment) or not self._is_kept(needed)
            ):
                # It is placed on a host that is stopped already or reaches no store, or the hosts
                # that have its state reach none, so that they cannot learn whom to give it to. Or
                # the replica that was left did not get its input as long as producers kept that.
                seen.exposed_us.setdefault(record.fragment, seen.world.now_us)

    def expose(self, host: SimulatedHost) -> None:
        """Note the fragments of which this host has the last warm replica, or is to found one, or
        keeps back input that no replica has which is left.

        A third replica whose place has been taken protects nothing: it may be dismissed already,
        and its host has yet to hear of that.
        """
        seen = self.observed
        replicas = host.core.replica_manager.replicas
        for name, query in seen.setting.query_of.items():
            record, hosted = self.fragment(f"{query}.{name}"), replicas.get(name)
            is_warm = hosted is not None and hosted.replica.role is not ReplicaRole.WARMING
            if hosted is not None and is_warm:
                reached = _reached(hosted)
                self.struck_output[name] = max(reached, self.struck_output.get(name, reached))
            founds = (
                record is not None
                and _is_new(record)
                and record.primary.incarnation == host.incarnation
            )
            feeds = any(host.spec.node in self._sites_for_once(s) for s in self._inputs(name))
            if not is_warm and not founds and not feeds:
                continue
            left = [] if record is None else self._left(name, record, host)
            if not any(self._is_kept(needed, host) for needed in left):
                seen.exposed_us.setdefault(name, seen.world.now_us)
            self.needed[name] = min(left, key=len) if left else {}

    def _left(self, name: str, record: FragmentRecord, dying: SimulatedHost) -> list[Needed]:
        """What each warm replica needs that can go on once a host is struck."""
        hosted = dying.core.replica_manager.replicas.get(name)
        return [
            self._needed(replica, name)
            for replica in record.replicas
            if replica.incarnation != dying.incarnation
            and not _is_going(record, replica)
            and self._warm(replica, name)
            and not self._is_passed(replica, hosted)
        ]

    def _is_out_of_reach(self, fragment: str) -> bool:
        """Whether warm replicas of a fragment live, and none on a host that reaches the store."""
        holders = [
            host
            for host in self.observed.world.hosts.values()
            if (hosted := host.core.replica_manager.replicas.get(fragment)) is not None
            and host.runs
            and hosted.replica.role is not ReplicaRole.WARMING
        ]
        return bool(holders) and all(host.store.unreachable for host in holders)

    def _warm(self, replica: ReplicaId, fragment: str) -> bool:
        host = self.observed.world.hosts.get(replica.node)
        if host is None or not host.runs or host.incarnation != replica.incarnation:
            return False
        hosted = host.core.replica_manager.replicas.get(fragment)
        return hosted is not None and hosted.replica.role is not ReplicaRole.WARMING

    def _needed(self, replica: ReplicaId, fragment: str) -> Needed:
        """What a replica needs of streams that enter once, if it is behind.

        A standby that is fed in batches relies on its primary or on the producers of its input. It
        may have yet to hear how far a replica was that is lost, now or before.
        """
        hosted = self.observed.world.hosts[replica.node].core.replica_manager.replicas[fragment]
        reached = _reached(hosted)
        is_behind = hosted.replica.is_behind or reached < self.struck_output.get(fragment, reached)
        return {
            stream: (entry.cursor.generation, entry.cursor.position or Position())
            for stream, entry in hosted.replica.inputs.items()
            if is_behind and self._sites_for_once(stream)
        }

    def _is_kept(self, needed: Needed, dying: SimulatedHost | None = None) -> bool:
        """Whether sites that live keep what a replica needs.

        What a site has kept back goes down with it. And it keeps output for a few seconds only if
        it does not hear the host that demands that.
        """
        hosts = self.observed.world.hosts
        return all(
            any(
                hosts[site].runs
                and hosts[site] is not dying
                and (source := hosts[site].core.replica_manager.producer(stream)) is not None
                and source.generation == generation
                and source.log.base.next_seq <= position.next_seq
                for site in self._sites_for_once(stream)
            )
            for stream, (generation, position) in needed.items()
        )

    def _inputs(self, fragment: str) -> tuple[str, ...]:
        return self.observed.setting.every_program[fragment].inputs

    def _sites_for_once(self, stream: str) -> tuple[str, ...]:
        """The sites of a stream that enters, if what it has brought in cannot be had again."""
        recording = self.observed.setting.recordings.get(stream)
        return () if recording is None or recording.resumes else recording.sites

    def _is_passed(self, replica: ReplicaId, dying: HostedReplica | None) -> bool:
        """Whether a replica has stopped before a discontinuity, or has yet to hear of it, and one
        that dies has gone on."""
        if dying is None:
            return False
        name, output_ms = dying.replica.stream, dying.replica.log.end.watermark_ms
        hosted = self.observed.world.hosts[replica.node].core.replica_manager.replicas[name]
        has_yet_to_hear = any(
            entry.cursor.generation < dying.replica.inputs[stream].cursor.generation
            and entry.cursor.complete_ms < output_ms
            for stream, entry in hosted.replica.inputs.items()
        )
        return has_yet_to_hear or hosted.replica.is_passed_at(output_ms)

    def fragment(self, name: str) -> FragmentRecord | None:
        """A fragment's record as the store's server has it, also while that does not answer."""
        entry = self.observed.world.server.entries.get(FRAGMENTS.key(name).path)
        return None if entry is None else msgspec.json.decode(entry.data, type=FragmentRecord)


def _reached(hosted: HostedReplica) -> tuple[int, int]:
    """Up to where a replica has produced output: generation, event time."""
    return hosted.replica.generation, hosted.replica.log.end.watermark_ms


def _is_new(record: FragmentRecord) -> bool:
    """Whether a fragment's state begins with its present primary."""
    return record.epoch == record.generation


def _is_going(record: FragmentRecord, replica: ReplicaId) -> bool:
    third = record.third
    return third is not None and third.replica == replica and third.becomes is None
