"""Evaluation of a loop, on the core that it has (`streams.plan.loop_core`).

A process begins with the stepwise core and goes over to the compiled one between two passes, once
its kernels have been loaded (`streams.kernels.kernels`). Both cores give the same tuples and save
the same state, so nobody else can tell when.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from streams.evaluate.loops.compiled import CompiledLoop
from streams.evaluate.loops.core import LAST_STEP, LoopCore
from streams.evaluate.loops.stepwise import StepwiseLoop
from streams.evaluate.protocol import Evaluation, Pass
from streams.kernels import kernels
from streams.plan.loop_core import why_stepwise
from streams.plan.program import Program
from streams.vectors.state import Stateful


class LoopEvaluation(Evaluation):
    """Runs a loop."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        self._program, self._schema = program, schema
        self._compiles = why_stepwise(program) is None
        if self._compiles:
            kernels.want(loops=True)
        self._core: LoopCore = self._new()
        self._under_way: Pass | None = None

    def _new(self) -> LoopCore:
        if self._compiles and kernels.loops_loaded():
            return CompiledLoop(self._program, self._schema)
        return StepwiseLoop(self._program, self._schema)

    @property
    def compiled(self) -> bool:
        """Whether the compiled core is in use."""
        return isinstance(self._core, CompiledLoop)

    @property
    def instants(self) -> int:
        """How many instants the core in use has evaluated."""
        return self._core.instants

    def run(self, given: Pass) -> pa.RecordBatch:
        """See `Evaluation`."""
        while (rows := self.work(given, LAST_STEP)) is None:
            pass
        return rows

    def work(self, given: Pass, most: int) -> pa.RecordBatch | None:
        """See `LoopCore`."""
        if self._under_way is not given:
            self._under_way = given
            if self._compiles and not self.compiled and kernels.loops_loaded():
                self._go_over()
        rows = self._core.work(given, most)
        if rows is not None:
            self._under_way = None
        return rows

    def _go_over(self) -> None:
        """Go on with the compiled core, from the state that there is."""
        core = self._new()
        states = dict(core.stateful())
        for name, operator in self._core.stateful():
            for state in operator.save()():
                states[name].load(state)
        for each in states.values():
            each.loaded()
        self._core = core

    def cut(self) -> Mapping[str, int]:
        """See `LoopCore`."""
        return self._core.cut()

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """See `LoopCore`."""
        return self._core.stateful()
