"""All queries of a cluster as one dataflow: fragments, and the streams between them.

A statement gives one stream and is one fragment, unless it was decided that it runs in another way
(`orchestrator.control.planning.rewriting`): split into partial and final ones, or as one that
forwards the rows of another query. Names of streams are global, so a query may read the streams of
another one. Statements may stand in any order, within a query and across queries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from foundation.loop_limits import LoopLimits
from foundation.suggestions import nearest
from orchestrator.errors import InvalidInput, in_sentences
from orchestrator.manifest.kinds import QueryManifest, place_of
from orchestrator.records import (
    OnError,
    QueryRecord,
    Rewrite,
    RewriteKind,
    RunningQueryRecord,
    StreamRecord,
)
from streams.language import QueryError, parse
from streams.language.ast import Statement
from streams.language.loops import with_loops
from streams.language.views import with_relations
from streams.language.walk import streams_of
from streams.plan.compiler import compile_statement
from streams.plan.loops import forwarding
from streams.plan.made_names import INFIXES
from streams.plan.partial import whole_name
from streams.plan.program import REJECTED_SUFFIX, Program, ReleasePlan

Columns = Mapping[str, str]
"""Column → type, in order."""

AS_WRITTEN: Mapping[str, RunningQueryRecord] = {}
"""Nothing was decided: statements run as they were written."""

_StreamColumns = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


@dataclass(eq=False)
class InvalidQuery(ValueError):
    """A query that cannot run among the streams and queries around it.

    Attributes
    ----------
    query
        Its name.
    field
        The field that is wrong: `statements`, `outputs`, `estimates`, `primaries`.
    value
        The offending name, None where the problem shows the place in the text.
    problem, remedy
        A phrase and a sentence.
    line
        Line of the statements, from 1; None if no line is meant.
    """

    query: str
    field: str
    value: str | None
    problem: str
    remedy: str
    line: int | None = None

    def __str__(self) -> str:
        shown = "" if self.value is None else f"{self.value!r} "
        told = in_sentences(self.problem, self.remedy)
        return f"query {self.query}: {self.field}: {shown}{told}"


def located(problem: InvalidQuery, queries: Iterable[QueryManifest]) -> InvalidInput:
    """A query's problem, at the place in the file that has it."""
    where = "the store"
    for query in queries:
        if query.record.name == problem.query:
            where = place_of(query, f"{problem.field}.{problem.value}")
            if problem.line is not None:
                path = query.file.rpartition(":")[0]
                where = f"{path}:{query.statements_line + problem.line - 1}"
    field = f"Query {problem.query}: {problem.field}"
    return InvalidInput(where, field, problem.value, problem.problem, problem.remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """One statement of one query, or one of those that it was split into.

    Attributes
    ----------
    name
        Of the fragment and of the stream it gives.
    inputs
        Input stream → its columns.
    uses
        Input stream → those of its columns that the statement uses.
    columns
        Of the stream it gives.
    functions
        Installed functions that it calls → fingerprints of their code in this process.
    rejected
        Whether it gives the tuples that its statement rejects, in place of results.
    reach_ms
        How long before a timestamp its results depend on input, as far as time bounds that.
    is_endless
        Whether time does not bound that.
    keeps
        Input streams of which it keeps tuples for later timestamps.
    keeps_groups
        Whether it keeps those only as groups.
    is_loop
        Whether its statements read each other, so that it depends on all that has ever been.
    releases
        When its results come, if at releases only.
    """

    query: str
    name: str
    statement: str
    inputs: Mapping[str, Columns]
    uses: Mapping[str, Columns]
    columns: Columns
    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    rejected: bool = False
    reach_ms: int = 0
    is_endless: bool = False
    keeps: tuple[str, ...] = ()
    keeps_groups: bool = False
    is_loop: bool = False
    releases: ReleasePlan | None = None

    @property
    def key(self) -> str:
        """Name of its record in the store."""
        return f"{self.query}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataflow:
    """All fragments of all queries.

    Attributes
    ----------
    fragments
        By name, producers before consumers.
    columns
        Columns of every stream, made here or entering from outside.
    """

    fragments: Mapping[str, Fragment]
    columns: Mapping[str, Columns]

    def of(self, query: str) -> tuple[Fragment, ...]:
        """Fragments of a query, producers before consumers."""
        return tuple(each for each in self.fragments.values() if each.query == query)

    def upstream_queries(self, query: str) -> set[str]:
        """The query and all others whose streams it reads, directly or through others."""
        found: set[str] = set()
        pending = [query]
        while pending:
            if (name := pending.pop()) not in found:
                found.add(name)
                read = {stream for fragment in self.of(name) for stream in fragment.inputs}
                pending += [self.fragments[s].query for s in read & self.fragments.keys()]
        return found

    def upstream(self, query: str) -> tuple[Fragment, ...]:
        """A query's fragments and those whose streams they read, directly or through others.

        Producers come before consumers. Whatever else other queries make is left out.
        """
        needed = {each.name for each in self.of(query)}
        pending = [*needed]
        while pending:
            read = self.fragments[pending.pop()].inputs.keys() & self.fragments.keys()
            pending += read - needed
            needed |= read
        return tuple(each for each in self.fragments.values() if each.name in needed)

    def connected_queries(self, query: str) -> set[str]:
        """The query and all others connected with it: readers, and readers of what it reads."""
        found: set[str] = set()
        pending = [query]
        while pending:
            if (name := pending.pop()) not in found:
                found.add(name)
                made = {fragment.name for fragment in self.of(name)}
                pending += self.upstream_queries(name)
                pending += [f.query for f in self.fragments.values() if made.intersection(f.inputs)]
        return found

    def entering_streams(self, query: str) -> set[str]:
        """Streams from outside that the query depends on, directly or through others."""
        return {
            stream
            for fragment in self.upstream(query)
            for stream in fragment.inputs
            if stream not in self.fragments
        }


def dataflow(
    streams: Mapping[str, StreamRecord],
    queries: Mapping[str, QueryRecord],
    running: Mapping[str, RunningQueryRecord] = AS_WRITTEN,
) -> Dataflow:
    """Compile all queries, as they run.

    Of two queries that give streams of one name, the later one in the mapping is wrong.

    Raises
    ------
    InvalidQuery
        The first problem found.
    """
    return _compiled(*_texts(streams, queries, running))


def sound_dataflow(
    streams: Mapping[str, StreamRecord],
    queries: Mapping[str, QueryRecord],
    running: Mapping[str, RunningQueryRecord] = AS_WRITTEN,
) -> tuple[Dataflow, tuple[InvalidQuery, ...]]:
    """Compile the queries that are valid; returns them and the problems of the others."""
    return _sound(*_texts(streams, queries, running))


def _texts(
    streams: Mapping[str, StreamRecord],
    queries: Mapping[str, QueryRecord],
    running: Mapping[str, RunningQueryRecord],
) -> tuple[_StreamColumns, tuple[bytes, ...]]:
    """What compiling depends on."""
    columns = tuple((name, tuple(streams[name].columns.items())) for name in sorted(streams))
    texts: list[bytes] = []
    for name, query in queries.items():
        decided = running.get(name)
        texts.append(msgspec.json.encode((query, () if decided is None else decided.rewrites)))
    return columns, tuple(texts)


@lru_cache(maxsize=16)
def _sound(
    columns: _StreamColumns, texts: tuple[bytes, ...]
) -> tuple[Dataflow, tuple[InvalidQuery, ...]]:
    left = list(texts)
    problems: list[InvalidQuery] = []
    while True:
        try:
            return _compiled(columns, tuple(left)), tuple(problems)
        except InvalidQuery as problem:
            problems.append(problem)
            names = [_written(text)[0].name for text in left]
            del left[names.index(problem.query)]


# The coordinator asks again at every change of anything; queries change rarely.
@lru_cache(maxsize=16)
def _compiled(streams: _StreamColumns, texts: tuple[bytes, ...]) -> Dataflow:
    catalogue: dict[str, Columns] = {name: dict(columns) for name, columns in streams}
    decided = [_written(text) for text in texts]
    queries = [query for query, _ in decided]
    owners: dict[str, str] = {}
    relations: dict[str, str] = {}
    waiting: dict[str, tuple[QueryRecord, Statement]] = {}
    for query, rewrites in decided:
        try:
            statements = with_relations(parse(query.statements))
            running = _running(_with_loops(query, statements), rewrites)
        except QueryError as error:
            raise in_statements(query.name, error) from None
        except Exception as error:
            raise _bug(query.name, error) from error
        for statement in statements:
            taken = owners.get(statement.name)
            if statement.name in catalogue or taken is not None:
                owner = "a stream" if taken is None else f"query {taken}"
                raise InvalidQuery(
                    query.name,
                    "statements",
                    statement.name,
                    f"is the name of {owner} already",
                    "Names of streams are shared by all queries: choose another.",
                )
            for infix, whose in INFIXES.items():
                if infix in statement.name:
                    problem = f"contains {infix}, as the names of {whose} do"
                    remedy = "Choose another name."
                    raise InvalidQuery(query.name, "statements", statement.name, problem, remedy)
            owners[statement.name] = query.name
            if statement.is_relation:
                relations[statement.name] = query.name
        for statement in running:
            waiting[statement.name] = query, statement
            loop = statement.loop
            for name in (statement.name,) if loop is None else loop.exported:
                rejected = name + REJECTED_SUFFIX
                if rejected in query.outputs and query.on_error is OnError.SKIP:
                    waiting.setdefault(rejected, (query, statement))
    unshared = {
        name
        for _, rewrites in decided
        for each in rewrites
        if each.kind is RewriteKind.SHARED
        for name in each.without
    }
    _check_relations(waiting, relations)
    _check_made(waiting, owners, unshared)
    fragments = _in_order(waiting, catalogue)
    for query in queries:
        made = {f.name for f in fragments.values() if f.query == query.name}
        _check_names(query, made, relations)
    return Dataflow(fragments=fragments, columns=catalogue)


def _with_loops(query: QueryRecord, statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """A query's statements, in which those of a loop are one."""
    outputs = {name.removesuffix(REJECTED_SUFFIX) for name in query.outputs}
    limits = LoopLimits(query.loops.steps, query.loops.tuples, query.loops.beyond)
    return with_loops(statements, outputs, limits)


def _written(text: bytes) -> tuple[QueryRecord, tuple[Rewrite, ...]]:
    return msgspec.json.decode(text, type=tuple[QueryRecord, tuple[Rewrite, ...]])


def _running(written: Iterable[Statement], rewrites: Iterable[Rewrite]) -> list[Statement]:
    """A query's statements, with those in place that were decided to run instead."""
    made = {each.fragment: each for each in rewrites if each.made}
    without = {name for each in made.values() for name in each.without}
    found: list[Statement] = []
    for statement in written:
        if (rewrite := made.get(statement.name)) is not None:
            found += [part for text in rewrite.statements for part in parse(text)]
        elif statement.name not in without:
            found.append(statement)
    return found


def _check_relations(
    waiting: Mapping[str, tuple[QueryRecord, Statement]], relations: Mapping[str, str]
) -> None:
    """Refuse to read a relation of another query; a query's own are in its statements."""
    for query, statement in waiting.values():
        for name in sorted(inputs_of(statement) & relations.keys()):
            problem = f"is a relation of query {relations[name]}, which only its statements know"
            remedy = f"Make a stream of it there: ISTREAM(SELECT * FROM {name})."
            raise InvalidQuery(query.name, "statements", name, problem, remedy)


def _check_made(
    waiting: Mapping[str, tuple[QueryRecord, Statement]],
    owners: Mapping[str, str],
    unshared: Collection[str],
) -> None:
    """Refuse to read what is not made: its reader was split below it or is shared, or it is inside
    a loop."""
    loops = [one.loop for _, one in waiting.values() if one.loop is not None]
    inside = {each.name for loop in loops for each in loop.statements}
    for query, statement in waiting.values():
        for stream in sorted(inputs_of(statement)):
            if stream in owners and stream not in waiting:
                owner = owners[stream]
                if stream in inside:
                    problem = f"is inside a loop of query {owner}, which does not give it"
                    remedy = f"Name it in the outputs of query {owner}."
                elif stream in unshared:
                    problem = f"is not made: query {owner} shares what would be made from it"
                    remedy = f"Apply query {owner} with `share: false`."
                else:
                    problem = f"is not made: query {owner} aggregates the streams of that union "
                    problem += "apart"
                    remedy = f"Apply query {owner} with `partial: never`, or read those streams."
                raise InvalidQuery(query.name, "statements", stream, problem, remedy)


def in_statements(query: str, error: QueryError) -> InvalidQuery:
    """What is wrong with the text of a query."""
    return InvalidQuery(query, "statements", None, str(error), "", line=error.line)


def _bug(query: str, error: Exception) -> InvalidQuery:
    """A bug of the compiler, which concerns no other query."""
    problem = f"cannot be compiled, internal error: {error!r}"
    return InvalidQuery(query, "statements", None, problem, "Report it, with the statements.")


def _in_order(
    waiting: dict[str, tuple[QueryRecord, Statement]], catalogue: dict[str, Columns]
) -> dict[str, Fragment]:
    """Compile producers before consumers, and add the stream of each to the catalogue."""
    fragments: dict[str, Fragment] = {}
    forwarded = {
        stream: name
        for name, (_, one) in waiting.items()
        if one.loop is not None and name == one.name != one.loop.exported[0]
        for stream in one.loop.exported
    }
    loops: dict[str, Program] = {}
    while waiting:
        ready = [
            name for name, (_, body) in waiting.items() if not inputs_of(body) & waiting.keys()
        ]
        if not ready:
            query = next(iter(waiting.values()))[0]
            names = sorted(_on_cycles(waiting))
            owners = sorted({waiting[name][0].name for name in names})
            problem = f"of queries {', '.join(owners)} read each other, but a loop is in one query"
            remedy = "Write all of its statements in one query."
            raise InvalidQuery(query.name, "statements", ", ".join(names), problem, remedy)
        for name in ready:
            query, statement = waiting.pop(name)
            if name in forwarded:
                statement = forwarding(loops[forwarded[name]], name)
            try:
                program = compile_statement(statement, catalogue)
            except QueryError as error:
                raise in_statements(query.name, error) from None
            except Exception as error:
                raise _bug(query.name, error) from error
            if statement.is_relation:
                continue
            if program.loop is not None:
                loops[statement.name] = program
            if rejected := name != statement.name:
                program = program.rejections
            catalogue[name] = program.columns
            fragments[name] = Fragment(
                query=query.name,
                name=name,
                statement=program.text,
                inputs={stream: catalogue[stream] for stream in program.inputs},
                uses={
                    stream: {
                        column: kind
                        for column, kind in catalogue[stream].items()
                        if column in program.reads[stream]
                    }
                    for stream in program.inputs
                },
                columns=program.columns,
                functions=program.functions,
                rejected=rejected,
                reach_ms=program.bounded_reach_ms,
                is_endless=program.reach_ms is None,
                keeps=program.keeps,
                is_loop=program.loop is not None,
                releases=program.shown_at,
                keeps_groups=not program.relations
                and program.loop is None
                and all(select.group is not None for select in program.selects),
            )
    return fragments


def inputs_of(statement: Statement) -> set[str]:
    """The streams that a statement reads."""
    return streams_of(statement)


def _on_cycles(waiting: Mapping[str, tuple[QueryRecord, Statement]]) -> set[str]:
    """The waiting statements without those merely downstream of a cycle."""
    left = set(waiting)
    while ends := {
        name for name in left if not any(name in inputs_of(waiting[other][1]) for other in left)
    }:
        left -= ends
    return left


def _check_names(query: QueryRecord, made: Iterable[str], relations: Collection[str]) -> None:
    named = [("outputs", name) for name in (*query.outputs, *query.deadlines_ms)]
    named += [("estimates", name) for name in query.estimates]
    named += [("primaries", name) for name in query.primaries]
    for where, name in named:
        if (name if where == "outputs" else whole_name(name)) not in made:
            problem = "is not made by any statement of the query"
            if name.endswith(REJECTED_SUFFIX) and name.removesuffix(REJECTED_SUFFIX) in made:
                problem, remedy = "is made only if tuples are left out", "Write `onError: skip`."
                raise InvalidQuery(query.name, where, name, problem, remedy)
            if name in relations:
                problem, remedy = "is a relation, not a stream", "Name a stream made of it."
                raise InvalidQuery(query.name, where, name, problem, remedy)
            raise InvalidQuery(query.name, where, name, problem, nearest(name, made))
