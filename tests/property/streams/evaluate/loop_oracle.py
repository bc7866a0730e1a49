"""What a loop gives, by definition: every relation is computed anew, from all that has ever been,
at every instant at which something happens (`tests/property/streams/oracle.py`).

It shares the parser with the engine, and nothing else. At an instant, a stream of a loop has a
multiset of tuples; in which order windows meet them is for the engine to say. So the engine's order
is taken, after it was found to have the right tuples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from foundation.loop_limits import Beyond
from streams.language.ast import Source, Statement, ToStream
from streams.language.walk import streams_of, with_leaves
from tests.property.streams import oracle
from tests.property.streams.oracle import Now, Row, Tuple

STEPS = 1 << 16
"""Instants of a millisecond that can be told apart."""

Rows = tuple[Any, ...]


class LimitError(Exception):
    """A millisecond has more instants or tuples than it may."""


class TooLargeError(Exception):
    """There are more tuples than can be looked at in reasonable time."""


class LoopOracle:
    """A loop and its streams.

    Parameters
    ----------
    statement
        A loop all of whose streams are exported.
    inputs
        The streams from outside, by milliseconds.
    columns
        Statement → names of its columns.
    given
        Statement → the rows that the engine has given of its stream, in order.
    most
        Most tuples of all streams.
    """

    def __init__(
        self,
        statement: Statement,
        inputs: Mapping[str, Sequence[Tuple]],
        columns: Mapping[str, Sequence[str]],
        given: Mapping[str, Sequence[Rows]],
        most: int,
    ) -> None:
        assert statement.loop is not None
        self._loop = statement.loop
        self._members = {each.name: _in_instants(each) for each in self._loop.statements}
        self._columns, self._given, self._most = columns, given, most
        self.streams: dict[str, list[Tuple]] = {
            name: [(at_ms * STEPS, row) for at_ms, row in tuples] for name, tuples in inputs.items()
        }
        """Stream → its tuples so far by instants; of those from outside, all."""
        self.streams |= {name: [] for name in self._members}
        self._due: dict[int, dict[str, Counter[Rows]]] = {}
        self._before = {name: Counter[Rows]() for name in self._members}
        self._made = Counter[int]()
        """Millisecond → tuples that statements have given."""
        self.instants: list[int] = []
        self.delivered = dict.fromkeys(self._members, 0)

    def run(self, until_ms: int) -> None:
        """Compute all instants up to a millisecond."""
        until = until_ms * STEPS + STEPS - 1
        at = -(2**62)
        while (at := self._next(at)) <= until:
            self.instants.append(at)
            self._instant(at)

    def _next(self, after: int) -> int:
        found = [time for time in self._due if time > after]
        for member in self._members.values():
            streams = {name: self.streams[name] for name in streams_of(member)}
            times = oracle.timestamps_to_evaluate(member, streams, 2**62)
            found += [time for time in times if time > after]
        return min(found, default=2**62)

    def _instant(self, at: int) -> None:
        for name, rows in self._due.pop(at, {}).items():
            self._deliver(name, rows, at)
        left = dict(self._members)
        while left:
            waiting = {name for name in left if not self._delayed(name)}
            name = next(name for name, one in left.items() if streams_of(one).isdisjoint(waiting))
            rows = self._emitted(left.pop(name), at)
            if not rows:
                continue
            delay, limits = self._members[name].body.delay, self._loop.limits
            made = self._made[at // STEPS] + rows.total()
            now = delay is not None and delay.duration_ms is None
            if made > limits.tuples or (now and at % STEPS >= limits.steps):
                if limits.beyond is Beyond.ERROR:
                    raise LimitError(name)
                continue
            self._made[at // STEPS] = made
            if delay is None:
                self._deliver(name, rows, at)
            elif delay.duration_ms is not None:
                self._due.setdefault(at + delay.duration_ms * STEPS, {})[name] = rows
            else:
                self._due.setdefault(at + 1, {})[name] = rows

    def _delayed(self, name: str) -> bool:
        return self._members[name].body.delay is not None

    def _emitted(self, member: Statement, at: int) -> Counter[Rows]:
        streams = {
            name: [one for one in self.streams[name] if one[0] <= at] for name in streams_of(member)
        }
        if at not in oracle.timestamps_to_evaluate(member, streams, at):
            return Counter()
        now = oracle.relation(member.body.selects, Now(streams, at))
        before, self._before[member.name] = self._before[member.name], now
        return {
            ToStream.ISTREAM: now - before,
            ToStream.DSTREAM: before - now,
            ToStream.RSTREAM: now,
        }[member.body.to_stream]

    def _deliver(self, name: str, rows: Counter[Rows], at: int) -> None:
        """Append the tuples of a stream at an instant, in the order that the engine gave them."""
        first = self.delivered[name]
        given = self._given[name][first : first + rows.total()]
        assert Counter(given) == rows, f"{name} at ({at // STEPS}, {at % STEPS})"
        self.delivered[name] += len(given)
        named: list[Row] = [dict(zip(self._columns[name], row, strict=True)) for row in given]
        self.streams[name] += [(at, row) for row in named]
        if sum(self.delivered.values()) > self._most:
            raise TooLargeError


def _in_instants(statement: Statement) -> Statement:
    """A statement whose windows count instants."""

    def change(source: Source) -> Source:
        window = source.window
        if window is None:
            return source
        if window.now:
            return replace(source, window=replace(window, range_ms=1))
        lengths = {
            name: None if (length := getattr(window, name)) is None else length * STEPS
            for name in ("range_ms", "slide_ms", "offset_ms", "session_ms")
        }
        return replace(source, window=replace(window, **lengths))

    body = statement.body
    return replace(statement, body=replace(body, selects=with_leaves(body.selects, change)))
