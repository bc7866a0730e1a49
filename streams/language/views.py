"""Relations that are registered are part of the statements that read them.

A relation is no stream, and has no fragment: `FROM r` stands for the sub-query `FROM (SELECT …)
AS r`. So each reader evaluates it, and its text, to which its state belongs, contains that of
the relation. Places of nodes stay those in the text that was parsed, so errors are shown where
they were made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from streams.language.ast import RelationExpression, Source, Statement
from streams.language.errors import QueryError
from streams.language.names import written_name
from streams.language.walk import leaves_of, streams_of, with_leaves

LONGEST_TEXT = 1_000_000
"""Of a statement with the relations in it, characters."""


def with_relations(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements of one text, in which no relation is read by its name any more.

    Raises
    ------
    QueryError
        A relation is given a window, relations read each other in a cycle, or a text grows too
        long.

    Examples
    --------
    >>> from streams.language import parse
    >>> text = "REGISTER QUERY r SELECT x FROM s [NOW]; REGISTER QUERY q ISTREAM(SELECT * FROM r);"
    >>> with_relations(parse(text))[1].text
    'REGISTER QUERY q ISTREAM(SELECT * FROM (SELECT x FROM s [NOW]) AS r);'
    """
    relations = {each.name: each for each in statements if each.is_relation}
    if not relations:
        return tuple(statements)
    done: dict[str, Statement] = {}
    for statement in _in_order(relations):
        done[statement.name] = _with(statement, done)
    return tuple(done.get(each.name) or _with(each, done) for each in statements)


def _in_order(relations: Mapping[str, Statement]) -> Iterator[Statement]:
    """Relations after those that they read."""
    left = dict(relations)
    while left:
        ready = [name for name, one in left.items() if not streams_of(one) & left.keys()]
        if not ready:
            name, statement = next(iter(left.items()))
            message = (
                f"the relation {name} depends on itself: a relation is what it says at each time, "
                "so let it read a stream made of the other, as by ISTREAM"
            )
            raise QueryError(statement.source, statement.start, message)
        for name in ready:
            yield left.pop(name)


def _with(statement: Statement, relations: Mapping[str, Statement]) -> Statement:
    """A statement in which relations are sub-queries."""
    replaced: dict[int, str] = {}
    text = statement.source

    def change(source: Source) -> Source:
        relation = relations.get(source.stream)
        if relation is None:
            return source
        if source.window is not None:
            message = f"{source.stream} is a relation, which takes no window"
            raise QueryError(text, source.window.start, message)
        replaced[source.start] = f"({_query(relation)}) AS {written_name(source.alias)}"
        body = relation.body
        derived = RelationExpression(start=body.start, end=body.end, selects=body.selects)
        return replace(source, stream="", derived=derived)

    leaves = sorted(leaves_of(statement.body.selects), key=lambda source: source.start)
    selects = with_leaves(statement.body.selects, change)
    if not replaced:
        return statement
    written: list[str] = []
    begin = statement.start
    for source in leaves:
        if source.start in replaced:
            written += [text[begin : source.start], replaced[source.start]]
            begin = source.end
    written.append(text[begin : statement.end] + ";")
    made = "".join(written)
    if len(made) > LONGEST_TEXT:
        message = f"with all its relations the statement has more than {LONGEST_TEXT:,} characters"
        raise QueryError(text, statement.start, message)
    return replace(statement, text=made, body=replace(statement.body, selects=selects))


def _query(relation: Statement) -> str:
    """The SELECTs of a relation, as they are written."""
    before = relation.body.start - relation.start
    return relation.text[before:].removesuffix(";")
