"""What hosts spend on everything but evaluating: for each evaluation, for each chunk that another
host sends, and with nothing to do.

The *overhead* of an evaluation is sending chunks and watermarks, acknowledgements, control messages
and dispatching; that of a chunk that arrives is a share of it. It is measured on all executors
together; before that, it is assumed by how often they evaluate and how fast their processors work.
"""

from __future__ import annotations

from ha.roles import ReplicaRole
from orchestrator.control.observe.measured_load import mean_speed, speed_of
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.evaluations import ExpectedEvaluations
from orchestrator.records import NodeRecord, ReplicaLoad
from orchestrator.records.speed import HOST_CORES
from streams.scheduling.rests import IDLE_RESTS

OVERHEAD_US = 500.0
OFTEN_S = 600.0
"""Overhead of an evaluation while none was measured, at speed 1, on a node that makes few; and how
many a second it makes when each takes half of that, as turns and messages serve several: fitted to
what benchmark `density` showed with 10 to 140 queries, less what `RECEIVED` counts since. Beyond
it, measured overheads and the measured load of hosts count."""

RECEIVED = 0.4
"""What a chunk that another host sends costs, in overheads of an evaluation. Inferred from what
benchmark `own_data` showed: a standby of few evaluations that reads a stream of many chunks."""

OVERHEADS_US = (50.0, 5_000.0)
"""Least and greatest overhead that is believed or assumed."""

LEAST_EVALUATIONS_S = 20.0
"""Evaluations a second, in the whole cluster, from which on the overhead is measured."""

LEAST_HOST_EVALUATIONS_S = 1.0
"""Evaluations a second of an executor from which on its overhead counts. One that makes fewer has
next to nothing to evaluate: it has just started, or was drained."""

FLOWING = 0.6
"""Share of the predicted evaluations from which on the overhead of a node is believed. One that
makes fewer has just been given replicas, whose preparation it spends its time on, or no tuples
come, or it is so late that what it takes is refused anyway."""

LEAST_TUPLES_S = 1.0
"""With fewer tuples a second, watermarks cost more than tuples, and a cost by tuple says little."""


def overhead_us(view: ClusterView, expected: ExpectedEvaluations) -> float:
    """Processor time that hosts spend on everything but evaluating, for each evaluation.

    As measured on those executors whose replicas are fed, together, else `assumed_us`. It is
    divided by the evaluations that the input should cause, not by those that were made: a
    CPU-starved host evaluates more rarely, and the rest of its work stays. Where nothing but
    watermarks comes, replicas rest longer, and fewer evaluations are expected.
    Hosts count those that were made over the time in which they took their processor time: what
    their replicas report does not go with that after some came or went, or the host has started.
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
        # What hosts spend before streams flow, or without replicas, is no overhead of evaluations.
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
    least_us, most_us = OVERHEADS_US
    return min(max(found_us, least_us), most_us)


def assumed_us(view: ClusterView, evaluations_s: float) -> float:
    """What is taken for the overhead of an evaluation on nodes that make so many a second each."""
    return OVERHEAD_US / (1 + evaluations_s / OFTEN_S) / mean_speed(view.executors.values())


def idle_cores(node: NodeRecord) -> float:
    """What a host takes that has nothing to do."""
    return HOST_CORES / speed_of(node)


def _fed_share(load: ReplicaLoad | None, tuples_s: float) -> float:
    """The part of its evaluations that a replica makes of what has come to it lately."""
    come = 1.0
    if load is not None and tuples_s >= LEAST_TUPLES_S:
        come = min(load.tuples_s / tuples_s, 1.0)
    return come + (1 - come) / IDLE_RESTS
