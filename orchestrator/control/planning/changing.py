"""What a change of a query that runs does to each of its statements, and how it is placed then.

Statements are compared as compiled programs (`streams.plan.revision`), not as texts. A query that
was split or shared when it was applied stays so where its statements are as before; a changed
statement is split in the same way, if it can be.

Fragments stay where they are as long as the places keep deadline and recovery bound, and the nodes
that the query names. Else the query is planned anew, and its replicas move there afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from orchestrator.control.observe.dataflow import Dataflow, Fragment, InvalidQuery
from orchestrator.control.planning.feeding import feedings, with_feeding
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.split_ways import ways_to_split
from orchestrator.manifest.changes import changed_fields
from orchestrator.records import (
    BeginFrom,
    ChangedField,
    ChangedQuery,
    ChangedStatement,
    FormerStatement,
    OnError,
    Partial,
    QueryAlteration,
    QueryRecord,
    Rewrite,
    RewriteKind,
    RunningQueryRecord,
    StatementEffect,
)
from placement.errors import PlacementError
from placement.records import Plan
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.plan.program import Program
from streams.plan.revision import differs, why_anew, why_read_anew, why_stream_ends


def decided_again(
    before: QueryRecord, after: QueryRecord, decided: RunningQueryRecord, flow: Dataflow
) -> RunningQueryRecord:
    """How a changed query runs.

    Parameters
    ----------
    decided
        How it runs now.
    flow
        With the changed query as it was written.
    """
    was, now = _texts(before), _texts(after)
    same = {name for name in was if was[name] == now.get(name)}
    again = {} if after.partial is Partial.NEVER else ways_to_split(flow, after)
    rewrites: list[Rewrite] = []
    for each in decided.rewrites:
        if each.fragment in same and same.issuperset(each.without):
            rewrites.append(each)
        elif each.made and each.kind is RewriteKind.SPLIT:
            ways = again.get(each.fragment, ())
            alike = [way for way in ways if way.without == each.without]
            rewrites += [msgspec.structs.replace(way, why=each.why) for way in alike[:1]]
    trials = {name: tried for name, tried in decided.trials.items() if name in same}
    return msgspec.structs.replace(decided, trials=trials, rewrites=tuple(rewrites))


def _texts(query: QueryRecord) -> dict[str, str]:
    """Statement → its text, with that of all relations, which may be part of it."""
    found = {each: " ".join(each.text.split()) for each in parse(query.statements)}
    relations = "".join(text for each, text in found.items() if each.is_relation)
    return {each.name: text + relations for each, text in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryChanges:
    """What a change does to a query, as it will be told and as it will be carried out.

    Attributes
    ----------
    told
        For people.
    former, restarted
        As in `QueryAlteration`; the changes have no number yet.
    """

    told: ChangedQuery
    former: Mapping[str, FormerStatement]
    restarted: Mapping[str, str]

    def alteration(
        self, query: QueryRecord, running: RunningQueryRecord, change: int
    ) -> QueryAlteration:
        """The records of the change, with its number."""
        return QueryAlteration(
            query=query,
            running=msgspec.structs.replace(running, change=change),
            former={
                key: msgspec.structs.replace(each, change=change)
                for key, each in self.former.items()
            },
            restarted=dict(self.restarted),
            begin=self.told.begin,
        )


def query_changes(
    before: QueryRecord,
    after: QueryRecord,
    flows: tuple[Dataflow, Dataflow],
    begin: BeginFrom,
) -> QueryChanges:
    """Compare a query with what it was.

    Parameters
    ----------
    flows
        All streams and fragments before and after.

    Raises
    ------
    InvalidQuery
        A stream cannot go on so.
    """
    was = {each.name: each for each in flows[0].of(before.name)}
    statements: list[ChangedStatement] = []
    former: dict[str, FormerStatement] = {}
    restarted: dict[str, str] = {}
    for fragment in flows[1].of(after.name):
        one = was.pop(fragment.name, None)
        if one is None:
            new = ChangedStatement(fragment=fragment.name, effect=StatementEffect.NEW)
            statements.append(new)
            continue
        programs = _program(one, before), _program(fragment, after)
        if (ends := why_stream_ends(*programs)) is not None:
            remedy = "Give the statement another name: its stream is a new one then."
            raise InvalidQuery(after.name, "statements", fragment.name, ends, remedy)
        if not differs(*programs) and not _differs_in_text(one, fragment, programs):
            statements.append(
                ChangedStatement(fragment=fragment.name, effect=StatementEffect.UNCHANGED)
            )
            continue
        reads, why = why_read_anew(*programs), why_anew(*programs)
        if why is not None and begin is BeginFrom.BEGINNING:
            reads = reads or why
        if reads is not None:
            restarted[fragment.key] = reads
        else:
            former[fragment.key] = FormerStatement(
                statement=one.statement,
                skips=before.on_error is OnError.SKIP,
                functions=dict(one.functions),
                change=0,
                keeps=why is None,
            )
        effect = StatementEffect.KEPT if why is None and reads is None else StatementEffect.ANEW
        statements.append(
            ChangedStatement(fragment=fragment.name, effect=effect, why=reads or why or "")
        )
    statements += [ChangedStatement(fragment=name, effect=StatementEffect.REMOVED) for name in was]
    fields = changed_fields(after, before)
    told = ChangedQuery(
        query=after.name,
        fields=tuple(ChangedField(field=f, was=value, now=now) for f, value, now in fields),
        statements=tuple(statements),
        begin=begin,
    )
    return QueryChanges(told=told, former=former, restarted=restarted)


def _differs_in_text(one: Fragment, other: Fragment, programs: tuple[Program, Program]) -> bool:
    """Whether a snapshot of one would not be taken for one of the other."""
    return programs[0].text != programs[1].text or one.functions != other.functions


def _program(fragment: Fragment, query: QueryRecord) -> Program:
    (statement,) = parse(fragment.statement)
    program = compile_statement(statement, fragment.inputs)
    program = replace(program, skips=query.on_error is OnError.SKIP)
    return program.rejections if fragment.rejected else program


def place_changed(planning: Planning, query: str) -> tuple[Plan, dict[str, tuple[str, str]]]:
    """The plan of a changed query with its fragments where they are, new ones placed beside them.

    Returns, too, where fragments move because their present places do not do: fragment → nodes of
    primary and secondary. They are no part of the plan, in which nothing has moved yet.

    Raises
    ------
    InvalidQuery, PlacementError
        There are no such places either.
    """
    kept = planning.fork()
    try:
        kept.place(query)
        _feed_again(kept, query)
        _check(kept, query)
        _check_releases(kept, query)
        plan = kept.evaluate(query)
    except PlacementError:
        anew = planning.fork()
        for each in anew.work.of(query):
            anew.running.pop(each.name, None)
        wanted = anew.place(query)
        _check_releases(anew, query)
        # Late is better than never, until its replicas have moved.
        plan = planning.place(query, relaxed=True)
        places = {each.operator: (each.primary, each.secondary) for each in wanted.placements}
        return plan, {
            name: nodes for name, nodes in places.items() if _moves(planning, name, nodes)
        }
    planning.running = kept.running
    return plan, {}


def _moves(planning: Planning, name: str, nodes: tuple[str, str]) -> bool:
    running = planning.running[name]
    is_new = planning.work.fragments[name].fragment.key not in planning.fragments
    return not is_new and (running.primary, running.secondary) != nodes


def _feed_again(planning: Planning, query: str) -> None:
    """Feed all secondaries of a query by its scheme: it may be another one."""
    task = planning.task(query)
    standbys = planning.standbys(task)
    primaries = {name: nodes[0] for name, nodes in task.kept.items()}
    timings = {name: planning.running[name].timing for name in standbys}
    for name, found in feedings(task, standbys, primaries, timings).items():
        running = planning.running[name]
        timing = with_feeding(running.timing, found, standbys[name])
        planning.running[name] = replace(running, timing=timing)


class _NotKept(PlacementError):
    """The places of a query that runs do not keep what it asks for now."""


def _check(planning: Planning, query: str) -> None:
    """Refuse places that keep less than the query asks for, or that it does not name."""
    (figures,) = planning.evaluate(query).queries
    if figures.latency_ms > figures.deadline_ms:
        raise _NotKept(f"its latency is {figures.latency_ms:.1f} ms")
    if figures.recovery_ms > figures.bound_ms:
        raise _NotKept(f"its recovery takes {figures.recovery_ms:.1f} ms")
    record = planning.queries[query]
    for fragment, nodes in record.primaries.items():
        there = planning.view.executors.keys() & set(nodes)
        if there and planning.running[fragment].primary not in there:
            raise _NotKept(f"{fragment} runs on {planning.running[fragment].primary}")


def _check_releases(planning: Planning, query: str) -> None:
    """Refuse places where a change makes releases late, or later than they are without it."""
    late = planning.late_releases(query)
    if late is not None and late.is_worse_than(Planning.of(planning.view).late_releases(query)):
        raise late
