"""Evaluation of a loop: statements that read each other, instant by instant.

*Delay-based time splitting* (Recursive streams, §3.2): the next instant is the least one at which a
tuple arrives, a row leaves a window because of its age, or a delayed tuple is due. At an instant
every statement that has something to do is evaluated once, producers before consumers, where
streams with delays do not count: what these give now is due later. So nothing waits for itself.

Instants and the order of statements are those of `streams.plan.loops`. Each statement is evaluated
stepwise. Within an instant a stream's tuples are in the order of its statement; what the loop gives
is ordered by instant, and within one by statement, as written.

A millisecond may have many instants, and be left between two of them (`LoopCore.work`):
nothing is given, and no state is taken, before it is complete. Tuples that `<NOW>` would delay
beyond the most instants that a millisecond may have, and those beyond the most tuples, make an
error, or are dropped and counted: the input alone decides which.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray, rising
from foundation.loop_limits import Beyond
from streams.evaluate.loops.core import (
    LAST_STEP,
    LoopCore,
    instants_of,
    joins_too_many,
    last_instant,
    nulls,
    too_large,
    too_many,
)
from streams.evaluate.protocol import Pass
from streams.evaluate.stepwise.incremental import Incremental
from streams.operators.join import JoinTooLarge
from streams.operators.window import Arrived
from streams.plan.program import STEP_BITS, MemberPlan, Program
from streams.vectors.chunk import FOREVER_MS, NO_WATERMARK, stream_schema
from streams.vectors.state import (
    Pieces,
    SnapshotError,
    State,
    Stateful,
    read_frame,
    row_slices,
    write_frame,
)
from streams.vectors.vector import (
    Emitted,
    Frame,
    Vector,
    concat_frames,
    emitted_batch,
    empty_frame,
    from_arrow,
)

_no_instants: IntArray = np.empty(0, dtype=np.int64)


class DelayedTuples:
    """The tuples of a stream with a delay that are not due, and how many have been."""

    def __init__(self, member: MemberPlan) -> None:
        self._kinds = tuple(member.program.columns.values())
        self.frames: deque[tuple[int, Frame]] = deque()
        """Instant at which they are due, which rises, and tuples."""
        self.given = 0
        """Number of tuples that the stream has had: the identity of the next one."""
        self.dropped = 0
        """Number of tuples that were dropped, since they were too many or would have been delayed
        too often; it tells of the last pass, and is no state."""

    def next_due(self) -> int:
        """When the next tuples are due."""
        return self.frames[0][0] if self.frames else FOREVER_MS

    def held(self) -> int:
        """Number of tuples."""
        return sum(frame.length for _, frame in self.frames)

    def save(self) -> Pieces:
        """How many there have been, then those that are not due."""
        counts = {"given": self.given}
        frames = tuple(self.frames)

        def pieces() -> Iterator[State]:
            yield State(values=counts)
            for due, frame in frames:
                for part in row_slices(frame.length):
                    rows = write_frame(frame.slice(part.start, part.stop), self._kinds)
                    yield State(values={"due": due}, frames={"rows": rows})

        return pieces

    def load(self, state: State) -> None:
        """Take the counts, or append tuples."""
        match state.values:
            case {"given": int(given)}:
                self.given = given
            case {"due": int(due)} if not self.frames or self.frames[-1][0] <= due:
                frame = read_frame(state.frames["rows"], self._kinds)
                if self.frames and self.frames[-1][0] == due:
                    frame = concat_frames([self.frames.pop()[1], frame])
                self.frames.append((due, frame))
            case _:
                raise SnapshotError("delayed tuples in the snapshot are not in order")

    def loaded(self) -> None:
        """Note that all pieces have been taken: nothing is left to do."""


class _Member:
    """A statement of a loop."""

    def __init__(self, plan: MemberPlan) -> None:
        program = plan.program
        self.name, self.inputs, self.delay = program.name, program.inputs, plan.delay
        self.kinds = tuple(program.columns.values())
        self.statement = Incremental(program, stream_schema(program.columns))
        self.waiting = DelayedTuples(plan)
        self._none = {
            stream: Arrived(empty_frame(program.read_kinds(stream)), _no_instants, 0)
            for stream in program.inputs
        }
        self._places = {stream: program.read_places(stream) for stream in program.inputs}
        self._read_kinds = {stream: program.read_kinds(stream) for stream in program.inputs}

    def external(self, stream: str, rows: pa.RecordBatch) -> Frame:
        """The columns that the statement reads of a stream from outside."""
        read = zip(self._places[stream], self._read_kinds[stream], strict=True)
        return Frame(
            tuple(from_arrow(rows.column(place), kind) for place, kind in read), rows.num_rows
        )

    def internal(self, stream: str, rows: Frame, at: int) -> Frame:
        """Those that it reads of a stream of the loop."""
        times = Vector(np.full(rows.length, at >> STEP_BITS, dtype=np.int64), None)
        columns = (times, *rows.columns)
        return Frame(tuple(columns[place] for place in self._places[stream]), rows.length)

    def step(self, arrived: Mapping[str, Arrived], at: int) -> Frame | None:
        """What the statement gives at an instant; None for nothing."""
        if not arrived and at < self.statement.next_expiry_ms():
            return None
        emitted = self.statement.step({**self._none, **arrived}, at)
        return None if emitted is None else emitted.rows


class _External(NamedTuple):
    """The tuples of a pass from outside.

    Attributes
    ----------
    instants
        Of each tuple; never falls.
    first_id
        Identity of the first one.
    frames
        Reader → its columns.
    """

    instants: IntArray
    first_id: int
    frames: Mapping[int, Frame]


class _Pass:
    """A pass that is under way: what it was given, and what has come out."""

    def __init__(self, given: Pass, members: list[_Member]) -> None:
        self.given = given
        self.until = last_instant(given)
        self.streams: dict[str, _External] = {}
        for stream, rows in given.taken.items():
            if rows is None:
                continue
            self.streams[stream] = _External(
                instants_of(rows),
                given.first_ids[stream],
                {
                    place: member.external(stream, rows)
                    for place, member in enumerate(members)
                    if stream in member.inputs
                },
            )
        instants = [each.instants for each in self.streams.values()]
        arrivals = rising(np.concatenate(instants)) if instants else _no_instants
        self.arrivals: deque[int] = deque(arrivals.tolist())
        self.emitted: list[tuple[int, int, Frame]] = []
        """Member, timestamp and tuples of the exported streams."""
        self._at_ms = NO_WATERMARK
        self.made = 0
        """Tuples that statements have given in the last millisecond of which was asked."""

    def made_at(self, at_ms: int) -> int:
        """Tuples that statements have given in a millisecond, none of which is earlier."""
        if at_ms != self._at_ms:
            self._at_ms, self.made = at_ms, 0
        return self.made


class StepwiseLoop(LoopCore):
    """Runs a loop, each statement of it stepwise."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        assert program.loop is not None
        self._plan = program.loop
        self._schema = schema
        self._members = [_Member(each) for each in self._plan.members]
        self._places = {member.name: place for place, member in enumerate(self._members)}
        self._tags = {place: tag for tag, place in enumerate(self._plan.exported)}
        self._kinds = tuple(program.columns.values())
        self._under_way: _Pass | None = None
        self._instants = 0

    @property
    def instants(self) -> int:
        """See `LoopCore`."""
        return self._instants

    def work(self, given: Pass, most: int) -> pa.RecordBatch | None:
        """See `LoopCore`."""
        under_way = self._under_way
        if under_way is None or under_way.given is not given:
            under_way = self._under_way = _Pass(given, self._members)
        for _ in range(most):
            at = self._next_instant(under_way)
            if at > under_way.until:
                self._under_way = None
                return self._given_out(under_way.emitted)
            self._instant(under_way, at)
        return None

    def _next_instant(self, under_way: _Pass) -> int:
        at = under_way.arrivals[0] if under_way.arrivals else FOREVER_MS
        for member in self._members:
            at = min(at, member.statement.next_expiry_ms(), member.waiting.next_due())
        return at

    def _instant(self, under_way: _Pass, at: int) -> None:
        """Evaluate every statement that has something to do at an instant."""
        self._instants += 1
        external: dict[str, slice] = {}
        if under_way.arrivals and under_way.arrivals[0] == at:
            under_way.arrivals.popleft()
            external = _at(under_way.streams, at)
        given: dict[int, Frame] = {}
        """Member → the tuples that its stream has at this instant."""
        for place, member in enumerate(self._members):
            if member.waiting.next_due() <= at:
                given[place] = member.waiting.frames.popleft()[1]
        for place in self._plan.order:
            member = self._members[place]
            try:
                rows = member.step(self._arrived(under_way, place, external, given, at), at)
            except JoinTooLarge:
                raise joins_too_many(member.name, self._plan.limits.tuples, at) from None
            if rows is None or not self._may_follow(under_way, member, rows, at):
                continue
            if member.delay:
                member.waiting.frames.append((at + member.delay, rows))
            else:
                given[place] = rows
        for place in sorted(given):
            self._members[place].waiting.given += given[place].length
            if place in self._tags:
                under_way.emitted.append((place, at >> STEP_BITS, given[place]))

    def _arrived(
        self,
        under_way: _Pass,
        place: int,
        external: Mapping[str, slice],
        given: Mapping[int, Frame],
        at: int,
    ) -> dict[str, Arrived]:
        """What a statement has to read at an instant."""
        member = self._members[place]
        arrived: dict[str, Arrived] = {}
        for stream in member.inputs:
            if stream in external:
                of_pass, where = under_way.streams[stream], external[stream]
                frame = of_pass.frames[place].slice(where.start, where.stop)
                instants = of_pass.instants[where]
                arrived[stream] = Arrived(frame, instants, of_pass.first_id + where.start)
            elif (rows := given.get(self._places.get(stream, -1))) is not None:
                producer = self._members[self._places[stream]]
                frame = member.internal(stream, rows, at)
                instants = np.full(rows.length, at, dtype=np.int64)
                arrived[stream] = Arrived(frame, instants, producer.waiting.given)
        return arrived

    def _may_follow(self, under_way: _Pass, member: _Member, rows: Frame, at: int) -> bool:
        """Whether a millisecond may have these tuples too, or be followed by one more instant."""
        limits = self._plan.limits
        made = under_way.made_at(at >> STEP_BITS) + rows.length
        if made > limits.tuples:
            error = too_large(member.name, limits.tuples, at)
        elif member.delay == 1 and at & LAST_STEP >= limits.steps:
            error = too_many(member.name, limits.steps, at)
        else:
            under_way.made = made
            return True
        if limits.beyond is Beyond.ERROR:
            raise error
        member.waiting.dropped += rows.length
        return False

    def cut(self) -> Mapping[str, int]:
        """See `LoopCore`."""
        found = {each.name: each.waiting.dropped for each in self._members if each.waiting.dropped}
        for each in self._members:
            each.waiting.dropped = 0
        return found

    def _given_out(self, emitted: list[tuple[int, int, Frame]]) -> pa.RecordBatch:
        parts = [
            Emitted(self._tagged(place, rows), np.full(rows.length, at_ms, dtype=np.int64))
            for place, at_ms, rows in emitted
        ]
        return emitted_batch(parts, self._kinds, self._schema)

    def _tagged(self, place: int, rows: Frame) -> Frame:
        """Rows of an exported stream as those of all."""
        if len(self._tags) == 1:
            return rows
        columns = [Vector(np.full(rows.length, self._tags[place], dtype=np.int64), None)]
        for other in self._plan.exported:
            if other == place:
                columns += rows.columns
            else:
                columns += [nulls(kind, rows.length) for kind in self._members[other].kinds]
        return Frame(tuple(columns), rows.length)

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name."""
        for place, member in enumerate(self._members):
            for name, operator in member.statement.stateful():
                yield f"statement-{place}-{name}", operator
            yield f"statement-{place}-stream", member.waiting


def _at(streams: Mapping[str, _External], at: int) -> dict[str, slice]:
    """The tuples of an instant, as places in those of the pass."""
    found: dict[str, slice] = {}
    for stream, of_pass in streams.items():
        start, stop = (int(of_pass.instants.searchsorted(at, side)) for side in ("left", "right"))
        if start < stop:
            found[stream] = slice(start, stop)
    return found
