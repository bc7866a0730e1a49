"""Which statements of a query give the rows of another query's, instead of computing the same.

Queries whose owners say `share: true` may share what they compute. When one is applied, each of its
statements that keeps state is compared with those of the others, which run already or stand before
it in the manifests (`streams.plan.sharing`). One that is computed there is replaced by a statement
that forwards the other one's rows, and what only such statements would read is not made.

All that can be shared is, or nothing: the query is planned both ways, beside those that stand
before it. It is shared if a plan keeps deadlines and bounds, and if that causes no more network
usage; it takes less processor time anyway. If all together are refused then, nothing is shared.
The decision is kept in the query's record, so a query that runs is never written in another way.
The query that computes cannot be deleted as long as others read its streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from orchestrator.api.pricing import (
    dataflow_with,
    figures_of,
    records_with,
    tried_again,
    with_record,
)
from orchestrator.clock import thread_us
from orchestrator.control.observe.dataflow import Dataflow, Fragment, sound_dataflow
from orchestrator.control.observe.view import ClusterView
from orchestrator.manifest import Manifests
from orchestrator.records import OnError, QueryRecord, Sharing
from streams.language import parse
from streams.language.ast import Statement
from streams.plan.compiler import compile_statement
from streams.plan.partial import whole_name
from streams.plan.sharing import Computation, computations, forwarding

ALL_US = 5_000_000
"""Processor time after which nothing more is shared: many at once must not take minutes."""

MORE_BYTES = 500.0
"""Network usage that sharing may cost, bytes: 25 KB/s over 20 ms. The processor time that it saves
is worth as much."""


def with_sharing(
    view: ClusterView, manifests: Manifests, processor_us: Callable[[], int] = thread_us
) -> Manifests:
    """The manifests, with what is decided of the new queries' statements that others compute.

    Parameters
    ----------
    manifests
        With what trials have found (`api.trial.with_trials`).
    """
    if not any(each.record.share for each in manifests.queries):
        return manifests
    flow = dataflow_with(view, manifests)
    if not all(flow.of(each.record.name) for each in manifests.queries):
        # A mistake in one of them, which is admission's to name.
        return manifests
    began_us = processor_us()
    computed = _computed(view, manifests)
    offered = [name for name, record in view.query_records.items() if record.share]
    before: list[str] = []
    for query in manifests.queries:
        record = query.record
        if record.name in view.queries:
            continue
        if record.share:
            if offered and processor_us() - began_us < ALL_US:
                manifests = _decided(
                    view, manifests, record, computed, offered, before, processor_us
                )
            offered.append(record.name)
        before.append(record.name)
    return manifests


def _decided(
    view: ClusterView,
    manifests: Manifests,
    record: QueryRecord,
    computed: Mapping[str, Computation],
    others: list[str],
    before: list[str],
    processor_us: Callable[[], int],
) -> Manifests:
    """The manifests with a decision on one query, if others compute what it does.

    Parameters
    ----------
    computed
        What statements compute, by the streams that they give.
    others
        Queries that offer what they compute.
    before
        Queries of the manifests that are planned before this one.
    """
    flow, (_, known) = dataflow_with(view, manifests), records_with(view, manifests)
    found = _computed_elsewhere(flow, record, computed, [known[name] for name in others])
    sharing = _shared(flow, record, {name: text for name, (_, text) in found.items()})
    if not sharing.statements:
        return manifests
    owners = sorted({found[name][0] for name in sharing.statements})
    apart = figures_of(view, manifests, record.name, before)
    shared = tried_again(
        view, manifests, msgspec.structs.replace(record, sharing=sharing), processor_us
    )
    together = figures_of(view, shared, record.name, before)
    why = f"query {', '.join(owners)} computes it"
    if together is None:
        why += ", but so it cannot keep deadline and bound, or finds no room"
        sharing = Sharing(why=why)
    elif apart is not None:
        figures = f"network usage {apart.network_usage:,.0f} bytes apart, "
        figures += f"{together.network_usage:,.0f} shared"
        if together.network_usage > apart.network_usage + MORE_BYTES:
            sharing = Sharing(why=f"{why}, but {figures}")
        why += f"; {figures}"
    else:
        why += "; apart it cannot keep deadline and bound, or finds no room"
    if not sharing.statements:
        return with_record(manifests, msgspec.structs.replace(record, sharing=sharing))
    (made,) = (each.record for each in shared.queries if each.record.name == record.name)
    sharing = msgspec.structs.replace(sharing, why=why)
    return with_record(shared, msgspec.structs.replace(made, sharing=sharing))


def _computed(view: ClusterView, manifests: Manifests) -> dict[str, Computation]:
    """What statements compute as their owners wrote them, by the streams that they give."""
    streams, queries = records_with(view, manifests)
    whole = {
        name: msgspec.structs.replace(record, sharing=None, splits={})
        for name, record in queries.items()
    }
    flow, _ = sound_dataflow(streams, whole)
    return computations(
        {name: (_statement(each), list(each.columns)) for name, each in flow.fragments.items()}
    )


def _computed_elsewhere(
    flow: Dataflow,
    record: QueryRecord,
    computed: Mapping[str, Computation],
    others: Iterable[QueryRecord],
) -> dict[str, tuple[str, str]]:
    """Fragment → the query that computes it, and the statement that forwards its rows."""
    candidates = [
        (other.name, fragment.name, computed[fragment.name])
        for other in others
        if record.name not in flow.upstream_queries(other.name)
        # What is left out is the owner's choice, and told of statements as they were written.
        and OnError.SKIP not in (record.on_error, other.on_error)
        for fragment in flow.of(other.name)
        if fragment.name in computed
        # Not one that forwards the rows of another one itself.
        and (other.sharing is None or fragment.name not in other.sharing.statements)
    ]
    stated = {whole_name(name) for name in (*record.estimates, *record.primaries)}
    found: dict[str, tuple[str, str]] = {}
    for fragment in flow.of(record.name):
        own = computed.get(fragment.name)
        if own is None or fragment.name in stated or _is_stateless(fragment):
            continue
        for owner, stream, computation in candidates:
            columns = own.columns_of(computation)
            if columns is not None:
                found[fragment.name] = owner, forwarding(fragment.name, stream, columns).text
                break
    return found


def _statement(fragment: Fragment) -> Statement:
    (statement,) = parse(fragment.statement)
    return statement


def _is_stateless(fragment: Fragment) -> bool:
    return compile_statement(_statement(fragment), fragment.inputs).stateless


def _shared(flow: Dataflow, record: QueryRecord, forwards: dict[str, str]) -> Sharing:
    """Which fragments forward rows, and which are not made any more.

    Made are those that somebody reads or names, and what they read unless they forward.
    """
    fragments = {each.name: each for each in flow.of(record.name)}
    named = {whole_name(name) for name in (*record.estimates, *record.primaries)}
    named |= record.outputs.keys()
    inside = {stream for each in fragments.values() for stream in each.inputs}
    outside = {
        stream
        for each in flow.fragments.values()
        if each.query != record.name
        for stream in each.inputs
    }
    pending = [name for name in fragments if name in named | outside or name not in inside]
    made: set[str] = set()
    while pending:
        if (name := pending.pop()) in made:
            continue
        made.add(name)
        if name not in forwards:
            pending += [stream for stream in fragments[name].inputs if stream in fragments]
    return Sharing(
        why="",
        statements={name: forwards[name] for name in fragments if name in made & forwards.keys()},
        without=tuple(name for name in fragments if name not in made),
    )
