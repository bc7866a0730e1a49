"""The query that `vivace try` evaluates: out of a manifest, a file of CQL, or a statement."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from foundation.suggestions import nearest
from orchestrator.control.observe.dataflow import (
    Dataflow,
    Fragment,
    InvalidQuery,
    in_statements,
    inputs_of,
    located,
    sound_dataflow,
)
from orchestrator.errors import InvalidInput
from orchestrator.folders import read_text
from orchestrator.manifest import Manifests, load
from orchestrator.records import OnError, QueryRecord, StreamRecord
from streams.language import QueryError, parse
from streams.language.ast import Statement
from streams.language.views import with_relations
from streams.plan.compiler import compile_statement
from streams.plan.program import STEP_BITS, Program

MOST_ROUNDS = 100_000
"""How often a loop may come round after the last input."""

NAME = "query"
"""Of a query that is no manifest's, and of the only stream of a statement without a name."""

NO_STREAM = (
    "this is a relation, and gives no stream; write RSTREAM(…) around it for its rows at each "
    "time, ISTREAM(…) for those that come, DSTREAM(…) for those that go"
)

_begins_registered = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/)*REGISTER\b", re.DOTALL | re.IGNORECASE)
_line_number = re.compile(r"^line (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuery:
    """A query as somebody has named it, before its streams are known.

    Attributes
    ----------
    record
        With its statements.
    file
        Where it stands, for messages.
    begins_at
        Lines that were put in front of its text.
    manifests
        All that was read.
    """

    record: QueryRecord
    file: str
    manifests: Manifests
    begins_at: int = 0

    @property
    def queries(self) -> dict[str, QueryRecord]:
        """It, and the others among the manifests, whose streams it may read."""
        others = {each.record.name: each.record for each in self.manifests.queries}
        return others | {self.record.name: self.record}

    def entering(self) -> tuple[str, ...]:
        """The streams that it reads from outside, directly or through other queries.

        Raises
        ------
        InvalidInput
            Its text cannot be read, or no stream leaves it.
        """
        made: dict[str, Statement] = {}
        for name, query in self.queries.items():
            try:
                statements = with_relations(parse(query.statements))
                made |= {each.name: each for each in statements}
            except QueryError as error:
                if name == self.record.name:
                    raise self.problem(in_statements(name, error)) from None
        own = parse(self.record.statements)
        if own and all(each.is_relation for each in own):
            last = own[-1]
            error = QueryError(last.source, last.body.start, NO_STREAM)
            raise self.problem(in_statements(self.record.name, error))
        pending = [each.name for each in own if not each.is_relation]
        reached = dict.fromkeys(pending)
        while pending:
            read = sorted(inputs_of(made[pending.pop()]))
            pending += [name for name in read if name in made and name not in reached]
            reached |= dict.fromkeys(read)
        return tuple(name for name in reached if name not in made)

    def compiled(self, streams: Mapping[str, StreamRecord]) -> TriedQuery:
        """The query among streams.

        Raises
        ------
        InvalidInput
            It cannot be evaluated among them; says where.
        """
        flow, problems = sound_dataflow(streams, self.queries)
        for problem in problems:
            if problem.query == self.record.name:
                raise self.problem(problem)
        fragments = flow.upstream(self.record.name)
        skips = {name for name, query in self.queries.items() if query.on_error is OnError.SKIP}
        return TriedQuery(
            name=self.record.name,
            programs={each.name: _program(each, each.query in skips) for each in fragments},
            statements=tuple(each.statement for each in fragments if not each.rejected),
            outputs=tuple(self.record.outputs) or _ends(flow, self.record.name),
        )

    def problem(self, found: InvalidQuery) -> InvalidInput:
        """A problem of the query, at its place."""
        if any(each.record.name == found.query for each in self.manifests.queries):
            return located(found, self.manifests.queries)
        # The first line of what somebody has written.
        told = _line_number.sub(
            lambda number: f"line {int(number[1]) - self.begins_at}", found.problem
        )
        return InvalidInput(self.file, "", found.value, told, found.remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedQuery:
    """A query that can be evaluated.

    Attributes
    ----------
    programs
        Fragment → program, producers before consumers.
    statements
        Their texts, without those that give rejected tuples.
    outputs
        The streams that are wanted.
    """

    name: str
    programs: Mapping[str, Program]
    statements: Sequence[str]
    outputs: Sequence[str]

    @property
    def reach_ms(self) -> int:
        """How long after its last input it may give results."""
        return sum(program.lasts_ms for program in self.programs.values())

    @property
    def rest_ms(self) -> int | None:
        """How long it is tried after its last input; None: until it gives no results any more.

        A loop may give results for ever: a delay brings tuples back, or a window that they leave.
        A periodic statement shows empty windows for ever, or up to its ETIME.
        """
        steps_ms = [
            length >> STEP_BITS
            for program in self.programs.values()
            if program.loop is not None
            for each in program.loop.members
            for length in (each.delay, *(one.range_ms or 0 for one in each.program.windows))
            if length >> STEP_BITS
        ]
        periodic = [one.releases for one in self.programs.values() if one.releases is not None]
        if not steps_ms and not periodic:
            return None
        ends_ms = sum(max(one.begins_ms, one.ends_ms or 0) for one in periodic)
        return max(self.reach_ms + ends_ms, MOST_ROUNDS * min(steps_ms, default=0))


def asked_query(query: str | None, files: Sequence[Path]) -> AskedQuery:
    """Find out what somebody means.

    Parameters
    ----------
    query
        A file of CQL or of manifests, the name of a query among the manifests, or a statement;
        None: the only query among the manifests.
    files
        Manifests.

    Raises
    ------
    InvalidInput
        There is no such query, or a manifest is wrong.
    """
    path = None if query is None or "\n" in query else Path(query)
    if path is not None and path.suffix in (".yaml", ".yml"):
        files, query = [*files, path], None
    manifests = load(files) if files else Manifests(cluster=None, streams=(), queries=())
    known = {each.record.name: each for each in manifests.queries}
    if query is None:
        query = _only(known, path)
    if query in known:
        return AskedQuery(record=known[query].record, file=known[query].file, manifests=manifests)
    if path is not None and _is_file(path):
        return _from_text(str(path), read_text(path), manifests)
    if query.split()[1:]:
        return _from_text("the statement", query, manifests)
    raise InvalidInput(
        "command line", "QUERY", query,
        "is neither a file nor the name of a query",
        nearest(query, known) if known else "Name a file of CQL, such as query.cql.",
    )  # fmt: skip


def _is_file(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        # A statement may be too long for a name.
        return False


def _only(known: Collection[str], path: Path | None) -> str:
    if len(known) == 1:
        return next(iter(known))
    where = "the manifests" if path is None else str(path)
    raise InvalidInput(
        "command line", "QUERY", None,
        f"{where} hold {len(known)} queries" if known else "no query is named",
        f"Name one of {', '.join(known)}." if known else "Name a file of CQL, such as query.cql.",
    )  # fmt: skip


def _from_text(file: str, text: str, manifests: Manifests) -> AskedQuery:
    begins_at = 0
    if text.strip() and _begins_registered.match(text) is None:
        # On a line of its own, so that columns stay what they are.
        text, begins_at = f"REGISTER QUERY {NAME}\n{text}", 1
    record = QueryRecord(
        name=NAME, statements=text, outputs={}, deadline_ms=0.0, recovery_bound_ms=0.0
    )
    return AskedQuery(record=record, file=file, manifests=manifests, begins_at=begins_at)


def _program(fragment: Fragment, skips: bool) -> Program:
    (statement,) = parse(fragment.statement)
    program = replace(compile_statement(statement, fragment.inputs), skips=skips)
    return program.rejections if fragment.rejected else program


def _ends(flow: Dataflow, query: str) -> tuple[str, ...]:
    """The streams of a query that none of its statements reads."""
    own = flow.of(query)
    read = {stream for fragment in own for stream in fragment.inputs}
    return tuple(each.name for each in own if each.name not in read)
