"""Which part of its input a secondary is sent: the standby scheme of each fragment.

The query's owner names a scheme (`standby` in its manifest). The adaptive ones are resolved here,
by `placement.standby_schemes`, from the rates, costs and latencies that the plan goes by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import msgspec

from orchestrator.control.planning.task import QueryTask, RunningFragment
from orchestrator.control.planning.workload import Basis, FragmentWork
from orchestrator.records import RecoverySplit, Scheme, Timing
from placement.records import Secondary
from placement.standby_schemes import NEVER, NO_CHECKPOINTS, Fed, Feeding, Input
from streams.compiler import compile_statement
from streams.language import parse

CHECKPOINT_BYTES = 150.0
"""A checkpoint without state: positions, and the frames around them (benchmark `standby`)."""

CHUNK_BYTES = 440.0
"""What surrounds the tuples that arrive at once: frames, and Arrow's description of the columns."""

DELAY_INTERVALS = 3.0
"""Acknowledgement intervals from taking a cut until producers have trimmed: consumers acknowledge
the output, the checkpoint is sent, and the secondary's host acknowledges the input."""

NOW_MS = 1
"""Range of a window `[NOW]`: nothing in it is there at a later timestamp."""

STATED_INTERVALS = 4.0
"""T of schemes that are not adaptive, in acknowledgement intervals."""

_UNDECIDED = Timing(cost_ms=0.0, sub_deadline_ms=0.0, standby_lag_ms=0.0, batch=NEVER)
"""Of a fragment whose feeding is yet to be chosen: nobody may rely on every tuple flowing to it."""


@dataclass(slots=True)
class _Together:
    """What fragments of a query that die together cost each other at recovery.

    Fragments whose primaries share a node die together, and each waits for those before it.

    Attributes
    ----------
    standbys
        The secondaries, with their recovery under Active Standby.
    primaries
        Fragment → node of its primary.
    added_ms
        Fragment → what its feeding adds to its recovery.
    """

    task: QueryTask
    standbys: Mapping[str, Secondary]
    primaries: Mapping[str, str]
    added_ms: dict[str, float] = field(default_factory=dict[str, float])

    def bound_ms(self, fragment: str) -> float:
        """How long the fragment itself may recover, so that all that wait for it keep the bound."""
        self.added_ms[fragment] = 0.0
        later_ms, spare_ms = self._later_ms(), math.inf
        waiting = [fragment]
        while waiting:
            name = waiting.pop()
            if (standby := self.standbys.get(name)) is not None:
                own_ms = standby.recovery.total_ms + later_ms[name]
                spare_ms = min(spare_ms, self.task.query.recovery_bound_ms - own_ms)
            links = self.task.graph.outputs[name]
            waiting += [link.target for link in links if self._fall(link.target, name)]
        return self.standbys[fragment].recovery.total_ms + spare_ms

    def _later_ms(self) -> dict[str, float]:
        """By how much each fragment recovers later than under Active Standby."""
        graph, later_ms = self.task.graph, dict[str, float]()
        for name in graph.to_place:
            sources = [link.source for link in graph.inputs[name]]
            awaited = [later_ms[each] for each in sources if self._fall(each, name)]
            later_ms[name] = self.added_ms.get(name, 0.0) + max(awaited, default=0.0)
        return later_ms

    def _fall(self, one: str, other: str) -> bool:
        """Whether the primaries of two fragments share a node."""
        return one in self.primaries and self.primaries[one] == self.primaries.get(other)


def feedings(
    task: QueryTask,
    standbys: Mapping[str, Secondary],
    primaries: Mapping[str, str],
    running: Mapping[str, Timing] | None = None,
) -> dict[str, Feeding]:
    """How the secondaries of a query are to be fed, by its owner's scheme.

    A batch that the owner states is made smaller if the recovery bound asks for that. Where
    fragments die together they share the time that the bound leaves; the one that saves most
    traffic takes its part first.

    Parameters
    ----------
    standbys
        Where they stand, with their recovery under Active Standby.
    primaries
        Nodes of all primaries of the query.
    running
        What runs. An adaptive scheme changes only if that is worth its while.
    """
    if task.query.standby.scheme is Scheme.ACTIVE:
        return {n: fed(task, n, each).with_batch(1, NO_CHECKPOINTS) for n, each in standbys.items()}
    together = _Together(task, standbys, primaries)
    undecided = {
        name: RunningFragment(
            primary=node,
            secondary=None if name not in standbys else standbys[name].node,
            timing=_UNDECIDED,
        )
        for name, node in primaries.items()
    }
    around = replace(task, running={**task.running, **undecided})
    worth = {name: _saved(around, fed(around, name, each)) for name, each in standbys.items()}
    found: dict[str, Feeding] = {}
    for name in sorted(standbys, key=lambda each: (-worth[each], each)):
        model = fed(around, name, standbys[name])
        before = None if running is None else running.get(name)
        now = None if before is None else model.with_batch(before.batch, before.checkpoint_ms)
        found[name] = _chosen(task, model, together.bound_ms(name), now)
        together.added_ms[name] = found[name].recovery_ms - standbys[name].recovery.total_ms
        timing = msgspec.structs.replace(_UNDECIDED, batch=found[name].batch)
        decided = replace(undecided[name], timing=timing)
        around = replace(around, running={**around.running, name: decided})
    return found


def fed_timing(
    task: QueryTask, fragment: str, standbys: Mapping[str, Secondary], timing: Timing
) -> Timing:
    """The timing of one fragment with the feeding of its secondary, the others staying as they are.

    Parameters
    ----------
    standbys
        All of the query, with their recovery under Active Standby.
    timing
        What runs.
    """
    primaries = {name: nodes[0] for name, nodes in task.kept.items()}
    together = _Together(task, standbys, primaries)
    for name, standby in standbys.items():
        if name != fragment and name in task.running:
            before = task.running[name].timing
            runs = fed(task, name, standby).with_batch(before.batch, before.checkpoint_ms)
            together.added_ms[name] = runs.recovery_ms - standby.recovery.total_ms
    model = fed(task, fragment, standbys[fragment])
    now = model.with_batch(timing.batch, timing.checkpoint_ms)
    found = _chosen(task, model, together.bound_ms(fragment), now)
    return with_feeding(timing, found, standbys[fragment])


def with_feeding(timing: Timing, found: Feeding, standby: Secondary) -> Timing:
    """A timing with another feeding of a secondary."""
    before, ways = standby.recovery, 1 if found.batch == 1 else 2
    resend_ms = ways * before.transfer_ms
    return msgspec.structs.replace(
        timing,
        batch=found.batch,
        checkpoint_ms=found.checkpoint_ms,
        covered_ms=found.covered_ms,
        promised=RecoverySplit(
            detection_ms=before.detection_ms,
            resend_ms=resend_ms,
            reprocess_ms=max(found.recovery_ms - before.detection_ms - resend_ms, 0.0),
        ),
    )


def _chosen(task: QueryTask, model: Fed, bound_ms: float, running: Feeding | None) -> Feeding:
    """What the owner's scheme comes to for one secondary."""
    asked, stated_ms = task.query.standby, STATED_INTERVALS * task.ack_interval_ms
    match asked.scheme:
        case Scheme.ACTIVE:
            return model.with_batch(1, NO_CHECKPOINTS)
        case Scheme.BATCHES:
            found = model.largest(bound_ms, stated_ms, most=asked.batch or 1)
        case Scheme.UPSTREAM:
            found = model.largest(bound_ms, stated_ms)
        case Scheme.LARGEST:
            found = model.largest(bound_ms, task.ack_interval_ms)
        case Scheme.ADAPTIVE:
            return model.cheapest(bound_ms, running)
    return model.frugal(found, bound_ms)


def _saved(task: QueryTask, model: Fed) -> float:
    """The traffic that a secondary can do without if time does not matter, bytes/s."""
    least = _chosen(task, model, math.inf, None)
    return model.with_batch(1, NO_CHECKPOINTS).bytes_s - least.bytes_s


def fed_standbys(
    task: QueryTask,
    primaries: Mapping[str, str],
    standbys: Mapping[str, Secondary],
    running: Mapping[str, RunningFragment],
) -> dict[str, Secondary]:
    """Secondaries with the recovery times that they have as they are fed.

    Where upstream dies together with a primary, its secondary is waited for.
    """
    task = replace(task, running={**task.running, **running})
    told: dict[str, Secondary] = {}
    later_ms: dict[str, float] = {}
    for name in task.graph.to_place:
        if (standby := standbys.get(name)) is None:
            continue
        before = standby.recovery
        timing = running[name].timing
        model = fed(task, name, standby)
        found = model.with_batch(timing.batch, timing.checkpoint_ms)
        awaited_ms = max(
            (
                later_ms.get(link.source, 0.0)
                for link in task.graph.inputs[name]
                if primaries.get(link.source) == primaries[name]
            ),
            default=0.0,
        )
        asks_ms = before.transfer_ms if found.batch != 1 else 0.0
        recovery = replace(
            before,
            transfer_ms=before.transfer_ms + asks_ms + awaited_ms,
            reprocess_ms=found.recovery_ms - before.detection_ms - before.transfer_ms - asks_ms,
        )
        later_ms[name] = recovery.total_ms - before.total_ms
        told[name] = replace(standby, recovery=recovery)
    return told


def fed(task: QueryTask, fragment: str, standby: Secondary) -> Fed:
    """The model of a fragment's secondary on its node."""
    work, rates = task.work.fragments[fragment], task.work.rates
    return Fed(
        inputs=[
            Input(
                tuples_s=rates[stream].tuples_s,
                bytes_s=rates[stream].bytes_s + CHUNK_BYTES * rates[stream].arrivals_s,
                is_free=_flows_anyway(task, stream, standby.node, fragment),
            )
            for stream in work.fragment.inputs
        ],
        cost_us=_per_tuple_us(work),
        detection_ms=standby.recovery.detection_ms,
        transfer_ms=standby.recovery.transfer_ms,
        checkpoint_bytes=CHECKPOINT_BYTES,
        changes_bytes_s=_changes_bytes_s(task, work),
        ack_interval_ms=task.ack_interval_ms,
        delay_ms=DELAY_INTERVALS * task.ack_interval_ms,
        levels=_levels(task, fragment),
    )


def _per_tuple_us(work: FragmentWork) -> float:
    """p: as measured, if it was."""
    return work.cost.per_tuple_us if work.cost.basis is Basis.MEASURED else work.cost_us


def _levels(task: QueryTask, fragment: str) -> int:
    """Fragments on the longest way from this one to an output, with it."""
    readers = [
        name for name in task.work.fragments[fragment].readers_ms if name in task.work.fragments
    ]
    return 1 + max((_levels(task, name) for name in readers), default=0)


def _flows_anyway(task: QueryTask, stream: str, node: str, but: str) -> bool:
    """Whether a stream is on a node, or comes there, whole: it is produced there, or another
    replica there needs every tuple."""
    producer = task.running.get(stream)
    if producer is not None and producer.primary == node:
        return True
    for name, running in task.running.items():
        work = task.work.fragments.get(name)
        if name == but or work is None or stream not in work.fragment.inputs:
            continue
        if node == running.primary or (node == running.secondary and running.timing.batch == 1):
            return True
    return False


def _changes_bytes_s(task: QueryTask, work: FragmentWork) -> float:
    """How much of its state changes: what comes in, or less where only groups are kept.

    The output of an aggregate tells how often its groups change.
    """
    rates, fragment = task.work.rates, work.fragment
    kept, groups = _keeps(
        fragment.statement, tuple((s, tuple(c.items())) for s, c in fragment.inputs.items())
    )
    coming = sum(rates[stream].bytes_s for stream in kept)
    return min(coming, rates[fragment.name].bytes_s) if groups else coming


@lru_cache
def _keeps(
    statement: str, inputs: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
) -> tuple[frozenset[str], bool]:
    """Of which inputs tuples are kept for later timestamps, and whether only as groups."""
    (parsed,) = parse(statement)
    program = compile_statement(parsed, {stream: dict(columns) for stream, columns in inputs})
    kept = {each.stream for each in program.windows if each.range_ms != NOW_MS}
    return frozenset(kept), all(select.group is not None for select in program.selects)
