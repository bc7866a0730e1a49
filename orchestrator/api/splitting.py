"""Which statements are split into a partial and a final one (`streams.partial`).

This is decided once, when a query is applied, and kept in its record. A query that asks for it has
all statements split for which the result is the same. Otherwise price decides: the query is planned
both ways, by what trials on its streams' recordings have found, and a statement is split if that
saves network usage enough. Both plans must keep deadlines and bounds and find room on the nodes, so
they count the processor time of one more fragment and the latency of one more hop.

The number of groups in a pane is what decides, and generated rows say nothing about that. So
a statement stays whole if one of its streams has no recording that can be read here, or if its
owner states estimates of it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from orchestrator.api.trial import readable, try_query
from orchestrator.clock import thread_us
from orchestrator.control.admission import admit
from orchestrator.control.dataflow import Dataflow, sound_dataflow
from orchestrator.control.view import ClusterView
from orchestrator.errors import InvalidInput, Refused
from orchestrator.manifest import Manifests, QueryManifest
from orchestrator.records import Partial, QueryRecord, Split, StreamRecord
from placement.records import QueryFigures
from streams.language import parse
from streams.partial import SUFFIX, split

SAVED_SHARE = 0.25
"""Share of a query's network usage that a split must save: trials and plans are not exact."""

SAVED_BYTES = 500.0
"""Network usage that a split must save, bytes: 25 KB/s over 20 ms. Less is not worth a fragment,
whose replicas take processor time on two nodes."""

ALL_US = 5_000_000
"""Processor time after which statements stay whole untried: many at once must not take minutes."""


def with_splits(
    view: ClusterView, manifests: Manifests, processor_us: Callable[[], int] = thread_us
) -> Manifests:
    """The manifests, with what is decided of the new queries' statements that may be split.

    Parameters
    ----------
    manifests
        With what trials have found (`api.trial.with_trials`).
    """
    began_us = processor_us()
    for query in manifests.queries:
        record = query.record
        if record.name in view.queries or record.partial is Partial.NEVER:
            continue
        flow, _ = sound_dataflow(*_records(view, manifests))
        candidates = splittable(flow, record.name)
        if not candidates:
            continue
        if record.partial is Partial.ALWAYS:
            asked = Split(made=True, why="the query asks for it")
            manifests = _decided(view, manifests, query, dict.fromkeys(candidates, asked))
            continue
        decider = _Decider(view, flow, processor_us)
        for fragment in candidates:
            late = processor_us() - began_us > ALL_US
            manifests = decider.decide(manifests, record.name, fragment, late=late)
    return manifests


def splittable(flow: Dataflow, query: str) -> list[str]:
    """The fragments of a query whose statements may be split, producers before consumers."""
    return [
        fragment.name
        for fragment in flow.of(query)
        for statement in parse(fragment.statement)
        if split(statement, fragment.inputs) is not None
    ]


def _records(
    view: ClusterView, manifests: Manifests
) -> tuple[dict[str, StreamRecord], dict[str, QueryRecord]]:
    streams = {each.record.name: each.record for each in manifests.streams}
    queries = {each.record.name: each.record for each in manifests.queries}
    return view.stream_records | streams, queries | view.query_records


def _decided(
    view: ClusterView,
    manifests: Manifests,
    query: QueryManifest,
    splits: dict[str, Split],
    processor_us: Callable[[], int] = thread_us,
) -> Manifests:
    """The manifests with decisions on a query, and with trials of the statements that they make."""
    record = msgspec.structs.replace(query.record, splits=splits)
    made = _with_record(manifests, record)
    if view.settings.emulate_costs or not any(each.made for each in splits.values()):
        return made
    streams, queries = _records(view, made)
    flow, _ = sound_dataflow(streams, queries)
    trials = try_query(record.name, flow, streams, view.settings.batch_ms, processor_us)
    return _with_record(made, msgspec.structs.replace(record, trials=trials))


def _with_record(manifests: Manifests, record: QueryRecord) -> Manifests:
    queries = tuple(
        msgspec.structs.replace(each, record=record) if each.record.name == record.name else each
        for each in manifests.queries
    )
    return msgspec.structs.replace(manifests, queries=queries)


class _Decider:
    """Decides by price on the statements of a query."""

    def __init__(self, view: ClusterView, flow: Dataflow, processor_us: Callable[[], int]) -> None:
        self._view = view
        self._flow = flow
        self._processor_us = processor_us

    def decide(self, manifests: Manifests, name: str, fragment: str, *, late: bool) -> Manifests:
        """The manifests with a decision on one statement."""
        (query,) = (each for each in manifests.queries if each.record.name == name)
        record = query.record
        why = (
            "many queries are applied at once"
            if late
            else self._unknown(manifests, record, fragment)
        )
        if why is None:
            made = Split(made=True, why="")
            tried = _decided(
                self._view, manifests, query, {**record.splits, fragment: made}, self._processor_us
            )
            (other,) = (each.record for each in tried.queries if each.record.name == name)
            why, saves = self._compared(manifests, tried, record, other, fragment)
            if saves:
                splits = {**other.splits, fragment: Split(made=True, why=why)}
                return _with_record(tried, msgspec.structs.replace(other, splits=splits))
        splits = {**record.splits, fragment: Split(made=False, why=why)}
        return _with_record(manifests, msgspec.structs.replace(record, splits=splits))

    def _unknown(self, manifests: Manifests, record: QueryRecord, fragment: str) -> str | None:
        """Why the number of groups is not known; None if a trial can tell."""
        if self._view.settings.emulate_costs:
            return "costs are emulated, so nothing is tried"
        if fragment in record.estimates:
            return "its estimates are stated for the whole statement"
        streams, _ = _records(self._view, manifests)
        entering = self._flow.entering_streams(record.name)
        unread = sorted(stream for stream in entering if not readable(streams[stream]))
        if unread:
            return f"the number of groups is not known: no recording of {', '.join(unread)} here"
        if fragment not in record.trials:
            return "its trial said nothing"
        return None

    def _compared(
        self,
        manifests: Manifests,
        tried: Manifests,
        whole: QueryRecord,
        parts: QueryRecord,
        fragment: str,
    ) -> tuple[str, bool]:
        """What the plans of both ways say, and whether the statement is split."""
        partial = parts.trials.get(fragment + SUFFIX)
        if partial is None or not partial.selectivity:
            return "its trial gave no partial row", False
        before = self._figures(manifests, whole.name)
        if before is None:
            return "the query cannot be placed", False
        after = self._figures(tried, whole.name)
        if after is None:
            return "in two it cannot keep deadline and bound, or finds no room", False
        saved = before.network_usage - after.network_usage
        enough = saved >= max(SAVED_SHARE * before.network_usage, SAVED_BYTES)
        why = (
            f"network usage {before.network_usage:,.0f} bytes whole, "
            f"{after.network_usage:,.0f} in two; its panes are {100 * partial.selectivity:.3g} % "
            f"of its input, its whole result {100 * whole.trials[fragment].selectivity:.3g} %"
        )
        return why, enough

    def _figures(self, manifests: Manifests, name: str) -> QueryFigures | None:
        """What a plan promises the query, around what runs; None if there is none."""
        upstream = self._flow.upstream_queries(name)
        queries = [each for each in manifests.queries if each.record.name in upstream]
        try:
            plan = admit(self._view, manifests.streams, queries).plan
        except (InvalidInput, Refused):
            return None
        return next((each for each in plan.queries if each.query == name), None)
