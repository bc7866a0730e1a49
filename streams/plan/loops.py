"""Loops: statements that read each other, compiled together.

In a loop time consists of *instants* (τ, n): the n-th step, from 0, of a millisecond τ. Tuples from
outside come at n = 0. An instant is one whole number,

    v = τ · 2¹⁶ + n,

so operators, which use times as whole numbers that rise and have distances, work on instants as
they work on milliseconds. A window's range t becomes t · 2¹⁶: a tuple of (τ, n) leaves at
(τ + t, n), as in *Recursive streams* (§2.2). `[NOW]` has the range 1, one instant; so has the delay
`<NOW>`. Outside of the loop only milliseconds exist.

Without the edges of delayed streams, the statements of a loop are a directed acyclic graph: every
cycle has a delay. Any topological order of it is one in which each instant can be evaluated (§3.2).
This one takes statements as they were written wherever it can.

Types go round in a loop, too. A statement has the columns of its first SELECT as soon as all that
this reads is known, or if it says types itself, by CAST and constants. The other SELECTs may make
integers floats.

A loop with several exported streams gives one stream of tagged rows: which stream a row is of, then
the columns of all streams side by side, NULL where the row is of another stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from streams.language.ast import (
    Call,
    Literal,
    Loop,
    RelationExpression,
    Select,
    SetOperation,
    Source,
    Statement,
    ToStream,
    Window,
)
from streams.language.errors import QueryError
from streams.language.names import written_name
from streams.language.parser import parse
from streams.language.walk import leaves_of, streams_of, with_leaves
from streams.plan.program import STEP_BITS, LoopPlan, MemberPlan, Program, SelectPlan
from streams.vectors.chunk import TIMESTAMP

LONGEST_MS = 2**45
"""Every length of time in a loop, and every timestamp, is shorter, ms: until the year 3084."""

TAG = "__stream"
"""Column of a tagged stream: which of the exported streams a row is of, from 0."""

Columns = Mapping[str, str]

Catalogue = Mapping[str, Columns]

Compile = Callable[[Statement, Catalogue], Program]

_conditions = (
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("and", "or", "not", "is_null", "like"),
)
_typed_calls = {
    "cast_int": "int",
    "cast_float": "float",
    "cast_string": "string",
    "count": "int",
    **dict.fromkeys(_conditions, "bool"),
}
_typed_literals: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "string"}


def compiled_loop(
    statement: Statement, loop: Loop, catalogue: Catalogue, compile_one: Compile
) -> Program:
    """The program of a loop.

    Parameters
    ----------
    statement, loop
        The loop as a statement, and what it consists of.
    catalogue
        The streams from outside.
    compile_one
        Compiles one statement.

    Raises
    ------
    QueryError
        As of `compile_statement`; or the types of some columns cannot be found out, a length of
        time is too long, RSTREAM repeats a relation at every instant for ever, or nothing is read
        from outside.
    """
    widened = {each.name: _widened(each) for each in loop.statements}
    known = _known_columns(widened, catalogue, compile_one)
    while True:
        streams = {**catalogue, **known}
        programs = {name: compile_one(each, streams) for name, each in widened.items()}
        found = {name: program.columns for name, program in programs.items()}
        if found == known:
            break
        # Integers become floats, and nothing becomes an integer again.
        known = found
    order = _order(widened)
    names = list(widened)
    members = tuple(
        MemberPlan(
            program=replace(programs[name], most_joined=loop.limits.tuples),
            delay=_delay(widened[name]),
        )
        for name in names
    )
    _check_repeated(widened, programs)
    exported = tuple(names.index(name) for name in loop.exported)
    inputs = tuple(
        dict.fromkeys(
            stream for each in members for stream in each.program.inputs if stream not in programs
        )
    )
    if not inputs:
        message = (
            f"{', '.join(names)} {'reads' if len(names) == 1 else 'read'} no stream from outside, "
            "so no tuple ever comes: begin with a SELECT of another stream, and UNION ALL"
        )
        raise QueryError(statement.source, statement.start, message)
    return Program(
        name=statement.name,
        inputs=inputs,
        columns=_exported_columns([found[name] for name in loop.exported]),
        text=statement.text,
        input_columns={stream: dict(catalogue[stream]) for stream in inputs},
        reads={stream: _read(stream, members, catalogue) for stream in inputs},
        windows=(),
        selects=(),
        to_stream=ToStream.ISTREAM,
        functions={name: code for each in members for name, code in each.program.functions.items()},
        loop=LoopPlan(
            members=members,
            order=tuple(map(names.index, order)),
            exported=exported,
            limits=loop.limits,
        ),
    )


def forwarding(loop: Program, stream: str) -> Statement:
    """The statement that takes one of several exported streams out of a loop's stream."""
    assert loop.loop is not None
    names = [loop.loop.members[place].program.name for place in loop.loop.exported]
    tag = names.index(stream)
    columns = loop.loop.members[loop.loop.exported[tag]].program.columns
    items = ", ".join(
        f"{_tagged(tag, place)} AS {written_name(name)}" for place, name in enumerate(columns)
    )
    select = f"SELECT {items} FROM {loop.name} [NOW] WHERE {TAG} = {tag}"
    (made,) = parse(f"REGISTER QUERY {stream} RSTREAM({select});")
    return made


def _exported_columns(exported: list[dict[str, str]]) -> dict[str, str]:
    if len(exported) == 1:
        return exported[0]
    columns = {TAG: "int"}
    for tag, own in enumerate(exported):
        columns |= {_tagged(tag, place): kind for place, kind in enumerate(own.values())}
    return columns


def _tagged(tag: int, place: int) -> str:
    return f"__{tag}_{place}"


def _read(stream: str, members: tuple[MemberPlan, ...], catalogue: Catalogue) -> tuple[str, ...]:
    """The columns that statements read of a stream, in its order."""
    read = {name for each in members for name in each.program.reads.get(stream, ())}
    return tuple(name for name in (TIMESTAMP, *catalogue[stream]) if name in read)


def _delay(statement: Statement) -> int:
    delay = statement.body.delay
    if delay is None:
        return 0
    return 1 if delay.duration_ms is None else delay.duration_ms << STEP_BITS


def _widened(statement: Statement) -> Statement:
    """A statement whose lengths of time are distances of instants."""
    delay = statement.body.delay
    if delay is not None and delay.duration_ms is not None and delay.duration_ms >= LONGEST_MS:
        raise _too_long(statement, delay.start)

    def change(source: Source) -> Source:
        window = source.window
        if window is None:
            return source
        if window.zone is not None:
            message = "a loop has no days of a time zone: make a stream of them outside of it"
            raise QueryError(statement.source, window.start, message)
        if window.now:
            return replace(source, window=replace(window, range_ms=1))
        lengths_ms = (window.range_ms, window.slide_ms, window.session_ms)
        if any(each is not None and each >= LONGEST_MS for each in lengths_ms):
            raise _too_long(statement, window.start)
        return replace(source, window=_in_instants(window))

    body = statement.body
    return replace(statement, body=replace(body, selects=with_leaves(body.selects, change)))


def _in_instants(window: Window) -> Window:
    def wide(length_ms: int | None) -> int | None:
        return None if length_ms is None else length_ms << STEP_BITS

    return replace(
        window,
        range_ms=wide(window.range_ms),
        slide_ms=wide(window.slide_ms),
        offset_ms=window.offset_ms << STEP_BITS,
        session_ms=wide(window.session_ms),
    )


def _too_long(statement: Statement, at: int) -> QueryError:
    message = f"in a loop, windows and delays are shorter than {LONGEST_MS} ms; write a shorter one"
    return QueryError(statement.source, at, message)


def _known_columns(
    statements: Mapping[str, Statement], catalogue: Catalogue, compile_one: Compile
) -> dict[str, dict[str, str]]:
    """What the first SELECT of each statement, or its casts, say of its columns."""
    known: dict[str, dict[str, str]] = {}
    while len(known) < len(statements):
        streams = {**catalogue, **known}
        found = {
            name: columns
            for name, each in statements.items()
            if name not in known
            and (columns := _first_columns(each, statements, streams, compile_one)) is not None
        }
        if not found:
            break
        known |= found
    for name, each in statements.items():
        if name not in known:
            unknown = sorted(streams_of(each) & statements.keys() - known.keys())
            message = (
                f"of which types the columns of {name} are depends on {', '.join(unknown)}, whose "
                f"types depend on {name}: begin the statement with a SELECT of other streams, or "
                "give each column of its first SELECT a type, as in CAST(x AS float) AS x"
            )
            raise QueryError(each.source, each.start, message)
    return known


def _first_columns(
    statement: Statement,
    members: Mapping[str, Statement],
    streams: Catalogue,
    compile_one: Compile,
) -> dict[str, str] | None:
    first = _first_select(statement.body.selects[0])
    unknown = members.keys() - streams.keys()
    if any(source.stream in unknown for source in leaves_of([first])):
        return _cast_columns(first)
    body = replace(statement.body, selects=(first,))
    return compile_one(replace(statement, body=body), streams).columns


def _first_select(select: Select) -> Select:
    """What names the columns of a SELECT: the first one of a union or an operation below it."""
    while not select.items and len(select.sources) == 1:
        match select.sources[0].derived:
            case RelationExpression(selects=selects):
                select = selects[0]
            case SetOperation(left=left):
                select = left.selects[0]
            case _:
                break
    return select


def _cast_columns(select: Select) -> dict[str, str] | None:
    """The columns of a SELECT each of which says its type; None if one does not."""
    columns: dict[str, str] = {}
    for item in select.items:
        one = item.expression
        match one:
            case Call():
                kind = _typed_calls.get(one.function)
            case Literal():
                kind = _typed_literals.get(type(one.value))
            case _:
                kind = None
        if kind is None or item.alias is None:
            return None
        columns[item.alias] = kind
    return columns or None


def _order(statements: Mapping[str, Statement]) -> list[str]:
    """Producers before those that read them without delay, as written wherever that can be."""
    delayed = {name for name, each in statements.items() if each.body.delay is not None}
    left = {
        name: streams_of(each) & statements.keys() - delayed for name, each in statements.items()
    }
    order: list[str] = []
    while left:
        name = next(name for name, read in left.items() if read.isdisjoint(left))
        del left[name]
        order.append(name)
    return order


def _check_repeated(statements: Mapping[str, Statement], programs: Mapping[str, Program]) -> None:
    """Refuse RSTREAM in a cycle of no duration over a relation that does not empty itself."""
    short = {
        name
        for name, each in statements.items()
        if each.body.delay is None or each.body.delay.duration_ms is None
    }
    reads = {name: streams_of(each) & short for name, each in statements.items()}
    for name, program in programs.items():
        if program.to_stream is not ToStream.RSTREAM or not _reaches(reads, name):
            continue
        if program.relations or not all(_empties(program, each) for each in program.selects):
            message = (
                f"RSTREAM gives all of its relation at each instant, and {name} reads itself an "
                "instant later, without end: write ISTREAM, a delay with a duration, or [NOW] "
                "for a stream in each of its SELECTs"
            )
            raise QueryError(statements[name].source, statements[name].start, message)


def _reaches(reads: Mapping[str, set[str]], name: str) -> bool:
    pending, seen = [*reads[name]], set[str]()
    while pending:
        if (one := pending.pop()) == name:
            return True
        if one not in seen:
            seen.add(one)
            pending += reads[one]
    return False


def _empties(program: Program, select: SelectPlan) -> bool:
    """Whether a select has no row an instant after the tuples of one of its streams."""
    if select.group is not None and not select.group.keys:
        return False
    return any(
        program.windows[source.window].range_ms == 1 and program.windows[source.window].rows is None
        for source in select.sources
    )
