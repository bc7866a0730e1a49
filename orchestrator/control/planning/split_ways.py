"""The ways in which the statements of a query may be split into partial and final ones.

A statement over a union of streams, which nothing else reads, may be split in two ways: above that
union, or below it, so that each of its streams is summed up where it comes from
(`streams.plan.partial_union`). What a way costs, and whether it is taken, is for
`orchestrator.control.planning.rewriting` to decide.
"""

from __future__ import annotations

from orchestrator.control.observe.dataflow import Dataflow, Fragment
from orchestrator.records import OnError, QueryRecord, Rewrite, RewriteKind
from streams.language import parse
from streams.plan.partial import split
from streams.plan.partial_union import split_below


def ways_to_split(flow: Dataflow, query: QueryRecord) -> dict[str, tuple[Rewrite, ...]]:
    """Fragment of a query whose statement may be split → the ways; below a union comes first.

    Producers come before consumers.
    """
    found: dict[str, tuple[Rewrite, ...]] = {}
    if query.on_error is OnError.SKIP:
        # What its statements reject is told of them as they were written.
        return found
    for fragment in flow.of(query.name):
        (statement,) = parse(fragment.statement)
        parts = split(statement, fragment.inputs)
        if parts is None:
            continue
        above = _split(fragment, tuple(part.text for part in parts))
        below = _way_below(flow, query, fragment)
        found[fragment.name] = (above,) if below is None else (below, above)
    return found


def _split(
    fragment: Fragment, statements: tuple[str, ...], without: tuple[str, ...] = ()
) -> Rewrite:
    return Rewrite(
        kind=RewriteKind.SPLIT,
        fragment=fragment.name,
        why="",
        statements=statements,
        without=without,
    )


def _way_below(flow: Dataflow, query: QueryRecord, fragment: Fragment) -> Rewrite | None:
    """The split below the union that a fragment reads; None if something else needs that union."""
    (stream,) = fragment.inputs
    union = flow.fragments.get(stream)
    if union is None or union.query != query.name:
        return None
    readers = [each for each in flow.fragments.values() if stream in each.inputs]
    named = query.outputs.keys() | query.estimates.keys() | query.primaries.keys()
    if len(readers) > 1 or stream in named:
        return None
    (statement,), (united,) = parse(fragment.statement), parse(union.statement)
    parts = split_below(statement, united, flow.columns)
    if parts is None:
        return None
    return _split(fragment, tuple(part.text for part in parts), (stream,))
