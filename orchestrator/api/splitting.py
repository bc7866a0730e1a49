"""Which statements are split into partial and final ones (`streams.plan.partial`).

A statement over a union of streams, which nothing else reads, may be split in two ways: above that
union, or below it, so that each of its streams is summed up where it comes from
(`streams.plan.partial_union`).

This is decided once, when a query is applied, and kept in its record. A query that asks for it has
all statements split for which the result is the same. Otherwise price decides: the query is planned
each way, by what trials on its streams' recordings have found, and a statement is split in the way
that saves most network usage, if that is enough. All plans must keep deadlines and bounds and find
room on the nodes, so they count the processor time of more fragments and the latency of one more
hop. What a split writes is kept too: a query that runs is never written in another way.

The number of groups in a pane is what decides, and generated rows say nothing about that. So
a statement stays whole if one of its streams has no recording that can be read here, or if its
owner states estimates of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from orchestrator.api.pricing import (
    dataflow_with,
    figures_of,
    records_with,
    tried_again,
    with_record,
)
from orchestrator.api.split_ways import ways_to_split
from orchestrator.api.trial import readable
from orchestrator.clock import thread_us
from orchestrator.control.observe.dataflow import Dataflow
from orchestrator.control.observe.view import ClusterView
from orchestrator.manifest import Manifests
from orchestrator.records import Partial, QueryRecord, Split
from placement.records import QueryFigures
from streams.language import parse

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
        flow = dataflow_with(view, manifests)
        candidates = ways_to_split(flow, record)
        if not candidates:
            continue
        if record.partial is Partial.ALWAYS:
            asked = {
                name: msgspec.structs.replace(ways[0], why="the query asks for it")
                for name, ways in candidates.items()
            }
            manifests = _decided(view, manifests, record, asked)
            continue
        decider = _Decider(view, flow, processor_us)
        for fragment, ways in candidates.items():
            late = processor_us() - began_us > ALL_US
            manifests = decider.decide(manifests, record.name, fragment, ways, late=late)
    return manifests


def _decided(
    view: ClusterView,
    manifests: Manifests,
    record: QueryRecord,
    splits: dict[str, Split],
    processor_us: Callable[[], int] = thread_us,
) -> Manifests:
    """The manifests with decisions on a query, and with trials of the statements that they make."""
    record = msgspec.structs.replace(record, splits=splits)
    if not any(each.made for each in splits.values()):
        return with_record(manifests, record)
    return tried_again(view, manifests, record, processor_us)


class _Priced(NamedTuple):
    """What a way to split a statement comes to."""

    usage: float
    """Network usage of the query, bytes; infinite if it cannot be had."""
    why: str
    record: QueryRecord
    """The query's, split in this way."""


class _Decider:
    """Decides by price on the statements of a query."""

    def __init__(self, view: ClusterView, flow: Dataflow, processor_us: Callable[[], int]) -> None:
        self._view = view
        self._flow = flow
        self._processor_us = processor_us

    def decide(
        self,
        manifests: Manifests,
        name: str,
        fragment: str,
        ways: tuple[Split, ...],
        *,
        late: bool,
    ) -> Manifests:
        """The manifests with a decision on one statement."""
        (query,) = (each for each in manifests.queries if each.record.name == name)
        record = query.record
        why = (
            "many queries are applied at once"
            if late
            else self._unknown(manifests, record, fragment)
        )
        if why is None:
            before = figures_of(self._view, manifests, name)
            why = "the query cannot be placed"
            if before is not None:
                tried = [self._priced(manifests, record, fragment, way, before) for way in ways]
                best = min(tried, key=lambda one: one.usage)
                why = best.why
                saved = before.network_usage - best.usage
                if saved >= max(SAVED_SHARE * before.network_usage, SAVED_BYTES):
                    splits = dict(best.record.splits)
                    splits[fragment] = msgspec.structs.replace(splits[fragment], why=why)
                    made = msgspec.structs.replace(best.record, splits=splits)
                    return with_record(manifests, made)
        splits = {**record.splits, fragment: Split(why=why)}
        return with_record(manifests, msgspec.structs.replace(record, splits=splits))

    def _unknown(self, manifests: Manifests, record: QueryRecord, fragment: str) -> str | None:
        """Why the number of groups is not known; None if a trial can tell."""
        if self._view.settings.emulate_costs:
            return "costs are emulated, so nothing is tried"
        if fragment in record.estimates:
            return "its estimates are stated for the whole statement"
        streams, _ = records_with(self._view, manifests)
        entering = self._flow.entering_streams(record.name)
        unread = sorted(stream for stream in entering if not readable(streams[stream]))
        if unread:
            return f"the number of groups is not known: no recording of {', '.join(unread)} here"
        if fragment not in record.trials:
            return "its trial said nothing"
        return None

    def _priced(
        self,
        manifests: Manifests,
        whole: QueryRecord,
        fragment: str,
        way: Split,
        before: QueryFigures,
    ) -> _Priced:
        """What a plan says of a statement that is split in a way."""
        splits = {**whole.splits, fragment: way}
        tried = _decided(self._view, manifests, whole, splits, self._processor_us)
        (record,) = (each.record for each in tried.queries if each.record.name == whole.name)
        panes = [part.name for text in way.panes for part in parse(text)]
        found = [record.trials.get(name) for name in panes]
        shares = [one.selectivity for one in found if one is not None and one.selectivity]
        if len(shares) < len(panes):
            return _Priced(math.inf, "its trial gave no partial row", record)
        how = "in two" if way.without is None else f"split below {way.without}"
        after = figures_of(self._view, tried, whole.name)
        if after is None:
            why = f"{how} it cannot keep deadline and bound, or finds no room"
            return _Priced(math.inf, why, record)
        why = (
            f"network usage {before.network_usage:,.0f} bytes whole, "
            f"{after.network_usage:,.0f} {how}; its panes are "
            f"{' and '.join(f'{100 * share:.3g} %' for share in shares)} "
            f"of its input, its whole result {100 * whole.trials[fragment].selectivity:.3g} %"
        )
        return _Priced(after.network_usage, why, record)
