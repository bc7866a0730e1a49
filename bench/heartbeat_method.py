"""The heartbeat method (HB) of executing statements, with which *Recursive streams* compares DTS.

Each input of a statement has a queue of tuples, and a *heartbeat*: no earlier tuple follows. A
statement may evaluate an instant when the heartbeats of all its inputs have reached it. It goes on
until it has nothing more to do, or has run as often as the *run limit* allows. Then control moves
to those that read what it gave, which wait on a stack. Scans give tuples from outside with their
heartbeats, the earliest ones first.

A statement that reads its own stream, directly or through others, waits for a heartbeat that only
it can give: HB cannot evaluate loops (§3.2). So it is only here, for benchmarks.

Statements are those of a loop's program without cycles, evaluated stepwise as
`streams.evaluate.loops.stepwise` does.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from streams.evaluate.stepwise.incremental import Incremental
from streams.operators.window import Arrived
from streams.plan.program import STEP_BITS, MemberPlan, Program
from streams.vectors.chunk import FOREVER_MS, NO_WATERMARK, TIMESTAMP, stream_schema
from streams.vectors.vector import Frame, Vector, empty_frame, from_arrow

_no_instants: IntArray = np.empty(0, dtype=np.int64)

LAST_STEP = (1 << STEP_BITS) - 1


class DeadlockError(Exception):
    """Every statement waits for another one."""


class _Queue:
    """An input of a statement."""

    def __init__(self, program: Program, stream: str) -> None:
        self._places = program.read_places(stream)
        kinds = program.read_kinds(stream)
        self._nothing = Arrived(empty_frame(kinds), _no_instants, 0)
        self._groups: deque[tuple[int, Frame]] = deque()
        self._taken = 0
        self.heartbeat = NO_WATERMARK

    @property
    def head(self) -> int:
        """The instant of the first tuples."""
        return self._groups[0][0] if self._groups else FOREVER_MS

    def add(self, at: int, rows: Frame) -> None:
        """Append the tuples of an instant."""
        times = Vector(np.full(rows.length, at >> STEP_BITS, dtype=np.int64), None)
        columns = (times, *rows.columns)
        read = tuple(columns[place] for place in self._places)
        self._groups.append((at, Frame(read, rows.length)))

    def take(self, at: int) -> Arrived:
        """The tuples of an instant, possibly none."""
        if self.head != at:
            return self._nothing
        _, rows = self._groups.popleft()
        first = self._taken
        self._taken += rows.length
        return Arrived(rows, np.full(rows.length, at, dtype=np.int64), first)


class _Node:
    """A statement with its queues."""

    def __init__(self, plan: MemberPlan) -> None:
        program = plan.program
        self.name, self.delay = program.name, plan.delay
        self._statement = Incremental(program, stream_schema(program.columns))
        self.queues = {stream: _Queue(program, stream) for stream in program.inputs}

    @property
    def heartbeat(self) -> int:
        """Up to where all inputs are complete."""
        return min(queue.heartbeat for queue in self.queues.values())

    def next_instant(self) -> int:
        """The next instant that may be evaluated; `FOREVER_MS` for none."""
        at = min(queue.head for queue in self.queues.values())
        at = min(at, self._statement.next_expiry_ms())
        return at if at <= self.heartbeat else FOREVER_MS

    def run(self, at: int) -> Frame | None:
        """What the statement gives at an instant."""
        arrived = {stream: queue.take(at) for stream, queue in self.queues.items()}
        emitted = self._statement.step(arrived, at)
        return None if emitted is None else emitted.rows


class HeartbeatMethod:
    """Evaluates the statements of a program (`Program.loop`) by heartbeats.

    Parameters
    ----------
    program
        A loop's; without cycles, if it is to get anywhere.
    run_limit
        How many instants a statement evaluates before control moves on; at least 1.

    Attributes
    ----------
    given
        Statement → the instants and tuples that it has given.
    """

    def __init__(self, program: Program, run_limit: int) -> None:
        assert program.loop is not None
        self._program, self._limit = program, run_limit
        self._nodes = [_Node(each) for each in program.loop.members]
        self._readers = {
            stream: [node for node in self._nodes if stream in node.queues]
            for stream in {stream for node in self._nodes for stream in node.queues}
        }
        self._stack: list[_Node] = []
        self.given: dict[str, list[tuple[int, Frame]]] = defaultdict(list)

    def run(self, inputs: Mapping[str, pa.RecordBatch], until_ms: int) -> None:
        """Evaluate all tuples from outside.

        Raises
        ------
        DeadlockError
            Statements wait for each other.
        """
        groups = sorted(
            ((at, stream, rows) for stream in inputs for at, rows in self._scan(stream, inputs)),
            key=lambda group: group[0],
        )
        place = 0
        while place < len(groups):
            # Scans run up to the limit, too; each tells of its heartbeat.
            for at, stream, rows in groups[place : place + self._limit]:
                self._deliver(stream, at, rows)
            place += self._limit
            reached = groups[place][0] - 1 if place < len(groups) else until_ms << STEP_BITS
            self._advance(inputs, reached | (LAST_STEP if place >= len(groups) else 0))
            self._run_stack()
        self._advance(inputs, (until_ms << STEP_BITS) | LAST_STEP)
        self._run_stack()
        waiting = [node.name for node in self._nodes if node.heartbeat == NO_WATERMARK]
        if waiting:
            raise DeadlockError(f"{', '.join(waiting)} wait for heartbeats of each other")

    def _scan(self, stream: str, inputs: Mapping[str, pa.RecordBatch]) -> list[tuple[int, Frame]]:
        """The tuples of a stream from outside by their instants."""
        rows = inputs[stream]
        kinds = self._program.input_columns[stream].values()
        columns = tuple(from_arrow(rows.column(place), kind) for place, kind in enumerate(kinds, 1))
        frame = Frame(columns, rows.num_rows)
        instants = rows.column(TIMESTAMP).to_numpy() << STEP_BITS
        begins = [0, *(np.flatnonzero(np.diff(instants)) + 1).tolist()] if len(instants) else []
        ends = [*begins[1:], len(instants)]
        return [
            (int(instants[begin]), frame.slice(begin, end))
            for begin, end in zip(begins, ends, strict=True)
        ]

    def _deliver(self, stream: str, at: int, rows: Frame) -> None:
        for node in self._readers.get(stream, ()):
            node.queues[stream].add(at, rows)

    def _advance(self, streams: Mapping[str, object], at: int) -> None:
        """Give the heartbeat of streams from outside."""
        for stream in streams:
            for node in self._readers.get(stream, ()):
                node.queues[stream].heartbeat = at
                self._push(node)

    def _push(self, node: _Node) -> None:
        if node not in self._stack:
            self._stack.append(node)

    def _run_stack(self) -> None:
        while self._stack:
            node = self._stack.pop()
            before = node.heartbeat
            if before == NO_WATERMARK:
                # One of its inputs has never had a heartbeat.
                continue
            ran, emitted = 0, False
            while ran < self._limit and (at := node.next_instant()) < FOREVER_MS:
                ran += 1
                if (rows := node.run(at)) is not None:
                    self.given[node.name].append((at + node.delay, rows))
                    self._deliver(node.name, at + node.delay, rows)
                    emitted = True
            left = node.next_instant()
            reached = before if left == FOREVER_MS else left - 1
            if left < FOREVER_MS:
                self._push(node)
            for reader in self._readers.get(node.name, ()):
                queue = reader.queues[node.name]
                if emitted or queue.heartbeat < reached + node.delay:
                    queue.heartbeat = reached + node.delay
                    self._push(reader)
