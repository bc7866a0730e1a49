"""Processor time of hosts for everything but evaluating.

The *overhead* of an evaluation is sending chunks and watermarks, acknowledgements, control messages
and dispatching. A chunk from another host has an overhead, too, a share of that. An idle host takes
some time as well. The overhead is measured on all executors together. Until then, it is assumed by
the number of evaluations and the speed of the processors.
"""

from __future__ import annotations

from ha.roles import ReplicaRole
from orchestrator.control.observe.measured_load import mean_speed, speed_of
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.evaluations import ExpectedEvaluations
from orchestrator.records import NodeRecord, ReplicaLoad
from orchestrator.records.speed import HOST_CORES
from streams.scheduling.batching import BELIEVED_US, PATIENCE

OVERHEAD_US = 500.0
OFTEN_S = 600.0
"""Overhead of an evaluation while none was measured, at speed 1, on a node that makes few; and how
many a second it makes when each takes half of that, as turns and messages serve several: fitted to
what benchmark `density` showed with 10 to 140 queries, less what `RECEIVED` counts since. Beyond
it, measured overheads and the measured load of hosts count."""

RECEIVED = 0.4
"""Cost of a chunk from another host, in overheads of an evaluation. Inferred from a standby in
benchmark `own_data` that has few evaluations and reads a stream of many chunks."""

LEAST_EVALUATIONS_S = 20.0
"""Evaluations a second, in the whole cluster, from which on the overhead is measured."""

LEAST_HOST_EVALUATIONS_S = 1.0
"""Evaluations a second of an executor from which on its overhead counts. One that makes fewer has
next to nothing to evaluate: it has just started, or was drained."""

FLOWING = 0.6
"""The overhead of a node is believed if it makes this share of the predicted evaluations. A node
that makes fewer may have just been given replicas and be busy preparing them, or get no tuples, or
be so late that further queries are refused anyway."""

LEAST_TUPLES_S = 1.0
"""With fewer tuples a second, watermarks cost more than tuples, and a cost by tuple says little."""


def overhead_us(view: ClusterView, expected: ExpectedEvaluations) -> float:
    """Processor time that hosts spend on everything but evaluating, for each evaluation.

    As measured on those executors whose replicas are fed, together, else `assumed_us`. It is
    divided by the evaluations that the input should cause, not by those that were made: a
    CPU-starved host evaluates more rarely, and the rest of its work stays. Where nothing but
    watermarks comes, replicas rest longer, and fewer evaluations are expected.

    Hosts count the evaluations themselves, over the time of which they report the processor time.
    The reports of their replicas cover other times, after replicas came or went, or after a start.
    """
    spent_us = counted_s = 0.0
    for node in view.executors.values():
        if (load := node.load) is None:
            continue
        made_s = load.evaluations_s
        known = {n: each for n, each in node.replicas.items() if n in expected.inputs}
        primaries = {n for n, each in known.items() if each.role is ReplicaRole.PRIMARY}
        received_s = expected.received_s(known, primaries)
        expected_s = come_s = 0.0
        for name, each in known.items():
            fed_share = _fed_share(each.load, expected.tuples_s[name])
            standby = name not in primaries
            often = expected.standby_evaluations_s if standby else expected.evaluations_s
            expected_s += often[name] * fed_share
            come_s += received_s[name] * fed_share
        # The time of hosts before streams flow, or without replicas, is no overhead.
        if made_s < max(FLOWING * expected_s, LEAST_HOST_EVALUATIONS_S):
            continue
        rest_cores = load.cores - load.evaluating_cores - idle_cores(node)
        spent_us += max(rest_cores, 0.0) * 1e6
        counted_s += max(expected_s, made_s) + RECEIVED * come_s
    if counted_s < LEAST_EVALUATIONS_S:
        both = expected.evaluations_s, expected.standby_evaluations_s
        all_s = sum(sum(often.values()) for often in both)
        found_us = assumed_us(view, all_s / max(len(view.executors), 1))
    else:
        found_us = spent_us / counted_s
    least_us, most_us = BELIEVED_US
    return min(max(found_us, least_us), most_us)


def assumed_us(view: ClusterView, evaluations_s: float) -> float:
    """Assumed overhead of an evaluation on nodes that make so many a second each."""
    return OVERHEAD_US / (1 + evaluations_s / OFTEN_S) / mean_speed(view.executors.values())


def idle_cores(node: NodeRecord) -> float:
    """Load of an idle host."""
    return HOST_CORES / speed_of(node)


def _fed_share(load: ReplicaLoad | None, tuples_s: float) -> float:
    """The share of its expected evaluations that a replica's input of late has caused."""
    come = 1.0
    if load is not None and tuples_s >= LEAST_TUPLES_S:
        come = min(load.tuples_s / tuples_s, 1.0)
    return come + (1 - come) / PATIENCE
