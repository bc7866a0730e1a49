"""Network usage of a deadline placement (reliable placement, (2))."""

from __future__ import annotations

from collections.abc import Mapping

from placement.deadline.problem import DeadlineProblem
from placement.deadline.sub_deadlines import source_ms


def network_usage(problem: DeadlineProblem, places: Mapping[str, str]) -> float:
    """Σ_l DR(l)·Lat(l), bytes (bytes/s × s): of links, from sources and to sinks."""
    at = {name: problem.node_index[node] for name, node in places.items()}
    ms, rates = problem.latency_ms, problem.rates_bytes_s
    total = 0.0
    for name in problem.order:
        for stream in problem.by_name[name].inputs:
            if stream in problem.producer:
                way_ms = float(ms[at[problem.producer[stream]], at[name]])
            else:
                way_ms = source_ms(problem, stream, at[name])
            total += rates.get(stream, 0.0) * way_ms
    for output in problem.outputs:
        way_ms = ms[at[problem.producer[output.stream]], problem.node_index[output.sink]]
        total += rates.get(output.stream, 0.0) * float(way_ms)
    return total / 1e3
