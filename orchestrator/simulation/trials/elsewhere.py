"""What became of a trial's savepoints, and of another cluster that goes on from the last of them.

A savepoint is whole, or nothing of it is there. The other cluster has a world of its own, nodes
with other names, and sinks that have nothing. Its results must have the numbers that the trial's
cluster gave them, as long as that one did not begin anew, and must come to the streams' end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from orchestrator.checkpoints.checkpoint_file import CheckpointRefused
from orchestrator.checkpoints.savepoint import Savepoint
from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.deploy.restoring import restore
from orchestrator.edges.events import Deliver
from orchestrator.records import HostSpec, NodeKind, SavepointState
from orchestrator.simulation.trials.observed import Observed
from orchestrator.simulation.trials.setting import Setting
from orchestrator.simulation.world.candidates import Candidates
from orchestrator.simulation.world.memory_checkpoints import MemorySavepoint
from orchestrator.simulation.world.world import World
from orchestrator.store.protocol import SAVEPOINTS, Store

APART_S = 30.0
"""From the trial's end to the beginning of the other cluster."""

LIMIT_S = 120.0
"""Virtual time for the other cluster to come to the end."""

LEAST_NODES = 3
"""Of the other cluster; one node less than the trial's if that has more."""

Numbered = dict[tuple[int, int], tuple[object, ...]]
"""Generation and sequence number → a tuple."""


def savepoint_findings(seen: Observed, store: Store) -> list[str]:
    """Promises that were broken, a sentence each."""
    found = [*_half(seen, store)]
    records = sorted(store.list(SAVEPOINTS).records.values(), key=lambda each: each.record.asked_us)
    kept = [each.record for each in records if each.record.state is SavepointState.KEPT]
    if kept and not found:
        savepoint = Savepoint(MemorySavepoint(seen.world.checkpoints, kept[-1].name))
        found += _Elsewhere(seen, savepoint).findings()
    return found


def _half(seen: Observed, store: Store) -> Iterator[str]:
    """Savepoints of which something is there, but not all."""
    records = {name: each.record for name, each in store.list(SAVEPOINTS).records.items()}
    for name in sorted({name for name, _ in seen.world.checkpoints.saved} - records.keys()):
        yield f"savepoint: {name} is gone, and some of its files are there"
    for name, record in records.items():
        files = [file for of, file in seen.world.checkpoints.saved if of == name]
        if record.state is SavepointState.FAILED and record.emptied and files:
            yield f"savepoint: {name} failed, and some of its files are there"
        if record.state is not SavepointState.KEPT:
            continue
        try:
            savepoint = Savepoint(MemorySavepoint(seen.world.checkpoints, name))
            whole = {each.fragment for each in savepoint.check()}
        except CheckpointRefused as refused:
            yield f"savepoint: {name} is kept, but not whole: {refused}"
            continue
        if whole != {each.fragment for each in record.pieces}:
            yield f"savepoint: {name} has other states than its record says"


class _Elsewhere:
    """The other cluster."""

    def __init__(self, seen: Observed, savepoint: Savepoint) -> None:
        self._seen, self._savepoint = seen, savepoint
        for host in seen.world.hosts.values():
            if host.alive:
                # Its journals are for the other cluster. The checks look at the rest of it.
                host.release()
        self._setting: Setting = seen.setting
        self._deliveries: dict[str, list[Deliver]] = {name: [] for name in self._setting.outputs}
        cluster = msgspec.structs.replace(self._setting.cluster, id="another", nodes=(), sites=())
        self._world = World(
            cluster,
            self._hosts(),
            seed=seen.schedule.seed + 1,
            deliver=self._deliver,
            session_timeout_us=self._setting.session_timeout_us,
            own_machines=self._setting.own_machines,
            start_us=seen.world.now_us + round(APART_S * 1e6),
        )
        store = self._world.server.connect()
        folder, _ = self._world.checkpoints.folders
        restore(store, savepoint, "kept", Path("other"), self._world.now_us, folder=folder)
        self._candidates = Candidates(self._world, 1, DecisionSettings(start_delay_us=300_000))

    def _hosts(self) -> list[HostSpec]:
        executors = [s for s in self._setting.specs if s.kind is NodeKind.EXECUTOR]
        left_out = executors[-1:] if len(executors) > LEAST_NODES else []
        renamed = [
            msgspec.structs.replace(spec, node=f"other-{spec.node}")
            for spec in executors
            if spec not in left_out
        ]
        return renamed + [s for s in self._setting.specs if s.kind is not NodeKind.EXECUTOR]

    def _deliver(self, _node: str, delivery: Deliver, _arrived_us: int) -> None:
        if delivery.stream in self._deliveries:
            self._deliveries[delivery.stream].append(delivery)

    def findings(self) -> list[str]:
        """Play it, and compare."""
        comparable = [name for name in self._setting.outputs if self._goes_on(name)]
        give_up_us = self._world.now_us + round(LIMIT_S * 1e6)
        while self._world.now_us < give_up_us and not all(map(self._is_complete, comparable)):
            self._world.run_for(0.5, check_invariants=True)
        return [finding for name in comparable for finding in self._compared(name)]

    def _goes_on(self, output: str) -> bool:
        """Whether everything that leads to an output can be gone on with."""
        setting, index = self._setting, self._savepoint.index
        for name in setting.upstream(output):
            if name in setting.recordings:
                if not setting.recordings[name].resumes:
                    return False
            elif index.of(f"{setting.query_of[name]}.{name}") is None:
                return False
        return True

    def _is_complete(self, output: str) -> bool:
        found = self._deliveries[output]
        return bool(found) and found[-1].chunk.watermark_ms >= self._setting.end_ms

    def _compared(self, output: str) -> Iterator[str]:
        if not self._is_complete(output):
            found = self._deliveries[output]
            reached = found[-1].chunk.watermark_ms if found else "nothing"
            yield f"savepoint: the cluster that went on stopped at {reached} of {output}"
            return
        saved = self._savepoint.index.of(f"{self._setting.query_of[output]}.{output}")
        assert saved is not None, "it goes on"
        ours = _numbered(self._deliveries[output])
        numbers = sorted(ours)
        generation, end = saved.stored.generation, saved.stored.output.next_seq
        if any(each != generation for each, _ in numbers):
            yield f"savepoint: {output} began anew in the cluster that went on"
            return
        if numbers and numbers[0][1] > end:
            yield f"savepoint: {output} lacks what follows {end}, and begins with {numbers[0][1]}"
        if numbers and numbers[-1][1] - numbers[0][1] != len(numbers) - 1:
            yield f"savepoint: {output} has gaps in the cluster that went on"
        theirs = _numbered([each.delivery for each in self._seen.arrivals[output]])
        for at, row in ours.items():
            if at in theirs and theirs[at] != row:
                yield f"savepoint: {output} {at} is {row}, and was {theirs[at]}"
                return
        last = max((seq for of, seq in theirs if of == generation), default=-1)
        is_whole = all(of == generation for of, _ in theirs)
        if is_whole and numbers and numbers[-1][1] != last:
            yield f"savepoint: {output} ends with {numbers[-1][1]}, and ended with {last}"


def _numbered(deliveries: list[Deliver]) -> Numbered:
    return {
        (each.generation, seq): tuple(row.values())
        for each in deliveries
        for seq, row in enumerate(each.chunk.rows.to_pylist(), each.chunk.first_seq)
    }
