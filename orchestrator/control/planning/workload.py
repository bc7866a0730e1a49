"""The work of every fragment: what it takes in, what evaluating that costs, who waits for it.

This is the one model of a fragment's work. The placement problem (`Workload.graph`), the deadline
problem (`planning.sub_deadlines`) and the tasks of hosts (`control.assignments`) are derived from
it.

Rates follow from the manifests: a stream brings the rate it declares; a fragment turns it into
`selectivity` bytes out per byte in; tuples are counted by the width of their rows, for which
strings are taken to be `STRING_BYTES` long. Costs are the owner's estimates until they are
measured.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from orchestrator.control.dataflow import Columns, Dataflow, Fragment
from orchestrator.control.view import ClusterView
from orchestrator.host.hosted_streams import SINK_PREFIX
from orchestrator.records import CostStatus, Estimate, QueryRecord, StreamRecord
from placement.graph import Link, Operator, QueryGraph
from streams.scheduling.chains import merge_chains

STRING_BYTES = 16
"""Identifiers and call signs with Arrow's offsets; longer texts are rare in sensor streams."""

_type_bytes = {"int": 8, "float": 8, "bool": 1, "string": STRING_BYTES}

TIMESTAMP_BYTES = 8

LEAST_COST_MS = 0.2
"""Least cost of an instance: that of dispatching it, however few tuples it has. A sub-deadline in
proportion to a smaller cost would pass before any host could dispatch the fragment."""

NO_DEADLINE_MS = 3_600_000.0
"""An hour: the deadline of a stream that leads to no output, so that nothing can be late."""


def row_bytes(columns: Columns) -> int:
    """Expected width of a row."""
    return TIMESTAMP_BYTES + sum(_type_bytes[kind] for kind in columns.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How much of a stream there is.

    Attributes
    ----------
    burst
        Tuples that come at once.
    """

    bytes_s: float
    tuples_s: float
    burst: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentWork:
    """One fragment: its input, its costs, its constraints and its readers.

    Attributes
    ----------
    cost_us
        Estimated time per input tuple.
    instance_ms
        Time that evaluating a burst takes: as measured, else as estimated.
    allowed
        Nodes that its primary may take; any if empty.
    deadline_ms, sink
        End-to-end deadline of its stream, and the site it is delivered to; None if to none.
    readers_ms
        Fragments that read its stream, and its sink → least end-to-end deadline of the outputs
        that each leads to.
    """

    fragment: Fragment
    cost_us: float
    instance_ms: float
    allowed: tuple[str, ...]
    deadline_ms: float
    sink: str | None
    readers_ms: Mapping[str, float]

    @property
    def name(self) -> str:
        """Of the fragment and of its stream."""
        return self.fragment.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The work of all fragments.

    Attributes
    ----------
    flow
        The compiled queries.
    sites
        Stream that enters from outside → its site.
    rates
        By stream.
    fragments
        By name, producers before consumers.
    """

    flow: Dataflow
    sites: Mapping[str, str]
    rates: Mapping[str, Rate]
    fragments: Mapping[str, FragmentWork]

    def of(self, query: str) -> list[FragmentWork]:
        """Work of a query's fragments, producers before consumers."""
        return [work for work in self.fragments.values() if work.fragment.query == query]

    def chains(
        self, names: Collection[str], together: Callable[[str, str], bool]
    ) -> list[tuple[str, ...]]:
        """Fragments merged with the one that alone reads their stream, if both stay together.

        Parameters
        ----------
        names
            Fragments, producers before consumers.
        together
            Whether two fragments that follow each other stay on one node.
        """

        def followers(name: str, consumers: Collection[str]) -> list[str]:
            # A sink, or a fragment that is not among the names, reads the stream too.
            alone = len(self.fragments[name].readers_ms) == 1
            return [each for each in consumers if alone and together(name, each)]

        return merge_chains(
            {name: self.fragments[name].fragment.inputs for name in names}, followers
        )

    def graph(self, query: str, primaries: Mapping[str, str]) -> QueryGraph:
        """The placement problem of one query: its fragments between pinned sources and sinks.

        Parameters
        ----------
        primaries
            Fragment of another query that this one reads → node on which it is pinned.
        """
        fragments = self.of(query)
        inputs = sorted(
            {s for work in fragments for s in work.fragment.inputs} - {w.name for w in fragments}
        )
        operators = [
            Operator(name=work.name, cost_us=work.cost_us, allowed=work.allowed)
            for work in fragments
        ]
        operators += [
            Operator(name=stream, pinned=self.sites.get(stream) or primaries[stream])
            for stream in inputs
        ]
        links = [
            self._link(stream, work.name) for work in fragments for stream in work.fragment.inputs
        ]
        for work in fragments:
            if work.sink is not None:
                sink = f"{work.name} at {work.sink}"
                operators.append(Operator(name=sink, pinned=work.sink))
                links.append(self._link(work.name, sink))
        return QueryGraph(name=query, operators=tuple(operators), links=tuple(links))

    def _link(self, stream: str, target: str) -> Link:
        rate = self.rates[stream]
        return Link(source=stream, target=target, rate_bytes_s=rate.bytes_s, tuples_s=rate.tuples_s)


def workload(
    view: ClusterView,
    flow: Dataflow,
    streams: Mapping[str, StreamRecord],
    queries: Mapping[str, QueryRecord],
) -> Workload:
    """The work of all fragments.

    Parameters
    ----------
    view
        Gives the cluster's settings and measured costs.
    flow, streams, queries
        The dataflow to run: that of the store, or with the manifests to be applied.
    """
    stream_rates = rates(flow, streams, queries, view.settings.batch_ms)
    due_ms = urgency_ms(flow, queries)
    readers_ms: dict[str, dict[str, float]] = {name: {} for name in flow.columns}
    for name, fragment in flow.fragments.items():
        for stream in fragment.inputs:
            readers_ms[stream][name] = min(due_ms[name], NO_DEADLINE_MS)
    fragments: dict[str, FragmentWork] = {}
    for name, fragment in flow.fragments.items():
        query = queries[fragment.query]
        if name in query.outputs:
            readers_ms[name][SINK_PREFIX + name] = query.deadline_of(name)
        taken, cost_us = taken_by(fragment, stream_rates), _estimate(queries, fragment).cost_us
        fragments[name] = FragmentWork(
            fragment=fragment,
            cost_us=cost_us,
            instance_ms=_instance_ms(taken, cost_us, view.measured_cost(fragment)),
            allowed=query.primaries.get(name, ()),
            deadline_ms=query.deadline_of(name),
            sink=query.outputs.get(name),
            readers_ms=readers_ms[name],
        )
    sites = {name: stream.site for name, stream in streams.items()}
    return Workload(flow=flow, sites=sites, rates=stream_rates, fragments=fragments)


def rates(
    flow: Dataflow,
    streams: Mapping[str, StreamRecord],
    queries: Mapping[str, QueryRecord],
    batch_ms: float,
) -> dict[str, Rate]:
    """Expected rate of every stream.

    Parameters
    ----------
    batch_ms
        Tuples that come within this interval are evaluated together.
    """
    found = {name: _entering(stream, batch_ms) for name, stream in streams.items()}
    for fragment in flow.fragments.values():
        taken = taken_by(fragment, found)
        given_bytes_s = taken.bytes_s * _estimate(queries, fragment).selectivity
        tuples_s = given_bytes_s / row_bytes(fragment.columns)
        burst = taken.burst * tuples_s / taken.tuples_s if taken.tuples_s else 0.0
        found[fragment.name] = Rate(bytes_s=given_bytes_s, tuples_s=tuples_s, burst=burst)
    return found


def taken_by(fragment: Fragment, stream_rates: Mapping[str, Rate]) -> Rate:
    """The input of a fragment, of all its streams together."""
    inputs = [stream_rates[stream] for stream in fragment.inputs]
    return Rate(
        bytes_s=sum(rate.bytes_s for rate in inputs),
        tuples_s=sum(rate.tuples_s for rate in inputs),
        burst=sum(rate.burst for rate in inputs),
    )


def urgency_ms(flow: Dataflow, queries: Mapping[str, QueryRecord]) -> dict[str, float]:
    """Stream → the least end-to-end deadline of the outputs that it leads to, ms; infinite if it
    leads to none."""
    found: dict[str, float] = {}
    for fragment in reversed(list(flow.fragments.values())):
        query = queries[fragment.query]
        name = fragment.name
        own_ms = query.deadline_of(name) if name in query.outputs else float("inf")
        found[name] = min(found.get(name, float("inf")), own_ms)
        for stream in fragment.inputs:
            found[stream] = min(found.get(stream, float("inf")), found[name])
    return found


def _entering(stream: StreamRecord, batch_ms: float) -> Rate:
    tuples_s = stream.rate_bytes_s / row_bytes(stream.columns)
    burst = stream.burst
    if burst is None:
        together_ms = max(batch_ms, stream.source.together_ms if stream.source else 0.0)
        burst = max(tuples_s * together_ms / 1e3, 1.0)
    return Rate(bytes_s=stream.rate_bytes_s, tuples_s=tuples_s, burst=burst)


def _estimate(queries: Mapping[str, QueryRecord], fragment: Fragment) -> Estimate:
    return queries[fragment.query].estimates.get(fragment.name, Estimate())


def _instance_ms(taken: Rate, cost_us: float, measured: CostStatus | None) -> float:
    if measured is not None:
        instance_us = measured.fixed_us + measured.per_tuple_us * taken.burst
    else:
        instance_us = cost_us * taken.burst
    return max(instance_us / 1e3, LEAST_COST_MS)
