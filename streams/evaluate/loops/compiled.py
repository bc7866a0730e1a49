"""A loop on the compiled core: its machine, what goes in and out, and its state.

The machine (`streams.kernels.loops.machine`) evaluates instants; this module gives it tuples from
outside, room where it lacks some, and takes what it gives. Texts are codes in it. When there are
too many, those that no table holds any more are forgotten between two passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from streams.evaluate.loops.assembly import Assembly
from streams.evaluate.loops.core import (
    LoopCore,
    instants_of,
    joins_too_many,
    last_instant,
    too_large,
    too_many,
)
from streams.evaluate.protocol import Pass
from streams.kernels.loops.layout import (
    AT,
    DONE,
    DROPPED,
    FAILED,
    FAILS,
    FIRST_ID,
    FROM,
    HEAD,
    INSTANTS,
    JOINS_TOO_MANY,
    LEAVES,
    MADE,
    NEEDED,
    NEEDS,
    NEEDY,
    NOW,
    RUNNING,
    TAIL,
    TOO_LARGE,
    UNTIL,
)
from streams.plan.program import STEP_BITS, Program
from streams.vectors.state import Stateful
from streams.vectors.vector import Emitted, Frame, Vector, emitted_batch, from_arrow, storage

PACE = 128
"""Instants that take the time of one instant stepwise, or less."""

MOST_TEXTS = 1 << 16
"""Texts that may have codes before it is looked which ones are needed."""


_exceeding = {TOO_LARGE: too_large, JOINS_TOO_MANY: joins_too_many}


class CompiledLoop(LoopCore):
    """Runs a loop for which `why_stepwise` gives no reason, with compiled kernels."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        assert program.loop is not None
        self._program, self._plan, self._schema = program, program.loop, schema
        self._assembly = Assembly(program)
        self._memory = self._assembly.memory
        self._exported = sorted(self._plan.exported)
        self._tags = {place: tag for tag, place in enumerate(self._plan.exported)}
        self._kinds = tuple(program.columns.values())
        self._under_way: Pass | None = None
        self._until = 0
        self._most_texts = MOST_TEXTS

    @property
    def instants(self) -> int:
        """See `LoopCore`."""
        return int(self._memory.words[INSTANTS])

    def work(self, given: Pass, most: int) -> pa.RecordBatch | None:
        """See `LoopCore`."""
        if self._under_way is not given:
            self._begin(given)
        memory = self._memory
        run = memory.kernels.run_loop
        most *= PACE
        while True:
            result = run(memory.words, memory.floats, self._until, most)
            if result == DONE:
                self._under_way = None
                return self._given_out()
            if result == LEAVES:
                return None
            words = memory.words
            if result != NEEDS:
                name, limits = (
                    self._plan.members[int(words[FAILED])].program.name,
                    self._plan.limits,
                )
                at = int(words[NOW])
                if result == FAILS:
                    raise too_many(name, limits.steps, at)
                raise _exceeding[result](name, limits.tuples, at)
            memory.grow(int(words[NEEDY]), int(words[NEEDED]))

    def _begin(self, given: Pass) -> None:
        """Take the tuples of a pass."""
        memory = self._memory
        memory.tidy()
        if memory.texts.count > self._most_texts:
            self._most_texts = max(MOST_TEXTS, 4 * self._assembly.renew_codes())
        self._under_way, self._until = given, last_instant(given)
        memory.words[RUNNING] = memory.words[MADE] = 0
        for stream, external in self._assembly.externals.items():
            rows = given.taken[stream]
            if rows is None:
                memory.begin(external.table, 0)
                continue
            instants = instants_of(rows)
            written = memory.begin(external.table, rows.num_rows)
            written[:, AT] = instants
            columns = [
                from_arrow(rows.column(place), kind)
                for place, kind in zip(external.places, external.kinds, strict=True)
            ]
            memory.write(written, columns)
            words = memory.words
            words[external.table + FIRST_ID] = given.first_ids[stream]
            words[external.table + FROM] = words[external.table + UNTIL] = 0
        for out in (*self._assembly.outs.values(), self._assembly.sequence):
            memory.words[out + HEAD] = memory.words[out + TAIL] = 0

    def _given_out(self) -> pa.RecordBatch:
        """The tuples of all exported streams."""
        memory, frames = self._memory, dict[int, Frame]()
        times: dict[int, IntArray] = {}
        for place in self._exported:
            rows = memory.rows(self._assembly.outs[place])
            times[place] = rows[:, AT] >> STEP_BITS
            frames[place] = memory.read(rows, self._assembly.columns_of(place))
        if len(self._exported) == 1:
            (place,) = self._exported
            emitted = [Emitted(frames[place], times[place])] if len(times[place]) else []
            return emitted_batch(emitted, self._kinds, self._schema)
        sequence = memory.rows(self._assembly.sequence)
        of = np.repeat(np.array(self._exported)[sequence[:, 0]], sequence[:, 1])
        if not len(of):
            return emitted_batch([], self._kinds, self._schema)
        where = {place: of == place for place in self._exported}
        times_ms: IntArray = np.empty(len(of), dtype=np.int64)
        tags: IntArray = np.empty(len(of), dtype=np.int64)
        for place, there in where.items():
            times_ms[there], tags[there] = times[place], self._tags[place]
        columns = [Vector(tags, None)]
        for place in self._plan.exported:
            for column, kind in zip(
                frames[place].columns, self._assembly.columns_of(place), strict=True
            ):
                values = np.zeros(len(of), dtype=storage[kind])
                if kind == "string":
                    values[:] = ""
                valid = np.zeros(len(of), dtype=np.bool_)
                values[where[place]] = column.values
                valid[where[place]] = True if column.valid is None else column.valid
                columns.append(Vector(values, valid))
        emitted = [Emitted(Frame(tuple(columns), len(of)), times_ms)]
        return emitted_batch(emitted, self._kinds, self._schema)

    def cut(self) -> Mapping[str, int]:
        """See `LoopCore`."""
        words, found = self._memory.words, dict[str, int]()
        for member, address in zip(self._plan.members, self._assembly.members, strict=True):
            if words[address + DROPPED]:
                found[member.program.name] = int(words[address + DROPPED])
                words[address + DROPPED] = 0
        return found

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """See `LoopCore`."""
        return iter(self._assembly.states)
