"""What a query that is to be applied would cost, written in one way or another."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from orchestrator.api.trial import try_query
from orchestrator.clock import thread_us
from orchestrator.control.decide.admission import admit
from orchestrator.control.observe.dataflow import Dataflow, sound_dataflow
from orchestrator.control.observe.view import ClusterView
from orchestrator.errors import InvalidInput, Refused
from orchestrator.manifest import Manifests
from orchestrator.records import QueryRecord, StreamRecord
from placement.records import QueryFigures


def records_with(
    view: ClusterView, manifests: Manifests
) -> tuple[dict[str, StreamRecord], dict[str, QueryRecord]]:
    """Streams and queries of the cluster, with those of manifests."""
    streams = {each.record.name: each.record for each in manifests.streams}
    queries = {each.record.name: each.record for each in manifests.queries}
    return view.stream_records | streams, queries | view.query_records


def dataflow_with(view: ClusterView, manifests: Manifests) -> Dataflow:
    """The dataflow of the cluster, with that of manifests."""
    flow, _ = sound_dataflow(*records_with(view, manifests))
    return flow


def with_record(manifests: Manifests, record: QueryRecord) -> Manifests:
    """The manifests with another record of a query."""
    queries = tuple(
        msgspec.structs.replace(each, record=record) if each.record.name == record.name else each
        for each in manifests.queries
    )
    return msgspec.structs.replace(manifests, queries=queries)


def tried_again(
    view: ClusterView,
    manifests: Manifests,
    record: QueryRecord,
    processor_us: Callable[[], int] = thread_us,
) -> Manifests:
    """The manifests with a query that is written in another way, and trials of how it is now."""
    made = with_record(manifests, record)
    if view.settings.emulate_costs:
        return made
    streams, queries = records_with(view, made)
    flow, _ = sound_dataflow(streams, queries)
    trials = try_query(record.name, flow, streams, view, processor_us)
    return with_record(made, msgspec.structs.replace(record, trials=trials))


def figures_of(
    view: ClusterView, manifests: Manifests, name: str, beside: Collection[str] = ()
) -> QueryFigures | None:
    """What a plan promises a query of manifests, around what runs; None if there is none.

    Parameters
    ----------
    beside
        Other queries of the manifests that are planned as well, besides those whose streams it
        reads.
    """
    wanted = dataflow_with(view, manifests).upstream_queries(name) | {*beside}
    queries = [each for each in manifests.queries if each.record.name in wanted]
    try:
        plan = admit(view, manifests.streams, queries).plan
    except (InvalidInput, Refused):
        return None
    return next((each for each in plan.queries if each.query == name), None)
