"""Replicas of fragments and their dispatcher on one host, without messages, clock or store.

The output of a replica is handed to its readers here, as a host's messages to itself are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ha.memory import MemoryBudget
from ha.messages import Data
from ha.roles import RoleEvent
from orchestrator.host.core.dispatcher import Dispatch, Dispatcher
from orchestrator.host.core.replica_manager import ReplicaManager
from orchestrator.records import Assignment, FragmentAssignment
from streams.scheduling.batching import BatchingPolicy
from streams.scheduling.run_queue import Policy
from streams.vectors.chunk import Chunk, Position

COLUMNS = {"number": "int"}
MS = 1000


def fragment(
    name: str,
    reads: str = "s",
    *,
    role: str = "primary",
    sub_deadline_ms: float = 10.0,
    standby_lag_ms: float = 100.0,
    readers_ms: Mapping[str, float] | None = None,
    cost_us: float = 20.0,
    generation: int = 1,
    epoch: int = 1,
    real_time: str = "",
) -> FragmentAssignment:
    """A replica that passes on the tuples of some streams, whose names are separated by spaces.

    With `RTSPEC …` it shows the newest one of each.
    """
    window = "ROWS 1" if real_time else "NOW"
    parts = [f"SELECT number FROM {stream} [{window}]" for stream in reads.split()]
    return FragmentAssignment(
        query="q",
        fragment=name,
        statement=f"REGISTER QUERY {name} RSTREAM({' UNION ALL '.join(parts)}) {real_time};",
        inputs=dict.fromkeys(reads.split(), COLUMNS),
        role="primary" if role == "primary" else "secondary",
        epoch=epoch,
        generation=generation,
        peer_replica="peer",
        sub_deadline_ms=sub_deadline_ms,
        standby_lag_ms=standby_lag_ms,
        readers_ms={f"sink:{name}": 100.0} if readers_ms is None else dict(readers_ms),
        cost_us=cost_us,
    )


class QuietHost:
    """Replicas of one host; secondaries are warm from the start."""

    def __init__(
        self,
        *replicas: FragmentAssignment,
        policy: Policy = Policy.EDF,
        batch_ms: float = 0.0,
        policies: Callable[[str], BatchingPolicy] | None = None,
    ) -> None:
        self.now_us = 0
        self.replica_manager = ReplicaManager("one", MemoryBudget(2**28))
        self.dispatcher = Dispatcher(
            self.replica_manager.replicas, policy, round(batch_ms * MS), policies=policies
        )
        self.assign(*replicas)

    def assign(self, *replicas: FragmentAssignment) -> None:
        """Run these and nothing else."""
        before = {name: each.replica for name, each in self.replica_manager.replicas.items()}
        self.replica_manager.apply(Assignment(incarnation="1", fragments=replicas), self.now_us)
        for name, hosted in self.replica_manager.replicas.items():
            if before.get(name) is not hosted.replica:
                self._begin(name)
        self.dispatcher.rebuild_tasks(self.now_us)

    def change_role(self, name: str, event: RoleEvent) -> None:
        """Apply a role event to a replica; one that brings an epoch brings the next one."""
        replica = self.replica_manager.replicas[name].replica
        replica.apply(event, replica.epoch + 1)
        self.dispatcher.rebuild_tasks(self.now_us)

    def arrive(self, stream: str, part: Chunk) -> None:
        """A chunk arrives for every replica here that reads the stream."""
        for name, hosted in self.replica_manager.replicas.items():
            if stream in hosted.replica.inputs:
                data = Data(stream=stream, epoch=1, generation=1, chunk=part)
                hosted.replica.receive(data)
                self.dispatcher.arrived(name, self.now_us)

    def step(self, took_us: int = 0) -> Dispatch | None:
        """Evaluate one batch, if there is work by now."""
        dispatch = self.dispatcher.pop(self.now_us)
        if dispatch is None:
            return None
        replica = self.replica_manager.replicas[dispatch.fragment].replica
        first_seq = replica.log.end.next_seq
        evaluated = replica.evaluate(dispatch.timestamp_groups, dispatch.tuples)
        assert evaluated is not None, "dispatched without work"
        self.dispatcher.count(
            dispatch.fragment,
            evaluated.tuples_in,
            len(evaluated.watermarks_ms),
            evaluated.rows,
        )
        self.dispatcher.done(dispatch.fragment, self.now_us)
        self.now_us += took_us
        self.dispatcher.charge(dispatch.fragment, evaluated.tuples_in, took_us)
        if replica.feeds_subscribers:
            self.arrive(
                dispatch.fragment,
                Chunk(
                    first_seq=first_seq,
                    rows=evaluated.rows,
                    watermarks_ms=evaluated.watermarks_ms,
                    ingestion_times_us=evaluated.ingestion_times_us,
                ),
            )
        return dispatch

    def steps(self, took_us: int = 0) -> list[str]:
        """Evaluate all work there is by now; returns the fragment of each batch, in order."""
        done: list[str] = []
        while (dispatch := self.step(took_us)) is not None:
            done.append(dispatch.fragment)
        return done

    @property
    def with_work(self) -> set[str]:
        """Replicas with work."""
        return {n for n, hosted in self.replica_manager.replicas.items() if hosted.replica.has_work}

    def _begin(self, name: str) -> None:
        hosted = self.replica_manager.replicas[name]
        for each in hosted.replica.inputs.values():
            each.cursor.start(Position(), 1)
        if hosted.assignment.role == "secondary":
            hosted.replica.apply(RoleEvent.STATE_INSTALLED)
