"""A cluster's figures as Prometheus reads them, names and units by its conventions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from orchestrator.cli.render.status import (
    FragmentStatus,
    NodeStatus,
    OutputStatus,
    SourceDocument,
    StatusDocument,
)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One figure."""

    name: str
    labels: dict[str, str]
    value: float


def samples(document: StatusDocument) -> list[Sample]:
    """Every figure of a cluster's state."""
    return [
        Sample(name=sample.name, labels=dict(sample.labels), value=sample.value)
        for family in _families(document)
        for sample in family.samples
    ]


def exposition(document: StatusDocument) -> str:
    """The same in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Reading(document))
    return generate_latest(registry).decode()


class _Reading(Collector):
    """One state, for a registry to collect."""

    def __init__(self, document: StatusDocument) -> None:
        self._document = document

    def collect(self) -> Iterator[Metric]:
        return _families(self._document)


def _families(document: StatusDocument) -> Iterator[Metric]:
    yield from _of_nodes(document.nodes)
    yield from _of_fragments(document.fragments)
    yield from _of_streams(document.sources)
    yield from _of_outputs(document.outputs)


def _of_nodes(nodes: Sequence[NodeStatus]) -> Iterator[Metric]:
    up = _gauge("host_up", "Hosts that are alive.", "node", "kind", "region")
    events = _counter("host_events", "What hosts have counted since they started.", "node", "event")
    for node in nodes:
        up.add_metric([node.node, node.kind, node.region], 1)
        for event, times in sorted(node.counters.items()):
            events.add_metric([node.node, event], times)
    yield from (up, events)


def _of_fragments(fragments: Sequence[FragmentStatus]) -> Iterator[Metric]:
    labels = ("query", "fragment")
    redundant = _gauge("fragment_redundant", "1 with a warm standby, else 0.", *labels)
    epoch = _gauge("fragment_epoch", "Primaries that the fragment has had.", *labels)
    due = _gauge("fragment_sub_deadline_seconds", "By when it must be done.", *labels)
    for each in fragments:
        names = [each.query, each.fragment]
        redundant.add_metric(names, float(each.redundant))
        epoch.add_metric(names, each.epoch)
        due.add_metric(names, each.sub_deadline_ms / 1000)
    yield from (redundant, epoch, due)


def _of_streams(sources: Sequence[SourceDocument]) -> Iterator[Metric]:
    labels = ("stream", "site")
    entered = _counter("stream_tuples", "Tuples that have entered.", *labels)
    shed = _counter("stream_shed_tuples", "Tuples that a load shedder has dropped.", *labels)
    for each in sources:
        entered.add_metric([each.stream, each.site], each.entered)
        shed.add_metric([each.stream, each.site], each.shed)
    yield from (entered, shed)


def _of_outputs(outputs: Sequence[OutputStatus]) -> Iterator[Metric]:
    labels = ("query", "stream", "site")
    latency = _gauge("output_latency_seconds", "From entry to delivery.", *labels, "quantile")
    deadline = _gauge("output_deadline_seconds", "Until when an answer counts.", *labels)
    lately = _gauge("output_miss_ratio", "Late tuples of those that came lately.", *labels)
    counted: list[tuple[str, str, Callable[[OutputStatus], int]]] = [
        ("tuples", "Tuples delivered.", lambda each: each.rows),
        ("late_tuples", "Tuples later than the deadline.", lambda each: each.late_rows),
        (
            "completed_timestamps",
            "Instants whose results are complete.",
            lambda each: each.completed_timestamps,
        ),
        ("late_timestamps", "Answers later than the deadline.", lambda each: each.deadline_misses),
        ("lost_tuples", "Tuples known to be missing.", lambda each: each.lost),
        ("repeated_tuples", "Tuples that came again.", lambda each: each.repeated),
    ]
    for each in outputs:
        names = [each.query, each.stream, each.site]
        deadline.add_metric(names, each.deadline_ms / 1000)
        for quantile, ms in (("0.5", each.latency_ms_p50), ("0.99", each.latency_ms_p99)):
            if ms is not None:
                latency.add_metric([*names, quantile], ms / 1000)
        if each.recent_miss_pct is not None:
            lately.add_metric(names, each.recent_miss_pct / 100)
    yield from (latency, deadline, lately)
    for name, what, value in counted:
        counter = _counter(f"output_{name}", what, *labels)
        for each in outputs:
            counter.add_metric([each.query, each.stream, each.site], value(each))
        yield counter


def _gauge(name: str, what: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"vivace_{name}", what, labels=labels)


def _counter(name: str, what: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"vivace_{name}", what, labels=labels)
