"""Which part of its input a secondary is sent: the standby scheme of each fragment.

The query's owner names a scheme (`standby` in its manifest). The adaptive ones are resolved here,
by `placement.standby_schemes`, from the rates, costs and latencies that the plan goes by.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

import msgspec

from orchestrator.control.planning.dying_together import FeedingOption, Together
from orchestrator.control.planning.task import QueryTask, RunningFragment
from orchestrator.control.planning.workload import CostBasis, FragmentWork
from orchestrator.records import RecoverySplit, Scheme, Timing
from placement.records import Secondary
from placement.standby_schemes import (
    HYSTERESIS,
    MARGIN,
    NEVER,
    NO_CHECKPOINTS,
    Fed,
    Feeding,
    Input,
)

CHECKPOINT_BYTES = 150.0
"""A checkpoint without state: positions, and the frames around them (benchmark `standby`)."""

CHUNK_BYTES = 440.0
"""Bytes around the tuples that arrive at once: frames, and Arrow's description of the columns."""

DELAY_INTERVALS = 3.0
"""Acknowledgement intervals from taking a cut until producers have trimmed: consumers acknowledge
the output, the checkpoint is sent, and the secondary's host acknowledges the input."""

STATED_INTERVALS = 4.0
"""T of schemes that are not adaptive, in acknowledgement intervals."""

_UNDECIDED = Timing(cost_ms=0.0, sub_deadline_ms=0.0, standby_lag_ms=0.0, batch=NEVER)
"""Of a fragment whose timing is yet to be chosen."""


def feedings(
    task: QueryTask,
    standbys: Mapping[str, Secondary],
    primaries: Mapping[str, str],
    running: Mapping[str, Timing] | None = None,
) -> dict[str, Feeding]:
    """How the secondaries of a query are to be fed, by its owner's scheme.

    A batch that the owner states is made smaller if the recovery bound asks for that. Where
    fragments die together they share the time that the bound leaves
    (`orchestrator.control.planning.dying_together`).

    Parameters
    ----------
    standbys
        Where they stand, with their recovery under Active Standby.
    primaries
        Nodes of all primaries of the query.
    running
        The present timings. An adaptive scheme changes only if that saves enough.
    """
    scheme = task.query.standby.scheme
    if scheme is Scheme.ACTIVE:
        return {n: fed(task, n, each).with_batch(1, NO_CHECKPOINTS) for n, each in standbys.items()}
    if scheme is not Scheme.ADAPTIVE:
        return _in_turn(task, Together(task, standbys, primaries), None)
    if running is None or not standbys.keys() <= running.keys():
        return _least(task, standbys, primaries, 0.0)
    now = Together(task, standbys, primaries)
    for name, standby in standbys.items():
        runs = fed(task, name, standby).with_batch(running[name].batch, running[name].checkpoint_ms)
        now.added_ms[name] = runs.recovery_ms - standby.recovery.total_ms
    kept = _in_turn(task, now, running)
    anew = _least(task, standbys, primaries, MARGIN)
    return kept if _sent(anew) >= (1 - HYSTERESIS) * _sent(kept) else anew


def _least(
    task: QueryTask,
    standbys: Mapping[str, Secondary],
    primaries: Mapping[str, str],
    margin: float,
) -> dict[str, Feeding]:
    """Of the feedings by several divisions of the time, those that send least.

    The divisions are: by the paper's rule; greedily, in which the fragment that saves most takes
    first as much time as it can use; and by `Together.share`, once with all fragments free to
    choose, and once for each level of fragments that are sent every tuple. Such fragments
    acknowledge at once, so the fragments before them are covered sooner.
    """
    first = Together(task, standbys, primaries, margin)
    paper = msgspec.structs.replace(task.query.standby, scheme=Scheme.LARGEST)
    asked = msgspec.structs.replace(task.query, standby=paper)
    largest = Together(task, standbys, primaries, margin)
    _in_turn(replace(task, query=asked), largest, None)
    found = [_in_turn(task, first, None), _in_turn(task, largest, None)]
    around = undecided(task, primaries)
    levels = {name: _levels(around, name) for name in standbys}
    for level in range(max(levels.values(), default=0) + 1):
        whole = {name for name in standbys if levels[name] == level}
        shared = Together(task, standbys, primaries, margin)
        shared.share(_offers(around, standbys, whole))
        found.append(_in_turn(task, shared, None, whole))
    return min(found, key=_sent)


def _offers(
    task: QueryTask, standbys: Mapping[str, Secondary], whole: Collection[str]
) -> dict[str, list[FeedingOption]]:
    """The feedings that each secondary may have, if some are sent every tuple."""
    for name in whole:
        active = fed(task, name, standbys[name]).with_batch(1, NO_CHECKPOINTS)
        task = decided(task, name, standbys[name].node, active)
    offers: dict[str, list[FeedingOption]] = {}
    for name, standby in standbys.items():
        choices = fed(task, name, standby).choices()
        offers[name] = [
            FeedingOption(each.bytes_s, max(each.recovery_ms - standby.recovery.total_ms, 0.0))
            for each in (choices[:1] if name in whole else choices)
        ]
    return offers


def _in_turn(
    task: QueryTask,
    together: Together,
    running: Mapping[str, Timing] | None,
    whole: Collection[str] | None = None,
) -> dict[str, Feeding]:
    """The secondaries' feedings, chosen one after the other.

    Parameters
    ----------
    together
        With the time that the others are taken to need until their turn comes.
    whole
        Those that are sent every tuple; consumers choose before their producers then. If None,
        those choose first that save most traffic.
    """
    standbys, around = together.standbys, undecided(task, together.primaries)
    if whole is None and running is None:
        worth = {name: _saved(around, fed(around, name, each)) for name, each in standbys.items()}
        order = sorted(standbys, key=lambda each: (-worth[each], each))
    else:
        order = [name for name in reversed(task.graph.to_place) if name in standbys]
    found: dict[str, Feeding] = {}
    for name in order:
        model = fed(around, name, standbys[name])
        before = None if running is None else running.get(name)
        now = None if before is None else model.with_batch(before.batch, before.checkpoint_ms)
        found[name] = (
            model.with_batch(1, NO_CHECKPOINTS)
            if name in (whole or ())
            else chosen(task, model, together.bound_ms(name), now)
        )
        together.added_ms[name] = found[name].recovery_ms - standbys[name].recovery.total_ms
        around = decided(around, name, standbys[name].node, found[name])
    return found


def _sent(found: Mapping[str, Feeding]) -> float:
    """The traffic of all secondaries, bytes/s."""
    return sum(each.bytes_s for each in found.values())


def undecided(task: QueryTask, primaries: Mapping[str, str]) -> QueryTask:
    """The problem with the primaries of the query's fragments, and with no secondary of theirs."""
    alone = {
        name: RunningFragment(primary=node, secondary=None, timing=_UNDECIDED)
        for name, node in primaries.items()
    }
    return replace(task, running={**task.running, **alone})


def decided(task: QueryTask, fragment: str, node: str, feeding: Feeding) -> QueryTask:
    """The problem with the secondary of one fragment on a node, fed so."""
    timing = msgspec.structs.replace(_UNDECIDED, batch=feeding.batch)
    running = replace(task.running[fragment], secondary=node, timing=timing)
    return replace(task, running={**task.running, fragment: running})


def fed_timing(
    task: QueryTask, fragment: str, standbys: Mapping[str, Secondary], timing: Timing
) -> Timing:
    """The timing of one fragment with the feeding of its secondary, the others staying as they are.

    Parameters
    ----------
    standbys
        All of the query, with their recovery under Active Standby.
    timing
        The present timing.
    """
    primaries = {name: nodes[0] for name, nodes in task.kept.items()}
    together = Together(task, standbys, primaries)
    for name, standby in standbys.items():
        if name != fragment and name in task.running:
            before = task.running[name].timing
            runs = fed(task, name, standby).with_batch(before.batch, before.checkpoint_ms)
            together.added_ms[name] = runs.recovery_ms - standby.recovery.total_ms
    model = fed(task, fragment, standbys[fragment])
    now = model.with_batch(timing.batch, timing.checkpoint_ms)
    standby, bound_ms = standbys[fragment], task.query.recovery_bound_ms
    found = chosen(task, model, together.bound_ms(fragment), now)

    def latest_ms(feeding: Feeding) -> float:
        there = with_feeding(timing, feeding, standby)
        moved = replace(task.running[fragment], secondary=standby.node, timing=there)
        running = {**task.running, fragment: moved}
        known = {name: each for name, each in standbys.items() if name in running}
        told = fed_standbys(task, primaries, known, running)
        return max(each.recovery.total_ms for each in told.values())

    # Others that die with it wait for it, and those before it until it acknowledges. If it is sent
    # every tuple, it keeps nobody waiting.
    if found.batch != 1 and (slow_ms := latest_ms(found)) > bound_ms:
        active = model.with_batch(1, NO_CHECKPOINTS)
        found = active if latest_ms(active) < slow_ms else found
    return with_feeding(timing, found, standby)


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


def chosen(task: QueryTask, model: Fed, bound_ms: float, running: Feeding | None) -> Feeding:
    """The feeding of one secondary by the owner's scheme."""
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
    least = chosen(task, model, math.inf, None)
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
        redo_ms = found.recovery_ms - before.detection_ms - before.transfer_ms - asks_ms
        recovery = replace(
            before,
            transfer_ms=before.transfer_ms + asks_ms + awaited_ms,
            # The sum is rounded, so that nothing may come out as less than nothing.
            reprocess_ms=max(redo_ms, 0.0),
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
                bytes_s=task.work.sent_bytes_s(stream, fragment)
                + CHUNK_BYTES * _arrivals_s(task, stream),
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


def payload_share(task: QueryTask, fragment: str) -> float:
    """Share of tuples in the bytes that a fragment is sent; the rest surrounds them.

    Plans price links by the tuples alone. Network usage of a secondary is multiplied by this share,
    so that it is weighed like that of primaries, however it is fed.
    """
    streams = task.work.fragments[fragment].fragment.inputs
    tuples_bytes_s = sum(task.work.sent_bytes_s(each, fragment) for each in streams)
    around_bytes_s = sum(CHUNK_BYTES * _arrivals_s(task, each) for each in streams)
    whole = tuples_bytes_s + around_bytes_s
    return tuples_bytes_s / whole if whole else 1.0


def _arrivals_s(task: QueryTask, stream: str) -> float:
    """How often something of a stream comes: as often as its fragment is evaluated."""
    made = task.work.fragments.get(stream)
    return task.work.rates[stream].arrivals_s if made is None else made.evaluations_s


def _per_tuple_us(work: FragmentWork) -> float:
    """p: as measured, if it was."""
    return work.cost.per_tuple_us if work.cost.basis is CostBasis.MEASURED else work.cost_us


def _levels(task: QueryTask, fragment: str) -> int:
    """Fragments on the longest way from this one to an output, with it.

    The way ends before a reader whose secondary is sent every tuple: it acknowledges at once.
    """
    readers = [
        name
        for name in task.work.fragments[fragment].readers_ms
        if name in task.work.fragments
        and (name not in task.running or task.running[name].timing.batch != 1)
    ]
    return 1 + max((_levels(task, name) for name in readers), default=0)


def _flows_anyway(task: QueryTask, stream: str, node: str, but: str) -> bool:
    """Whether all of a stream that a fragment uses is on a node, or comes there: it is produced
    there, or other replicas there need every tuple, and as many columns."""
    producer = task.running.get(stream)
    if producer is not None and producer.primary == node:
        return True
    sent: set[str] = set()
    is_sent = False
    for name, running in task.running.items():
        work = task.work.fragments.get(name)
        if name == but or work is None or stream not in work.fragment.inputs:
            continue
        if node == running.primary or (node == running.secondary and running.timing.batch == 1):
            is_sent = True
            sent |= work.fragment.uses[stream].keys()
    return is_sent and sent.issuperset(task.work.fragments[but].fragment.uses[stream])


def _changes_bytes_s(task: QueryTask, work: FragmentWork) -> float:
    """How much of its state changes: as much as its input, or less if it keeps groups only.

    The output of an aggregate tells how often its groups change.
    """
    rates, fragment = task.work.rates, work.fragment
    coming = sum(task.work.sent_bytes_s(stream, fragment.name) for stream in fragment.keeps)
    return min(coming, rates[fragment.name].bytes_s) if fragment.keeps_groups else coming
