"""The engine of a fragment: chunks of its inputs in, rows and watermarks of its output out.

How watermarks merge: the *input watermark* of a fragment is the least of its inputs' last
watermarks. A timestamp group is evaluated once the input watermark reaches it. The output gets a
watermark at every watermark of any input up to the input watermark. Rows that a firing point emits
between two output watermarks are covered by the later one.

The *ingestion time* of an output watermark w: of each input, take the first watermark at or past w;
the newest of their ingestion times counts. The arrival of these watermarks made the evaluation of w
possible, so a latency counted from that ingestion time is the time that transport and processing
took after the last necessary input. If w is a watermark of every input, it is simply the newest of
their ingestion times at w.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray, rising
from streams.evaluate.input_queue import InputQueue
from streams.evaluate.joins.lookup_join import LookupJoin
from streams.evaluate.joins.window_join import WindowJoin
from streams.evaluate.limited_releases import LimitedReleases
from streams.evaluate.local_days import LocalDaysEvaluation
from streams.evaluate.loops.evaluation import LoopEvaluation
from streams.evaluate.newest import Newest
from streams.evaluate.panes.evaluation import Panes
from streams.evaluate.protocol import Evaluation, Pass, Showing
from streams.evaluate.rejected import Rejected
from streams.evaluate.rejected_count import RejectedCount
from streams.evaluate.sessions import Sessions
from streams.evaluate.skipping import RejectedTuples, Skipping, failure
from streams.evaluate.state_size import StateSize
from streams.evaluate.stateless import Stateless
from streams.evaluate.stepwise.incremental import Incremental
from streams.plan.choice import EvaluationWay, way_of
from streams.plan.program import FormerProgram, Program
from streams.plan.revision import differs
from streams.vectors.chunk import NO_WATERMARK, Chunk, ChunkError, Position, stream_schema
from streams.vectors.state import (
    SavedInput,
    SavedState,
    SnapshotError,
    SnapshotRecord,
    load_operators,
    read_pieces,
    read_record,
    write_snapshot,
)

_ways: Mapping[EvaluationWay, Callable[[Program, pa.Schema], Evaluation]] = {
    EvaluationWay.STATELESS: Stateless,
    EvaluationWay.PANES: Panes,
    EvaluationWay.SESSIONS: Sessions,
    EvaluationWay.NEWEST: Newest,
    EvaluationWay.JOIN: WindowJoin,
    EvaluationWay.LOOKUP: LookupJoin,
    EvaluationWay.STEPWISE: Incremental,
    EvaluationWay.COMPILED_LOOP: LoopEvaluation,
    EvaluationWay.LOOP: LoopEvaluation,
}

TURN_INSTANTS = 16
"""Instants of a loop after which a host looks after its other work: some milliseconds."""

NEVER_US = -(2**62)
"""Before every ingestion time, µs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """Output of consecutive timestamp groups. The caller numbers it.

    Attributes
    ----------
    rows
        With the output's schema; timestamps never fall and none is past the last watermark.
    watermarks_ms, ingestion_times_us
        As in `Chunk`.
    tuples_in
        Number of input tuples that were consumed.
    rejected
        Those of them that were left out, if the program skips what it fails on.
    cut
        Statement of a loop → its tuples that were dropped, since a millisecond had too many
        instants.
    """

    rows: pa.RecordBatch
    watermarks_ms: IntArray
    ingestion_times_us: IntArray
    tuples_in: int
    rejected: tuple[Rejected, ...] = ()
    cut: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A pass of a loop that was left between two instants, and what it will have evaluated."""

    given: Pass
    watermarks_ms: IntArray
    ingestion_times_us: IntArray


class EvaluationError(Exception):
    """A statement could not be evaluated. Its engine is broken: discard it."""


class FragmentEngine:
    """Evaluates one program. The same inputs give the same rows, however they are cut.

    No data makes other exceptions come out than `ChunkError` of `offer`, `EvaluationError` of
    `advance`, and `SnapshotError` of `restore` and of a snapshot's pieces. The engine is unchanged
    when `offer` or `restore` raise.

    Parameters
    ----------
    program
        The compiled statement.

    Attributes
    ----------
    schema
        Of the output rows.
    hold_ms
        Event time beyond which nothing is evaluated as long as it is not agreed until when the
        last former program counts; None: there is no such limit.
    evaluated_ms
        Event time up to which its output is complete.
    """

    def __init__(self, program: Program) -> None:
        self._stages = _stages(program)
        self._at: int = 0
        self.hold_ms: int | None = None
        self.evaluated_ms = NO_WATERMARK
        self._program = self._stages[0].program
        self.schema = stream_schema(program.columns)
        self._queues: Mapping[str, InputQueue] = {
            stream: InputQueue(stream, stream_schema(program.input_columns[stream]))
            for stream in program.inputs
        }
        self._only = next(iter(self._queues.values())) if len(self._queues) == 1 else None
        """The queue of the only input, if there is but one, as often."""
        self._use(self._new_evaluation())
        self._under_way: _UnderWay | None = None
        self._state_size = StateSize()

    def _use(self, evaluation: Evaluation) -> None:
        """Evaluate by this. What it is, which every pass has to know, is costly to ask for."""
        self._evaluation = evaluation
        self._skipping = evaluation if isinstance(evaluation, Skipping) else None
        self._loop = evaluation if isinstance(evaluation, LoopEvaluation) else None

    def _new_evaluation(self) -> Evaluation:
        if not self._program.skips:
            return self._new_inner()
        skipping = Skipping(self._new_inner, self._program.reads)
        return skipping if self._program.of is None else RejectedTuples(skipping, self.schema)

    def _new_inner(self) -> Evaluation:
        program, schema = self._inner_program()

        def new() -> Evaluation:
            made = _ways[way_of(program)](program, schema)
            return made if program.days is None else LocalDaysEvaluation(made, program.days)

        releases = program.releases
        return new() if releases is None else LimitedReleases(new, releases)

    def _inner_program(self) -> tuple[Program, pa.Schema]:
        program = self._program.of or self._program
        return program, stream_schema(program.columns)

    def evaluates(self, program: Program) -> bool:
        """Whether it is an engine for this program."""
        return self._stages == _stages(program)

    @property
    def program(self) -> Program:
        """What it evaluates at present: the program, or a former one."""
        return self._program

    def revise(self, program: Program) -> bool:
        """Go on with a program that was changed in place; returns whether that is possible.

        It is not if the engine has evaluated input beyond a cut by what was to count until there.
        """
        stages = _stages(program)
        at = _stage_at(stages, self.evaluated_ms)
        if stages[at].program != self._program:
            return False
        self._stages, self._at = stages, at
        return True

    @property
    def _cut_ms(self) -> int | None:
        """Until when the present program counts, if that is agreed; None: there is no other."""
        return self._stages[self._at].until_ms

    def _crosses(self, given: Pass) -> bool:
        return self._cut_ms is not None and self._cut_ms < given.until_ms

    def _pass_cuts(self, given: Pass) -> Iterator[Pass]:
        """A pass in parts, with the program that each of them needs in place meanwhile."""
        while (at_ms := self._cut_ms) is not None and at_ms < given.until_ms:
            if at_ms > self.evaluated_ms:
                before, given = given.split(at_ms)
                yield before
            self._change()
        yield given

    def _change(self) -> None:
        """Have the next program count."""
        before, keeps = self._program, self._stages[self._at].keeps
        self._at += 1
        self._program = self._stages[self._at].program
        if keeps and not differs(before, self._program):
            return
        if keeps and isinstance(self._evaluation, Showing):
            self._evaluation.show(*self._inner_program())
        else:
            self._use(self._new_evaluation())

    def offer(self, stream: str, chunk: Chunk) -> None:
        """Add the next chunk of an input.

        Raises
        ------
        ChunkError
            It does not continue the input, breaks the promises of `Chunk`, or is of no input.
        """
        if stream not in self._queues:
            raise ChunkError(f"stream {stream} is no input of {self._program.name}")
        self._queues[stream].offer(chunk)

    def skip_to(self, stream: str, position: Position) -> None:
        """Continue an input after this cut, in the numbering that the cut has.

        Used for an input that is read from its middle, that has a gap which no producer can fill,
        or whose producer started over and numbers from 0 again. Sequence numbers carry no meaning
        beyond the order of arrival: the output is the same as if the numbers had not changed.
        Watermarks do: the next chunk must still lie past those offered before, and past the cut's.
        """
        self._queues[stream].skip_to(position)

    def drop_waiting(self, stream: str) -> None:
        """Drop what was offered of an input and not consumed: it is to be offered once more."""
        queue = self._queues[stream]
        queue.restore(queue.position, queue.taken)

    @property
    def ready(self) -> bool:
        """Whether `advance` would evaluate anything: some watermark is reached on every input."""
        if self._under_way is not None:
            return True
        if self._only is not None:
            first_ms = self._only.first_watermark_ms
            return first_ms is not None and (self.hold_ms is None or first_ms <= self.hold_ms)
        input_watermark_ms = self.input_watermark_ms
        if self.hold_ms is not None:
            input_watermark_ms = min(input_watermark_ms, self.hold_ms)
        firsts = (queue.first_watermark_ms for queue in self._queues.values())
        return any(first is not None and first <= input_watermark_ms for first in firsts)

    @property
    def between_timestamps(self) -> bool:
        """Whether a snapshot can be taken: no timestamp group has been evaluated in part."""
        return self._under_way is None

    def advance(
        self, limit: int, tuples: int | None = None, *, whole: bool = True
    ) -> Evaluated | None:
        """Evaluate the next complete timestamp groups.

        Parameters
        ----------
        limit
            The most watermarks to advance by; at least 1.
        tuples
            The most tuples to consume, though at least one watermark is advanced; None: any number.
        whole
            If False, a loop may leave timestamp groups in between, after a few milliseconds. What
            is returned has no watermark then, and the next call goes on with the same groups.

        Returns
        -------
        Evaluated or None
            None if the input watermark allows no evaluation.

        Raises
        ------
        EvaluationError
            An operator raised, whatever the reason: a bug, memory, state that makes no sense.
        """
        if limit < 1:
            raise ValueError(f"cannot advance by {limit} watermarks; give 1 or more")
        under_way = self._under_way
        if under_way is None and (under_way := self._taken(limit, tuples)) is None:
            return None
        given = under_way.given
        rejected: list[Rejected] = []
        cut: Counter[str] | dict[str, int] = {} if self._loop is None else Counter()
        done: list[pa.RecordBatch] = []
        try:
            with np.errstate(all="ignore"):
                # Results that are not numbers become NULL: numpy need not warn.
                rows: pa.RecordBatch | None = None
                crosses = self._crosses(given)
                for part in self._pass_cuts(given) if crosses else (given,):
                    # A pass that crosses a cut is not left in between.
                    if whole or crosses or self._loop is None:
                        rows = self._evaluation.run(part)
                    elif (rows := self._loop.work(part, TURN_INSTANTS)) is None:
                        break
                    done.append(rows)
                    if self._skipping is not None:
                        rejected += self._skipping.rejected
                    if self._loop is not None:
                        cut.update(self._loop.cut())
        except Exception as failed:
            where = failure(self._new_inner, self._program.reads, failed, given)
            message = f"{self._program.name} cannot be evaluated {where}"
            raise EvaluationError(message) from failed
        if rows is None:
            self._under_way = under_way
            nothing = np.empty(0, dtype=np.int64)
            return Evaluated(
                rows=pa.RecordBatch.from_pylist([], schema=self.schema),
                watermarks_ms=nothing,
                ingestion_times_us=nothing,
                tuples_in=0,
            )
        self._under_way, self.evaluated_ms = None, given.until_ms
        return Evaluated(
            rows=done[0] if len(done) == 1 else pa.concat_batches(done),
            watermarks_ms=under_way.watermarks_ms,
            ingestion_times_us=under_way.ingestion_times_us,
            tuples_in=given.rows,
            rejected=tuple(rejected),
            cut=cut,
        )

    def _taken(self, limit: int, tuples: int | None) -> _UnderWay | None:
        """Take the next timestamp groups from the inputs' queues; None if none is complete."""
        watermarks_ms, ingestion_times_us = self._next_watermarks(limit)
        if not len(watermarks_ms):
            return None
        if tuples is not None and tuples < self.waiting:
            count = np.sum(
                [queue.count_until(watermarks_ms) for queue in self._queues.values()], axis=0
            )
            fitting = max(int(np.searchsorted(count, tuples, side="right")), 1)
            watermarks_ms = watermarks_ms[:fitting]
            ingestion_times_us = ingestion_times_us[:fitting]
        until_ms = int(watermarks_ms[-1])
        first_ids = {name: queue.taken for name, queue in self._queues.items()}
        taken = {name: queue.take(until_ms) for name, queue in self._queues.items()}
        return _UnderWay(Pass(taken, first_ids, until_ms), watermarks_ms, ingestion_times_us)

    @property
    def rejected_count(self) -> RejectedCount | None:
        """What was left out since the state began; None if the program skips nothing."""
        skipping = self._skipping
        return None if skipping is None else skipping.count

    @property
    def limited(self) -> LimitedReleases | None:
        """Where the releases of a periodic statement begin and end; None of any other."""
        inner = self._evaluation if self._skipping is None else self._skipping.inner
        return inner if isinstance(inner, LimitedReleases) else None

    @property
    def input_watermark_ms(self) -> int:
        """The least of the inputs' last watermarks."""
        if self._only is not None:
            return self._only.watermark_ms
        return min(queue.watermark_ms for queue in self._queues.values())

    @property
    def oldest_ingestion_time_us(self) -> int | None:
        """Oldest ingestion time of the offered, unevaluated watermarks; None if there is none."""
        times_us = [queue.first_ingestion_time_us for queue in self._queues.values()]
        return min((time_us for time_us in times_us if time_us is not None), default=None)

    @property
    def waiting(self) -> int:
        """Number of input tuples that were offered and not consumed."""
        if self._only is not None:
            return self._only.waiting
        return sum(queue.waiting for queue in self._queues.values())

    def waiting_chunks(self, stream: str) -> tuple[Chunk, ...]:
        """What was offered of an input and not consumed."""
        return self._queues[stream].chunks

    def waiting_bytes_of(self, stream: str) -> int:
        """Memory of what was offered of an input and not consumed."""
        return self._queues[stream].waiting_bytes

    def _next_watermarks(self, limit: int) -> tuple[IntArray, IntArray]:
        """The next output watermarks, at most `limit`, and their ingestion times.

        The first `limit` watermarks of all inputs together are among the first `limit` of each.
        """
        if self._only is not None:
            watermarks_ms, ingestion_times_us = self._only.head(limit)
            if self.hold_ms is not None:
                limit = min(limit, int(watermarks_ms.searchsorted(self.hold_ms, side="right")))
            return watermarks_ms[:limit], ingestion_times_us[:limit]
        heads = [queue.head(limit) for queue in self._queues.values()]
        input_watermark_ms = self.input_watermark_ms
        if self.hold_ms is not None:
            input_watermark_ms = min(input_watermark_ms, self.hold_ms)
        reached = [
            watermarks_ms[: watermarks_ms.searchsorted(input_watermark_ms, side="right")]
            for watermarks_ms, _ in heads
        ]
        if all(np.array_equal(one, reached[0]) for one in reached[1:]):
            # Inputs of one clock, as most are.
            merged = reached[0][:limit]
            times_us = [ingestion_times_us[: len(merged)] for _, ingestion_times_us in heads]
        else:
            merged = rising(np.concatenate(reached))[:limit]
            times_us = [_first_times(*head, merged) for head in heads]
        return merged, np.maximum.reduce(times_us)

    def positions(self) -> dict[str, Position]:
        """Input → the cut up to which it has been evaluated, numbered as the tuple after it."""
        return {stream: queue.position for stream, queue in self._queues.items()}

    def position_of(self, stream: str) -> Position:
        """The cut up to which one input has been evaluated."""
        return self._queues[stream].position

    def snapshot(self) -> SavedState:
        """All state that output after the present positions depends on.

        Taking it costs little; its pieces are written when they are asked for, while the engine
        goes on. Chunks that were offered and not evaluated are left out. Offer them again after
        `restore`, from `positions` on.
        """
        assert self.between_timestamps, "a timestamp group has been evaluated in part"
        stateful = dict(self._evaluation.stateful())
        inputs = {
            stream: SavedInput(position=queue.position, taken=queue.taken)
            for stream, queue in self._queues.items()
        }
        record = SnapshotRecord(self._program.text, inputs, tuple(stateful))
        saved = {name: operator.save() for name, operator in stateful.items()}
        return SavedState(lambda: write_snapshot(record, saved))

    def state_bytes(self) -> int:
        """Size of a snapshot of now, estimated without writing one (`state_size`)."""
        return self._state_size.of(self._evaluation.stateful())

    def restore(self, saved: SavedState) -> None:
        """Continue from a snapshot of an engine with the same program.

        Raises
        ------
        SnapshotError
            The snapshot is damaged, of another format or of another statement. The engine is
            unchanged.
        """
        if isinstance(saved, PreparedState) and (prepared := saved.take(self._program)) is not None:
            self._use(prepared._evaluation)
            self._under_way = None
            self._at, self._program = prepared._at, prepared._program
            self.evaluated_ms = prepared.evaluated_ms
            for stream, queue in prepared._queues.items():
                self._queues[stream].restore(queue.position, queue.taken)
            return
        for _ in self.restoring(saved):
            pass

    def restoring(self, saved: SavedState) -> Iterator[None]:
        """As `restore`, in steps of milliseconds. The last step changes the engine."""
        pieces = saved.pieces()
        record = read_record(next(pieces, b""))
        evaluated_ms = min(each.position.watermark_ms for each in record.inputs.values())
        at = self._stage_of(record.statement, evaluated_ms)
        before, self._program = self._program, self._stages[at].program
        try:
            evaluation = self._new_evaluation()
        finally:
            self._program = before
        stateful = dict(evaluation.stateful())
        if set(record.inputs) != set(self._queues) or set(record.operators) != set(stateful):
            raise SnapshotError("the snapshot has other inputs or operators than the statement")
        try:
            yield from load_operators(stateful, read_pieces(pieces))
        except SnapshotError:
            raise
        except Exception as failed:
            # Damage may show as any error.
            raise SnapshotError(f"the snapshot cannot be understood: {failed!r}") from failed
        self._use(evaluation)
        self._under_way = None
        self._at, self._program = at, self._stages[at].program
        self.evaluated_ms = evaluated_ms
        for stream, saved_input in record.inputs.items():
            self._queues[stream].restore(saved_input.position, saved_input.taken)

    def _stage_of(self, statement: str, evaluated_ms: int) -> int:
        """The place among the former programs and the present one that a snapshot is of.

        Raises
        ------
        SnapshotError
            It is of none of them, or was taken beyond the cut until which that one counts.
        """
        places = [at for at, each in enumerate(self._stages) if each.program.text == statement]
        if not places:
            raise SnapshotError(f"the snapshot is of another statement: {statement}")
        for at in places:
            until_ms = self._stages[at].until_ms
            if until_ms is None or evaluated_ms <= until_ms:
                return at
        raise SnapshotError("the snapshot is of a former statement, from beyond its end")


class PreparedState(SavedState):
    """A snapshot from which an engine has been restored already.

    Restoring another engine from it takes over that engine's state, once.

    Parameters
    ----------
    saved
        The snapshot.
    engine
        An engine that has been restored from it and not been used.
    """

    def __init__(self, saved: SavedState, engine: FragmentEngine) -> None:
        super().__init__(saved.pieces)
        self._engine: FragmentEngine | None = engine

    def take(self, program: Program) -> FragmentEngine | None:
        """The engine, if nobody has taken it and it evaluates this program."""
        engine, self._engine = self._engine, None
        return engine if engine is not None and engine.evaluates(program) else None


def _stages(program: Program) -> tuple[FormerProgram, ...]:
    """The former programs, and the present one at the end."""
    last = FormerProgram(program=replace(program, former=()), until_ms=None, keeps=True)
    return (*program.former, last)


def _stage_at(stages: Sequence[FormerProgram], evaluated_ms: int) -> int:
    """The place of the program that counts for an engine that has come so far."""
    for at, each in enumerate(stages[:-1]):
        if each.until_ms is None or evaluated_ms <= each.until_ms:
            return at
    return len(stages) - 1


def _first_times(
    watermarks_ms: IntArray, ingestion_times_us: IntArray, at_ms: IntArray
) -> IntArray:
    """Ingestion times of an input's first watermarks at or past some watermarks.

    An input that skipped past a watermark has none for it: `NEVER_US`.
    """
    if not len(watermarks_ms) or watermarks_ms[-1] < at_ms[-1]:
        ingestion_times_us = np.append(ingestion_times_us, NEVER_US)
    return ingestion_times_us[np.searchsorted(watermarks_ms, at_ms)]
