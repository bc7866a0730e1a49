"""Load of sites, which bring chunks in, send them to hosts, and write them.

A site has no replicas. Its load is the same for each chunk: as measured, once enough of them flow,
and as assumed before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from orchestrator.control.observe.measured_load import speed_of
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.overhead import idle_cores
from orchestrator.control.planning.workload import Workload
from orchestrator.records import NodeRecord

SITE_US = 150.0
"""Processor time, at speed 1, of a site for a chunk that it brings in, sends to a host, or writes,
while none was measured: what benchmark `density` shows."""

LEAST_CHUNKS_S = 5.0
"""Chunks a second from which on a site's time for them is measured."""

SITE_SPREAD = 3.0
"""By which factor a site's measured time for a chunk may differ from `SITE_US`; more would be that
of a stream that has hardly begun."""


def site_cores(
    view: ClusterView, work: Workload, site: str, chunks_s: Mapping[str, float]
) -> dict[str, float]:
    """Sink or stream → predicted load of a site for it, cores.

    Parameters
    ----------
    chunks_s
        Sink or stream → chunks a second that it should handle for it.
    """
    each_us = _chunk_us(view, site, _handled_s(view, work, site))
    return {name: count_s * each_us / 1e6 for name, count_s in chunks_s.items()}


def coming_to_site(
    view: ClusterView, work: Workload, taken: Mapping[str, float], site: str
) -> float:
    """Load of a site for streams that have yet to begin, cores.

    Parameters
    ----------
    taken
        As of `site_cores`.
    """
    node, handled_s = view.hosts[site], _handled_s(view, work, site)
    each_us = _chunk_us(view, site, handled_s)
    had = {n: handled_s.get(n, 0.0) * each_us / 1e6 for n in taken if _begun(node, n)}
    return sum(max(cores - had.get(name, 0.0), 0.0) for name, cores in taken.items())


def _begun(site: NodeRecord, name: str) -> bool:
    """Whether tuples of a stream have come through a site."""
    source, sink = site.sources.get(name), site.sinks.get(name)
    return (source is not None and source.next_seq > 0) or (
        sink is not None and sink.completed_timestamps > 0
    )


def _handled_s(view: ClusterView, work: Workload, site: str) -> dict[str, float]:
    """Sink or stream → chunks a second that a site handles for it already."""
    node = view.hosts[site]
    found = {
        name: work.fragments[name].evaluations_s for name in node.sinks if name in work.fragments
    }
    inputs = work.expected.inputs
    read = Counter(
        stream
        for each in view.hosts.values()
        for stream in {stream for name in each.replicas for stream in inputs.get(name, ())}
    )
    for stream in node.sources:
        if stream in work.rates:
            found[stream] = work.rates[stream].arrivals_s * (1 + read[stream])
    return found


def _chunk_us(view: ClusterView, site: str, handled_s: Mapping[str, float]) -> float:
    """Processor time of a site for a chunk, as measured lately."""
    if view.settings.emulate_costs:
        return 0.0
    node = view.hosts[site]
    known_s = sum(handled_s.values())
    assumed_us = SITE_US / speed_of(node)
    if (load := node.load) is None or known_s < LEAST_CHUNKS_S:
        return assumed_us
    measured_us = (load.cores - idle_cores(node)) * 1e6 / known_s
    return min(max(measured_us, assumed_us / SITE_SPREAD), assumed_us * SITE_SPREAD)
