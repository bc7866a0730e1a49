"""Which part of its input a secondary is sent: the standby scheme of each fragment.

The query's owner names a scheme (`standby` in its manifest). The adaptive ones are resolved here,
by `placement.standby_schemes`, from the rates, costs and latencies that the plan goes by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import msgspec

from orchestrator.control.planning.task import QueryTask, RunningFragment
from orchestrator.control.planning.workload import FragmentWork
from orchestrator.records import Scheme, Timing
from placement.records import Secondary
from placement.standby_schemes import Fed, Feeding, Input
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


def fed_timing(
    task: QueryTask,
    fragment: str,
    standby: Secondary,
    timing: Timing,
    primaries: Mapping[str, str] | None = None,
) -> Timing:
    """The timing of a fragment, with the feeding of its secondary.

    Parameters
    ----------
    timing
        What runs. An adaptive scheme changes only if that is worth its while.
    primaries
        Nodes of the primaries of fragments that are being placed.
    """
    running = None
    if timing.batch != 1:
        running = fed(task, fragment, standby).with_batch(timing.batch, timing.checkpoint_ms)
    nodes = {name: each.primary for name, each in task.running.items()} | dict(primaries or {})
    found = feeding(task, fragment, standby, nodes, running)
    return msgspec.structs.replace(
        timing,
        batch=found.batch,
        checkpoint_ms=found.checkpoint_ms,
        covered_ms=found.covered_ms,
    )


def feeding(
    task: QueryTask,
    fragment: str,
    standby: Secondary,
    primaries: Mapping[str, str],
    running: Feeding | None = None,
) -> Feeding:
    """How the secondary of a fragment is to be fed on its node, by its owner's scheme.

    A batch that the owner states is made smaller if the recovery bound asks for that. Fragments of
    the query whose primaries share a node die together, and each waits for those before it: each
    may take an equal part of the time.
    """
    asked, detection_ms = task.query.standby, standby.recovery.detection_ms
    together = sum(primaries.get(each) == primaries.get(fragment) for each in task.graph.to_place)
    spare_ms = task.query.recovery_bound_ms - detection_ms
    bound_ms = detection_ms + spare_ms / max(together, 1)
    model, stated_ms = fed(task, fragment, standby), STATED_INTERVALS * task.ack_interval_ms
    match asked.scheme:
        case Scheme.ACTIVE:
            return model.with_batch(1, 0.0)
        case Scheme.BATCHES:
            return model.largest(bound_ms, stated_ms, most=asked.batch or 1)
        case Scheme.UPSTREAM:
            return model.largest(bound_ms, stated_ms)
        case Scheme.LARGEST:
            return model.largest(bound_ms, task.ack_interval_ms)
        case Scheme.ADAPTIVE:
            return model.cheapest(bound_ms, running)


def fed_standbys(
    task: QueryTask,
    primaries: Mapping[str, str],
    standbys: Mapping[str, Secondary],
    running: Mapping[str, RunningFragment],
) -> dict[str, Secondary]:
    """Secondaries with the recovery times that they have as they are fed.

    Where upstream dies together with a primary, its secondary is waited for.
    """
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
        cost_us=work.cost_us,
        detection_ms=standby.recovery.detection_ms,
        transfer_ms=standby.recovery.transfer_ms,
        checkpoint_bytes=CHECKPOINT_BYTES,
        changes_bytes_s=_changes_bytes_s(task, work),
        ack_interval_ms=task.ack_interval_ms,
        delay_ms=DELAY_INTERVALS * task.ack_interval_ms,
        levels=_levels(task, fragment),
    )


def _levels(task: QueryTask, fragment: str) -> int:
    """Fragments on the longest way from this one to an output, with it."""
    readers = [
        name for name in task.work.fragments[fragment].readers_ms if name in task.work.fragments
    ]
    return 1 + max((_levels(task, name) for name in readers), default=0)


def _flows_anyway(task: QueryTask, stream: str, node: str, but: str) -> bool:
    """Whether another replica on a node needs every tuple of a stream."""
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
