"""A cluster's figures as Prometheus reads them, with names and units by its conventions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from orchestrator.api.cluster_status import status
from orchestrator.api.connection import Cluster
from orchestrator.records import Histogram
from orchestrator.results.metrics import MetricsDocument, Sample
from orchestrator.results.status import StatusDocument


def metrics(cluster: Cluster) -> MetricsDocument:
    """Tuples, misses, latencies and counters of a cluster."""
    return MetricsDocument(metrics=samples(status(cluster)))


def samples(document: StatusDocument) -> tuple[Sample, ...]:
    """The figures of a state."""
    return tuple(
        Sample(name=sample.name, labels=dict(sample.labels), value=sample.value)
        for family in _families(document)
        for sample in family.samples
    )


def exposition(cluster: Cluster) -> str:
    """The same as `metrics` in Prometheus' text format."""
    return exposition_of(status(cluster))


def exposition_of(document: StatusDocument) -> str:
    """The figures of a state in Prometheus' text format."""
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
    yield _gauge("problems", "Problems that the leader and the hosts report.", (), [
        ((), len(document.problems)),
    ])  # fmt: skip
    yield _gauge("host_up", "1 for each host that is alive.", ("node", "kind", "region"), (
        ((each.node, each.kind, each.region), 1) for each in document.nodes
    ))  # fmt: skip
    what = "1 for each node or site of the manifest that has no host."
    yield _gauge("host_missing", what, ("node",), (((each,), 1) for each in document.missing))
    what = "When each host wrote its record: none does while the store is away."
    yield _gauge("host_report_timestamp_seconds", what, ("node",), (
        ((each.node,), each.reported_us / 1e6) for each in document.nodes
    ))  # fmt: skip
    yield _gauge("host_memory_budget_bytes", "Memory that a host's queues may take.", ("node",), (
        ((each.node,), each.memory.budget) for each in document.nodes if each.memory
    ))  # fmt: skip
    yield _gauge("host_memory_bytes", "Memory that a host's queues take.", ("node", "queue"), (
        ((each.node, queue), getattr(each.memory, queue))
        for each in document.nodes
        if each.memory
        for queue in ("logs", "inputs", "sinks", "transit")
    ))  # fmt: skip
    yield _counter("host_events", "Events that hosts have counted.", ("node", "event"), (
        ((each.node, event), times)
        for each in document.nodes
        for event, times in sorted(each.counters.items())
    ))  # fmt: skip
    what = "How long evaluations took that hosts dispatched: processor time of a batch."
    yield _histogram("dispatch_seconds", what, ("node",), (
        ((each.node,), each.dispatch_histogram) for each in document.nodes
    ))  # fmt: skip
    what = "How long the leader took for steps of moves that were done."
    yield _histogram("move_seconds", what, (), [((), document.moves)])
    what = "From the failure of a primary until its successor had caught up."
    yield _histogram("recovery_seconds", what, ("query",), (
        ((query,), found) for query, found in document.recoveries.items()
    ))  # fmt: skip
    what = "How long ago the leader computed loads; without a leader there are no figures of it."
    ages_s = [] if document.figures_age_s is None else [document.figures_age_s]
    yield _gauge("figures_age_seconds", what, (), (((), age_s) for age_s in ages_s))
    yield from _tabled(document.loads, "place", ("name",), (
        ("measured_cores", "Processors that its hosts have taken lately.", "measured_cores", 1),
        ("predicted_cores", "Processors that its hosts should take.", "predicted_cores", 1),
        ("services_cores", "Processors of Spark, ZooKeeper, coordinator.", "services_cores", 1),
        ("takeover_cores", "Processors that stay free for a takeover.", "takeover_cores", 1),
        ("limit_cores", "Processors up to which queries are admitted.", "limit_cores", 1),
        ("speed", "How fast its processors work; 1: as where costs were found.", "speed", 1),
    ))  # fmt: skip
    running = [each for each in document.fragments if not each.paused]
    yield from _tabled(running, "fragment", ("query", "fragment"), (
        ("redundant", "1 with a warm standby, else 0.", "redundant", 1),
        ("throttled", "1 if it waits for consumers.", "throttled", 1),
        ("epoch", "Fencing number, which rises with each change of primary.", "epoch", 1),
        ("sub_deadline_seconds", "Time within which it must evaluate.", "sub_deadline_ms", 1000),
        ("snapshot_bytes", "Size of the last state given to a secondary.", "snapshot_bytes", 1),
        ("snapshot_seconds", "Processor time of writing that.", "snapshot_ms", 1000),
        ("checkpoint_bytes", "Size of the state in its last checkpoint.", "checkpoint_bytes", 1),
        ("rejected_tuples_total", "Tuples left out because it fails on them.", "rejected", 1),
        ("lost_input_tuples", "Input without results, of a state lost.", "lost_input_tuples", 1),
    ))  # fmt: skip
    yield from _tabled(document.queries, "query", ("query",), (
        ("planned_latency_seconds", "Of its slowest output, as planned.", "latency_ms", 1000),
        ("slack_seconds", "What its deadline leaves of that.", "slack_ms", 1000),
        ("planned_recovery_seconds", "The longest of its fragments.", "recovery_ms", 1000),
        ("recovery_bound_seconds", "Longest that a recovery may take.", "bound_ms", 1000),
        ("network_usage_bytes", "Bytes under way, standbys included.", "network_usage_bytes", 1),
    ))  # fmt: skip
    yield from _tabled(document.streams, "stream", ("stream", "site"), (
        ("tuples_total", "Tuples that have entered.", "entered", 1),
        ("shed_tuples_total", "Tuples that a load shedder has dropped.", "shed", 1),
        ("overdue_tuples_total", "Tuples dropped because they were overdue.", "overdue", 1),
        ("unnumbered_tuples", "Tuples that wait for consumers there.", "waiting", 1),
        ("throttled", "1 if its source waits for consumers.", "throttled", 1),
        ("slipped_seconds", "By how much its source has waited.", "slipped_ms", 1000),
        ("overflowed_tuples_total", "Tuples dropped at a full buffer.", "overflowed", 1),
        ("refused_total", "What its source did not let in.", "refused", 1),
        ("skipped_tuples", "Left out when it last began anew.", "skipped_tuples", 1),
    ))  # fmt: skip
    what = "Tuples that a live source has accepted and that have not entered yet."
    yield _gauge("stream_waiting_tuples", what, ("stream", "site"), (
        ((each.stream, each.site), each.input.waiting.tuples if each.input.waiting else 0)
        for each in document.streams
        if each.input is not None
    ))  # fmt: skip
    what = "Tuples of a live source that had fields which the stream does not have."
    yield _gauge("stream_ignored_fields_tuples", what, ("stream", "site"), (
        ((each.stream, each.site), each.input.ignored)
        for each in document.streams
        if each.input is not None
    ))  # fmt: skip
    labels = ("query", "stream", "site")
    yield from _tabled(document.outputs, "output", labels, (
        ("deadline_seconds", "End-to-end deadline.", "deadline_ms", 1000),
        (
            "latency_uncertainty_seconds",
            "By how much latencies may be wrong, because clocks of several machines are compared.",
            "latency_uncertainty_ms",
            1000,
        ),
        ("miss_ratio", "Late tuples of those delivered lately.", "recent_miss_pct", 100),
        ("tuples_total", "Tuples delivered.", "rows", 1),
        ("late_tuples_total", "Tuples that came after the deadline.", "late_rows", 1),
        ("late_dropped_tuples_total", "Those that were dropped.", "late_dropped", 1),
        ("completed_timestamps_total", "Timestamps completed.", "completed_timestamps", 1),
        ("late_timestamps_total", "Timestamps completed late.", "deadline_misses", 1),
        ("lost_tuples_total", "Tuples known to be missing.", "lost", 1),
        ("repeated_tuples_total", "Tuples that came again, and were dropped.", "repeated", 1),
        ("dropped_readers_total", "Readers cut off, as they did not read.", "readers_dropped", 1),
        ("unkept_seconds", "How long its sink has kept nothing of it.", "unkept_ms", 1000),
    ))  # fmt: skip
    what = "From the entry of a timestamp to its completion."
    yield _histogram("output_latency_seconds", what, labels, (
        ((each.query, each.stream, each.site), each.latency_histogram) for each in document.outputs
    ))  # fmt: skip
    what = "Percentiles of the same, of the last 20,000 timestamps."
    yield _gauge("output_latency_quantile_seconds", what, (*labels, "percentile"), (
        ((each.query, each.stream, each.site, rank), ms / 1000)
        for each in document.outputs
        for rank, ms in (("50", each.latency_ms_p50), ("99", each.latency_ms_p99))
        if ms is not None
    ))  # fmt: skip


def _tabled(
    things: Iterable[Any],
    prefix: str,
    labels: tuple[str, ...],
    rows: Iterable[tuple[str, str, str, int]],
) -> Iterator[Metric]:
    """A metric for each row: name, explanation, attribute, and attribute units per base unit."""
    for name, what, attribute, per_unit in rows:
        figures = [
            (tuple(getattr(each, label) for label in labels), getattr(each, attribute) / per_unit)
            for each in things
            if getattr(each, attribute) is not None
        ]
        counted = name.endswith("_total")
        yield (_counter if counted else _gauge)(f"{prefix}_{name}", what, labels, figures)


Figures = Iterable[tuple[tuple[str, ...], float]]


def _gauge(name: str, what: str, labels: tuple[str, ...], figures: Figures) -> Metric:
    return _filled(GaugeMetricFamily(f"vivace_{name}", what, labels=labels), figures)


def _counter(name: str, what: str, labels: tuple[str, ...], figures: Figures) -> Metric:
    return _filled(CounterMetricFamily(f"vivace_{name}", what, labels=labels), figures)


def _histogram(
    name: str,
    what: str,
    labels: tuple[str, ...],
    found: Iterable[tuple[tuple[str, ...], Histogram | None]],
) -> Metric:
    family = HistogramMetricFamily(f"vivace_{name}", what, labels=labels)
    for values, each in found:
        if each is None:
            continue
        bounds = [*(f"{ms / 1000:g}" for ms in each.bounds_ms), "+Inf"]
        buckets = [*zip(bounds, accumulate(each.counts), strict=True)]
        family.add_metric(values, buckets, each.sum_ms / 1000)
    return family


def _filled(family: GaugeMetricFamily | CounterMetricFamily, figures: Figures) -> Metric:
    for labels, value in figures:
        family.add_metric(labels, value)
    return family
