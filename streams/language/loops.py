"""Statements that read each other in a cycle, and statements with delays, become loops.

A cycle needs a *delay* after a relation-to-stream operator (Recursive streams, §3.1): `<NOW>`, by
one instant, or a duration. Without it, what a relation holds at one instant would depend on itself.
Delays exist on streams only, so a cycle of relations alone has no cure (`streams.language.views`
refuses it).

The statements of one query that read each other, directly or through others, are one *loop*: one
fragment, whose evaluation knows instants (`streams.evaluate.loops`). A statement with a delay that
is on no cycle is a loop by itself. The text of a loop is all that its program and its snapshots
depend on:

    REGISTER LOOP name OF exported, … STEPS n TUPLES m ERROR (REGISTER QUERY …; …);

Streams are *exported* if something outside reads them. If they are several, the loop gives one
stream of tagged rows (`streams.plan.loops`), and a fragment for each of them forwards its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import combinations

from foundation.loop_limits import DEFAULT_TUPLES, LoopLimits
from streams.language.ast import Loop, Select, Statement, StreamExpression, ToStream
from streams.language.errors import QueryError
from streams.language.walk import streams_of

LOOP_INFIX = "__loop"
"""Ends the name of a loop with several exported streams, after that of the first; no name that a
user gives may contain it."""

MOST_TRIED = 16
"""Statements of a loop among which the least number of delays is looked for."""

USUAL = LoopLimits()

Reads = Mapping[str, Set[str]]
"""Statement → those that it reads."""


def with_loops(
    statements: Sequence[Statement],
    outputs: Collection[str],
    limits: LoopLimits = USUAL,
) -> tuple[Statement, ...]:
    """The statements of one query, in which those of a loop are one statement.

    Parameters
    ----------
    statements
        Without relations in them (`with_relations`).
    outputs
        Streams that are read outside of the query.
    steps, beyond
        As in `Loop`.

    Raises
    ------
    QueryError
        A cycle has no delay, or statements stand in a loop already.

    Examples
    --------
    >>> from streams.language import parse
    >>> text = "REGISTER QUERY q ISTREAM(SELECT * FROM s [NOW] UNION ALL SELECT * FROM q [NOW])"
    >>> with_loops(parse(text + "<NOW>"), ["q"])[0].text.partition("(")[0]
    'REGISTER LOOP q OF q STEPS 1000 ERROR '
    """
    for each in statements:
        if each.loop is not None:
            message = "write the statements of a loop themselves; Vivace finds the loop"
            raise QueryError(each.source, each.start, message)
    streams = {each.name: each for each in statements if not each.is_relation}
    loops = [*loops_of(streams)]
    if not loops:
        return tuple(statements)
    for names in loops:
        _check_delays(streams, names)
        _check_periods(streams, names)
    inside = {name: place for place, names in enumerate(loops) for name in names}
    read = {
        stream
        for each in statements
        for stream in streams_of(each)
        if stream in inside and inside.get(each.name) != inside[stream] and not each.is_relation
    }
    found: list[Statement] = []
    made: set[int] = set()
    hidden: set[str] = set()
    for each in statements:
        place = None if each.is_relation else inside.get(each.name)
        if place is None:
            found.append(each)
        elif place not in made:
            made.add(place)
            members = tuple(streams[name] for name in streams if name in loops[place])
            wanted = read | set(outputs)
            exported = [one.name for one in members if one.name in wanted]
            exported = exported or [one.name for one in members]
            hidden.update(one.name for one in members if one.name not in exported)
            found += _together(members, exported, limits)
    # Relations are in the statements that read them, and others cannot read those of a loop.
    return tuple(one for one in found if one.loop or streams_of(one).isdisjoint(hidden))


def _together(
    members: tuple[Statement, ...], exported: Sequence[str], limits: LoopLimits
) -> Iterator[Statement]:
    """The loop of some statements, and those that forward its streams if they are several."""
    first = members[0]
    several = len(exported) > 1
    name = exported[0] + LOOP_INFIX if several else exported[0]
    inner = " ".join(each.text for each in members).removesuffix(";")
    # Former versions know no TUPLES, and read texts that do not say what is usual.
    tuples = "" if limits.tuples == DEFAULT_TUPLES else f" TUPLES {limits.tuples}"
    what = f"{name} OF {', '.join(exported)} STEPS {limits.steps}{tuples} {limits.beyond.name}"
    loop = Loop(
        start=first.start,
        end=first.end,
        statements=members,
        exported=tuple(exported),
        limits=limits,
    )
    yield Statement(
        start=first.start,
        end=first.end,
        name=name,
        text=f"REGISTER LOOP {what} ({inner});",
        source=first.source,
        body=StreamExpression(
            start=first.start, end=first.end, to_stream=ToStream.ISTREAM, selects=()
        ),
        loop=loop,
    )
    if several:
        for member in members:
            if member.name in exported:
                yield _placeholder(member, name)


def _placeholder(member: Statement, loop: str) -> Statement:
    """Stands for what forwards a stream, whose columns are known when the loop is compiled."""
    select = member.body.selects[0]
    source = select.sources[0]
    whole = replace(source, stream=loop, alias=loop, derived=None, window=None)
    everything = Select(
        start=select.start, end=select.end, items=(), sources=(whole,), where=None, group_by=()
    )
    return replace(member, body=replace(member.body, selects=(everything,), delay=None))


def loops_of(streams: Mapping[str, Statement]) -> Iterator[frozenset[str]]:
    """The statements of each loop, by the first of them as written."""
    reads = {name: streams_of(each) & streams.keys() for name, each in streams.items()}
    reached = {name: _reached(reads, name) for name in reads}
    done: set[str] = set()
    for name, each in streams.items():
        if name in done:
            continue
        names = {other for other in reached[name] if name in reached[other]}
        if each.body.delay is not None:
            names.add(name)
        if names:
            done |= names
            yield frozenset(names)


def _reached(reads: Reads, name: str) -> set[str]:
    """What a statement depends on, itself if it does."""
    found: set[str] = set()
    pending = [*reads[name]]
    while pending:
        if (one := pending.pop()) not in found:
            found.add(one)
            pending += reads[one]
    return found


def _check_delays(streams: Mapping[str, Statement], names: Set[str]) -> None:
    """Refuse a loop with a cycle that no delay is on."""
    reads = _reads(streams, names)
    delayed = {name for name in names if streams[name].body.delay is not None}
    cyclic = _cyclic(reads, delayed)
    if not cyclic:
        return
    added = least_delays(streams, names)
    first = next(name for name in streams if name in cyclic)
    shown = ", ".join(name for name in streams if name in cyclic)
    problem = f"{shown} reads its own output" if len(cyclic) == 1 else f"{shown} read each other"
    message = (
        f"{problem} at the same instant: write a delay, such as <NOW>, after the last parenthesis "
        f"of {' and of '.join(added)}; vivace validate --insert-delays does so"
    )
    raise QueryError(streams[first].source, streams[first].start, message)


def _check_periods(streams: Mapping[str, Statement], names: Set[str]) -> None:
    """Refuse a loop with a periodic statement: instants lie between its releases."""
    for name in streams:
        real_time = streams[name].body.real_time
        if name in names and real_time is not None:
            message = (
                f"{name} is part of a loop, which has no releases: make a stream of it there, and "
                "let a periodic statement outside of the loop read that"
            )
            raise QueryError(streams[name].source, real_time.start, message)


def _reads(streams: Mapping[str, Statement], names: Set[str]) -> dict[str, set[str]]:
    return {name: streams_of(streams[name]) & names for name in streams if name in names}


def _cyclic(reads: Reads, delayed: Collection[str]) -> set[str]:
    """The statements on cycles without a delay."""
    direct = {name: read - set(delayed) for name, read in reads.items()}
    return {name for name in direct if name in _reached(direct, name)}


def least_delays(streams: Mapping[str, Statement], names: Set[str]) -> tuple[str, ...]:
    """The statements of a loop that need a delay: as few as can be, the first ones as written.

    In a loop of more than `MOST_TRIED` statements there may be more than are needed.
    """
    reads = _reads(streams, names)
    delayed = {name for name in names if streams[name].body.delay is not None}
    cyclic = _cyclic(reads, delayed)
    candidates = [name for name in streams if name in cyclic]
    if len(candidates) <= MOST_TRIED:
        for count in range(len(candidates) + 1):
            for chosen in combinations(candidates, count):
                if not _cyclic(reads, delayed.union(chosen)):
                    return chosen
    chosen = list(candidates)
    for name in reversed(candidates):
        fewer = [one for one in chosen if one != name]
        if not _cyclic(reads, delayed.union(fewer)):
            chosen = fewer
    return tuple(chosen)


def with_delays(statements: Sequence[Statement]) -> str:
    """The text of statements with `<NOW>` wherever a cycle needs one: as few as can be.

    Parameters
    ----------
    statements
        Without relations in them (`with_relations`), from one text.

    Examples
    --------
    >>> from streams.language import parse
    >>> text = "REGISTER QUERY q ISTREAM(SELECT * FROM s [NOW] UNION ALL SELECT * FROM q [NOW]);"
    >>> with_delays(parse(text))[-12:]
    '[NOW])<NOW>;'
    """
    streams = {each.name: each for each in statements if not each.is_relation}
    text = statements[0].source
    ends = [
        streams[name].body.end
        for names in loops_of(streams)
        for name in least_delays(streams, names)
    ]
    for end in sorted(ends, reverse=True):
        text = f"{text[:end]}<NOW>{text[end:]}"
    return text
