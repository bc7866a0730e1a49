"""Which statements of a query give the rows of another query's, instead of computing the same.

Queries whose owners say `share: true` may share what they compute. Each statement of one that keeps
state is compared with those of the others, which run already or are placed before it
(`streams.plan.sharing`). One that is computed there may be replaced by a statement that forwards
the other one's rows; what only such statements would read is then not made. The query that computes
cannot be deleted as long as others read its streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.control.observe.dataflow import Dataflow, Fragment, sound_dataflow
from orchestrator.control.planning.planner import Planning
from orchestrator.records import OnError, QueryRecord, Rewrite, RewriteKind, StreamRecord
from streams.language import parse
from streams.language.ast import Statement
from streams.plan.compiler import compile_statement
from streams.plan.partial import whole_name
from streams.plan.sharing import Computation, computations, forwarding


def computed_by(
    streams: Mapping[str, StreamRecord], queries: Mapping[str, QueryRecord]
) -> dict[str, Computation]:
    """What statements compute as their owners wrote them, by the streams that they give."""
    flow, _ = sound_dataflow(streams, queries)
    return computations(
        {name: (_statement(each), list(each.columns)) for name, each in flow.fragments.items()}
    )


def way_to_share(
    planning: Planning,
    record: QueryRecord,
    computed: Mapping[str, Computation],
    offered: Iterable[str],
) -> tuple[tuple[Rewrite, ...], str]:
    """The rewrites by which a query takes from others what they compute, and whose that is.

    Parameters
    ----------
    computed
        As `computed_by` gives it.
    offered
        Queries that offer what they compute.

    Returns
    -------
    tuple
        Rewrites that belong together, without a reason yet; none if nobody computes anything of it.
    """
    found = _computed_elsewhere(planning, record, computed, offered)
    rewrites = _rewrites(planning.flow, record, {name: text for name, (_, text) in found.items()})
    owners = sorted({found[each.fragment][0] for each in rewrites})
    return rewrites, ", ".join(owners)


def _computed_elsewhere(
    planning: Planning,
    record: QueryRecord,
    computed: Mapping[str, Computation],
    offered: Iterable[str],
) -> dict[str, tuple[str, str]]:
    """Fragment → the query that computes it, and the statement that forwards its rows."""
    flow = planning.flow
    candidates = [
        (name, fragment.name, computed[fragment.name])
        for name in offered
        if record.name not in flow.upstream_queries(name)
        # What is left out is the owner's choice, and told of statements as they were written.
        and OnError.SKIP not in (record.on_error, planning.queries[name].on_error)
        for fragment in flow.of(name)
        if fragment.name in computed
        # Not one that forwards the rows of another one itself.
        and not _forwards(planning, fragment)
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


def _forwards(planning: Planning, fragment: Fragment) -> bool:
    decided = planning.decided.get(fragment.query)
    rewrite = decided and decided.rewrite(RewriteKind.SHARED, fragment.name)
    return rewrite is not None and rewrite.made


def _statement(fragment: Fragment) -> Statement:
    (statement,) = parse(fragment.statement)
    return statement


def _is_stateless(fragment: Fragment) -> bool:
    return compile_statement(_statement(fragment), fragment.inputs).stateless


def _rewrites(
    flow: Dataflow, record: QueryRecord, forwards: Mapping[str, str]
) -> tuple[Rewrite, ...]:
    """Those of the fragments that forward rows; with the first, what is not made any more.

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
    without = tuple(name for name in fragments if name not in made)
    return tuple(
        Rewrite(
            kind=RewriteKind.SHARED,
            fragment=name,
            why="",
            statements=(forwards[name],),
            without=() if number else without,
        )
        for number, name in enumerate(n for n in fragments if n in made & forwards.keys())
    )
