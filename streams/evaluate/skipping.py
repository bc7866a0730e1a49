"""Evaluation that leaves out the tuples which cannot be evaluated, and says which they are.

No value should make a statement fail (`streams.expressions.functions`). If one does all the same,
an owner may prefer to lose the tuples of a timestamp to losing the statement's state again and
again. Both replicas must then leave out the same tuples, though they cut their input differently:

- A span of time that fails is evaluated once more from the state before it, in two parts, and these
  likewise, until a millisecond (with tuples or without) is left that fails alone. So
  all before it has its results, wherever watermarks lie.
- Of the tuples of such a millisecond, those of one input after the other are left out, in the order
  in which the statement names its inputs. The first for which the rest can be evaluated are
  rejected; if there are none, all of them.
- If that does not help, the fault lies in what windows hold from before: a join or an aggregate is
  evaluated when its window ends. Then the state is rejected, and evaluation goes on from nothing.

So what is rejected depends on state and tuples alone. Errors that are no fault of data
(`NOT_OF_DATA`) reject nothing: the other replica would not meet them.

The state before a span comes from a snapshot of the operators, which is taken from time to time,
and from the input since, which is kept and evaluated again. An evaluation that must not fail costs
nothing but these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from foundation.timestamps import timestamp_text
from streams.evaluate.limited_releases import LimitedReleases
from streams.evaluate.protocol import Evaluation, Pass, Showing
from streams.evaluate.rejected import Rejected, RejectedCounter, said, shown_apart
from streams.evaluate.rejected_count import RejectedCount
from streams.plan.program import Program
from streams.vectors.chunk import TIMESTAMP
from streams.vectors.state import Pieces, State, Stateful, load_operators

NOT_OF_DATA = (MemoryError, RecursionError, OSError, ImportError)
"""What can fail in one replica and not in the other."""

KEPT_ROWS = 8192
KEPT_PASSES = 512
KEPT_BYTES = 4 * 2**20
"""How much input is kept, and evaluated again after a failure, before the next snapshot."""


class Skipping:
    """Evaluates as another evaluation does, without the tuples on which that fails.

    Parameters
    ----------
    new
        Makes such an evaluation, without state.
    reads
        Input → the columns that the program uses.

    Attributes
    ----------
    inner
        The present one.
    rejected
        What the last call of `run` has left out.
    """

    def __init__(self, new: Callable[[], Evaluation], reads: Mapping[str, Sequence[str]]) -> None:
        self._new = new
        self._reads = reads
        self.inner = new()
        self._saved: Mapping[str, Pieces] | None = None
        """The operators' state some time ago; None before the first pass."""
        self._since: list[Pass] = []
        self._kept_rows = self._kept_bytes = 0
        self._counter = RejectedCounter()
        self.rejected: list[Rejected] = []

    @property
    def count(self) -> RejectedCount:
        """What was left out since the state began."""
        return self._counter.count

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name, and what was rejected."""
        yield from self.inner.stateful()
        yield "rejected", self._counter

    def show(self, program: Program, schema: pa.Schema) -> None:
        """See `streams.evaluate.protocol.Showing`; `new` makes evaluations of that program now."""
        if isinstance(self.inner, Showing):
            self.inner.show(program, schema)
        else:
            self.inner = self._new()
        # It cannot go back to a state that shows something else.
        self._saved = None

    def run(self, given: Pass) -> pa.RecordBatch:
        """Evaluate all tuples up to a watermark that can be evaluated.

        Raises
        ------
        Exception
            As the other one raises, if leaving out tuples does not help.
        """
        self.rejected = []
        emitted = [*self._evaluated(given)]
        return emitted[0] if len(emitted) == 1 else pa.concat_batches(emitted)

    def first_rejected(self, given: Pass) -> Rejected | None:
        """What `run` would leave out first; it is not used any more."""
        for _ in self._evaluated(given):
            if self.rejected:
                return self.rejected[0]
        return None

    def _evaluated(self, whole: Pass) -> Iterator[pa.RecordBatch]:
        """Evaluate a pass in as few parts as its failures need."""
        waiting = [whole]
        while waiting:
            one = waiting.pop()
            self._save_if_due()
            try:
                rows = self.inner.run(one)
            except NOT_OF_DATA:
                raise
            except Exception as error:  # noqa: BLE001  It is raised if no tuple is to blame.
                self._go_back()
                self._save()
                if one.until_ms - self._counter.until_ms > 1:
                    waiting += reversed(one.parts(self._counter.until_ms))
                    continue
                rows = self._rest(one, error)
                # The next one that fails begins from here.
                self._save()
            else:
                self._keep(one)
            yield rows

    def _rest(self, group: Pass, error: Exception) -> pa.RecordBatch:
        """Evaluate the tuples of a millisecond that can be, and reject the others."""
        there = [stream for stream, rows in group.taken.items() if rows is not None]
        several = [there] if len(there) > 1 else []
        some = [there] if there else []
        attempts = [(False, one) for one in [*([each] for each in there), *several]]
        attempts += [(True, one) for one in [[], *some]]
        for is_new, streams in attempts:
            self._go_back()
            if is_new:
                self._begin_anew()
            rest = group.without(streams)
            try:
                rows = self.inner.run(rest)
            except NOT_OF_DATA:
                raise
            except Exception:  # noqa: BLE001  Others may be to blame.
                continue
            self._reject(group, streams, error, state=is_new)
            self._keep(rest)
            return rows
        raise error

    def _begin_anew(self) -> None:
        """Evaluate without the state; the releases of a periodic statement are counted on."""
        before, self.inner = self.inner, self._new()
        if isinstance(before, LimitedReleases) and isinstance(self.inner, LimitedReleases):
            self.inner.count_on_from(before)

    def _reject(
        self, group: Pass, streams: Sequence[str], error: Exception, *, state: bool
    ) -> None:
        tuples: dict[str, pa.RecordBatch] = {}
        for stream in streams:
            if (rows := group.taken[stream]) is not None:
                columns = [TIMESTAMP, *(each for each in self._reads[stream] if each != TIMESTAMP)]
                tuples[stream] = rows.select(columns)
        at_ms = group.until_ms if tuples else self._counter.last_ms
        rejected = Rejected(at_ms, tuples, error, state)
        self.rejected.append(rejected)
        self._counter.add(rejected)

    def _keep(self, one: Pass) -> None:
        self._counter.last_ms = max(one.last_ms, self._counter.last_ms)
        self._counter.until_ms = one.until_ms
        self._since.append(one)
        self._kept_rows += one.rows
        self._kept_bytes += one.size_bytes

    def _save_if_due(self) -> None:
        if (
            self._saved is None
            or len(self._since) >= KEPT_PASSES
            or self._kept_rows >= KEPT_ROWS
            or self._kept_bytes >= KEPT_BYTES
        ):
            self._save()

    def _save(self) -> None:
        self._saved = {name: operator.save() for name, operator in self.inner.stateful()}
        self._since = []
        self._kept_rows = self._kept_bytes = 0

    def _go_back(self) -> None:
        """Have the state that there was before the pass that has failed."""
        assert self._saved is not None, "it is saved before each pass"
        self.inner = self._new()
        for _ in load_operators(dict(self.inner.stateful()), _states(self._saved)):
            pass
        for one in self._since:
            self.inner.run(one)


def _states(saved: Mapping[str, Pieces]) -> Iterator[tuple[str, State]]:
    """The pieces of a state, as another engine would read them."""
    for name, pieces in saved.items():
        for state in pieces():
            yield name, msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=State)


class RejectedTuples:
    """Gives the rejected tuples in place of the results.

    Its own evaluation decides what is rejected: a fragment beside the one that gives the results.
    Of what windows held when that was rejected, it gives nothing.
    """

    def __init__(self, skipping: Skipping, schema: pa.Schema) -> None:
        self._skipping = skipping
        self._schema = schema

    def run(self, given: Pass) -> pa.RecordBatch:
        """See `Evaluation`."""
        self._skipping.run(given)
        rows = [
            (each.timestamp_ms, stream, each.reason, what)
            for each in self._skipping.rejected
            for stream, tuples in each.tuples.items()
            for what in shown_apart(tuples)
        ]
        named = [dict(zip(self._schema.names, row, strict=True)) for row in rows]
        return pa.RecordBatch.from_pylist(named, schema=self._schema)

    def show(self, program: Program, schema: pa.Schema) -> None:
        """See `streams.evaluate.protocol.Showing`: what is rejected is shown alike."""
        self._skipping.show(program, schema)

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """See `Evaluation`."""
        return self._skipping.stateful()


def failure(
    new: Callable[[], Evaluation],
    reads: Mapping[str, Sequence[str]],
    error: Exception,
    given: Pass,
) -> str:
    """When and with which tuples an evaluation has failed, as far as can be told, as a phrase.

    Its state is broken. So the tuples are tried without one: most errors come from a tuple alone.
    """
    if not isinstance(error, NOT_OF_DATA):
        try:
            with np.errstate(all="ignore"):
                found = Skipping(new, reads).first_rejected(given)
        except Exception:  # noqa: BLE001  Without a state, it fails without any tuple, too.
            found = None
        if found is not None:
            return str(found)
    counts = {stream: 0 if rows is None else rows.num_rows for stream, rows in given.taken.items()}
    tuples = ", ".join(f"{count} of {stream}" for stream, count in counts.items())
    return f"up to {timestamp_text(given.until_ms)}, {said(error)}; tuples {tuples}"
