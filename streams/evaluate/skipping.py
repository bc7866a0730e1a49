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
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa

from streams.evaluate.rejected import Rejected, RejectedCount, RejectedCounter, said, shown_apart
from streams.vectors.chunk import NO_WATERMARK, TIMESTAMP
from streams.vectors.state import Pieces, State, Stateful, load_operators

NOT_OF_DATA = (MemoryError, RecursionError, OSError, ImportError)
"""What can fail in one replica and not in the other."""

KEPT_ROWS = 8192
KEPT_PASSES = 512
KEPT_BYTES = 4 * 2**20
"""How much input is kept, and evaluated again after a failure, before the next snapshot."""

Taken = Mapping[str, pa.RecordBatch | None]
"""Input → the tuples that were taken of it; None for none."""


class Runner(Protocol):
    """A way to evaluate a program, with its state."""

    def run(self, taken: Taken, first_ids: Mapping[str, int], until_ms: int) -> pa.RecordBatch:
        """Evaluate all tuples up to a watermark; parameters as in `Incremental.run`."""
        ...

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name."""
        ...


@dataclass(frozen=True, slots=True)
class _Pass:
    """What is evaluated at once; attributes as the parameters of `Runner.run`."""

    taken: Taken
    first_ids: Mapping[str, int]
    until_ms: int

    @property
    def rows(self) -> int:
        return sum(rows.num_rows for rows in self.taken.values() if rows is not None)

    @property
    def size_bytes(self) -> int:
        return sum(rows.nbytes for rows in self.taken.values() if rows is not None)

    @property
    def last_ms(self) -> int:
        """The last timestamp that has tuples."""
        ends = (rows.column(0)[-1].as_py() for rows in self.taken.values() if rows is not None)
        return max(ends, default=NO_WATERMARK)

    def without(self, streams: Sequence[str]) -> _Pass:
        return replace(self, taken={**self.taken, **dict.fromkeys(streams)})

    def parts(self, after_ms: int) -> tuple[_Pass, _Pass]:
        """The time before the tuples, if there is any, and the rest; else, halves.

        Parameters
        ----------
        after_ms
            Up to where all is evaluated; at least two milliseconds before the end.
        """
        times = {
            stream: rows.column(TIMESTAMP).to_numpy(zero_copy_only=False)
            for stream, rows in self.taken.items()
            if rows is not None
        }
        middle_ms = (after_ms + self.until_ms) // 2
        first_ms = min((int(one[0]) for one in times.values()), default=middle_ms + 1)
        at_ms = first_ms - 1 if after_ms < first_ms - 1 else middle_ms
        before, after = dict(self.taken), dict(self.taken)
        ids_after = dict(self.first_ids)
        for stream, timestamps in times.items():
            rows, cut = self.taken[stream], int(timestamps.searchsorted(at_ms, side="right"))
            assert rows is not None
            before[stream] = rows.slice(0, cut) if cut else None
            after[stream] = rows.slice(cut) if cut < rows.num_rows else None
            ids_after[stream] += cut
        return _Pass(before, self.first_ids, at_ms), _Pass(after, ids_after, self.until_ms)


class Skipping:
    """Evaluates as another runner does, without the tuples on which that fails.

    Parameters
    ----------
    new
        Makes such a runner, without state.
    reads
        Input → the columns that the program uses.

    Attributes
    ----------
    rejected
        What the last call of `run` has left out.
    """

    def __init__(self, new: Callable[[], Runner], reads: Mapping[str, Sequence[str]]) -> None:
        self._new = new
        self._reads = reads
        self._runner = new()
        self._saved: Mapping[str, Pieces] | None = None
        """The operators' state some time ago; None before the first pass."""
        self._since: list[_Pass] = []
        self._kept_rows = self._kept_bytes = 0
        self._counter = RejectedCounter()
        self.rejected: list[Rejected] = []

    @property
    def count(self) -> RejectedCount:
        """What was left out since the state began."""
        return self._counter.count

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name, and what was rejected."""
        yield from self._runner.stateful()
        yield "rejected", self._counter

    def run(self, taken: Taken, first_ids: Mapping[str, int], until_ms: int) -> pa.RecordBatch:
        """Evaluate all tuples up to a watermark that can be evaluated.

        Raises
        ------
        Exception
            As the runner raises, if leaving out tuples does not help.
        """
        self.rejected = []
        emitted = [*self._evaluated(_Pass(taken, first_ids, until_ms))]
        return emitted[0] if len(emitted) == 1 else pa.concat_batches(emitted)

    def first_rejected(
        self, taken: Taken, first_ids: Mapping[str, int], until_ms: int
    ) -> Rejected | None:
        """What `run` would leave out first; the runner is not used any more."""
        for _ in self._evaluated(_Pass(taken, first_ids, until_ms)):
            if self.rejected:
                return self.rejected[0]
        return None

    def _evaluated(self, whole: _Pass) -> Iterator[pa.RecordBatch]:
        """Evaluate a pass in as few parts as its failures need."""
        waiting = [whole]
        while waiting:
            one = waiting.pop()
            self._save_if_due()
            try:
                rows = self._runner.run(one.taken, one.first_ids, one.until_ms)
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

    def _rest(self, group: _Pass, error: Exception) -> pa.RecordBatch:
        """Evaluate the tuples of a millisecond that can be, and reject the others."""
        there = [stream for stream, rows in group.taken.items() if rows is not None]
        several = [there] if len(there) > 1 else []
        some = [there] if there else []
        attempts = [(False, one) for one in [*([each] for each in there), *several]]
        attempts += [(True, one) for one in [[], *some]]
        for is_new, streams in attempts:
            if is_new:
                self._runner = self._new()
            else:
                self._go_back()
            rest = group.without(streams)
            try:
                rows = self._runner.run(rest.taken, rest.first_ids, rest.until_ms)
            except NOT_OF_DATA:
                raise
            except Exception:  # noqa: BLE001  Others may be to blame.
                continue
            self._reject(group, streams, error, state=is_new)
            self._keep(rest)
            return rows
        raise error

    def _reject(
        self, group: _Pass, streams: Sequence[str], error: Exception, *, state: bool
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

    def _keep(self, one: _Pass) -> None:
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
        self._saved = {name: operator.save() for name, operator in self._runner.stateful()}
        self._since = []
        self._kept_rows = self._kept_bytes = 0

    def _go_back(self) -> None:
        """Have the state that there was before the pass that has failed."""
        assert self._saved is not None, "it is saved before each pass"
        self._runner = self._new()
        for _ in load_operators(dict(self._runner.stateful()), _states(self._saved)):
            pass
        for one in self._since:
            self._runner.run(one.taken, one.first_ids, one.until_ms)


def _states(saved: Mapping[str, Pieces]) -> Iterator[tuple[str, State]]:
    """The pieces of a state, as another engine would read them."""
    for name, pieces in saved.items():
        for state in pieces():
            yield name, msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=State)


class Rejections:
    """Gives the rejected tuples in place of the results.

    Its own evaluation decides what is rejected: a fragment beside the one that gives the results.
    Of what windows held when that was rejected, it gives nothing.
    """

    def __init__(self, skipping: Skipping, schema: pa.Schema) -> None:
        self._skipping = skipping
        self._schema = schema

    def run(self, taken: Taken, first_ids: Mapping[str, int], until_ms: int) -> pa.RecordBatch:
        """See `Runner`."""
        self._skipping.run(taken, first_ids, until_ms)
        rows = [
            (each.timestamp_ms, stream, each.reason, what)
            for each in self._skipping.rejected
            for stream, tuples in each.tuples.items()
            for what in shown_apart(tuples)
        ]
        named = [dict(zip(self._schema.names, row, strict=True)) for row in rows]
        return pa.RecordBatch.from_pylist(named, schema=self._schema)

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """See `Runner`."""
        return self._skipping.stateful()


def failure(
    new: Callable[[], Runner],
    reads: Mapping[str, Sequence[str]],
    error: Exception,
    taken: Taken,
    first_ids: Mapping[str, int],
    until_ms: int,
) -> str:
    """When and with which tuples a runner has failed, as far as can be told, as a phrase.

    Its state is broken. So the tuples are tried without one: most errors come from a tuple alone.
    """
    if not isinstance(error, NOT_OF_DATA):
        try:
            with np.errstate(all="ignore"):
                found = Skipping(new, reads).first_rejected(taken, first_ids, until_ms)
        except Exception:  # noqa: BLE001  Without a state, it fails without any tuple, too.
            found = None
        if found is not None:
            return str(found)
    counts = {stream: 0 if rows is None else rows.num_rows for stream, rows in taken.items()}
    tuples = ", ".join(f"{count} of {stream}" for stream, count in counts.items())
    return f"up to {until_ms} ms, {said(error)}; tuples {tuples}"
