"""Checkpoints: how a primary moves its standby forward, so that producers need not send it input.

Under Active Standby a standby takes every tuple. Under Semi-Active Standby (reliable placement,
§3.1, §4.6) a producer keeps tuples back from the standby's host until B have gathered, and never
sends those that are trimmed meanwhile. An acknowledgement says that state and output contain
everything before a position. So a tuple may only be trimmed unsent if the standby's state contains
it all the same. The paper trims what the primary acknowledges; that is enough for operators without
state. Here the primary sends its standby *checkpoints*: its state at a cut, with the cut's position
in each input and in the output. A standby that adopts one has come as far as if it had evaluated
everything before, and acknowledges that to its producers.

1. *Withheld is kept.* A producer keeps output until every host has acknowledged it, sent or not.
2. *A checkpoint leaves its primary only when every consumer has acknowledged the output up to its
   cut.* A standby that continues from there can send whatever a consumer lacks, although it has
   nothing of the output before.
3. *A standby only goes forward.* It ignores a checkpoint of output that it has itself.

A tuple that has left every window is in no state, and costs nothing; one that is in a window
travels as part of the state. The state is written relative to one that the standby holds, so that
only changes travel (*state deltas*): deflate finds everything else in the former state, which it is
given as its dictionary. Both replicas have equal states at equal cuts, to the bit; so a state is
known by its cut, whoever has sent it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import msgspec

from ha.messages import MOST_SEGMENTS, Checkpoint
from streams.vectors.chunk import NO_WATERMARK, Position
from streams.vectors.state import SavedState

SEGMENT_BYTES = 16 * 1024
CONTEXT_BYTES = 8 * 1024
"""A state is written in segments. The dictionary of each is the former state at the same place,
with some context for what has moved: together what deflate can look back, 32 KiB."""

MOST_STATE_BYTES = MOST_SEGMENTS * SEGMENT_BYTES
"""A larger state is not sent: writing it would keep the host from its work. Then the standby lags,
and takes every tuple."""

STATES_KEPT = 4
"""States that both remember, so that later ones can be written relative to them: a standby says
which one it holds one or two acknowledgement intervals after it was sent."""

AGAIN_US = 1_000_000
"""A checkpoint that a standby does not say it holds by then was lost with a connection."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where a replica stands.

    Attributes
    ----------
    inputs
        Generation and position of each input before which everything is contained.
    output
        The end of its output.
    state
        All that its later output depends on.
    departs_ms
        Where its output departs from what was sent before (`ha.messages.Data`).
    """

    inputs: dict[str, tuple[int, Position]]
    output: Position
    state: SavedState
    departs_ms: int | None = None


def written(state: bytes, base: bytes) -> tuple[bytes, ...]:
    """A state relative to another one, which may be empty.

    >>> base = bytes(range(256)) * 40
    >>> sum(map(len, written(base + b"more", base))) < 100
    True
    """
    return tuple(
        _deflated(state[begin : begin + SEGMENT_BYTES], _dictionary(base, begin))
        for begin in range(0, len(state), SEGMENT_BYTES)
    )


def read(segments: tuple[bytes, ...], base: bytes) -> bytes:
    """The state that was written relative to `base`.

    Raises
    ------
    CheckpointError
        The segments are none, or not relative to this one.
    """
    parts: list[bytes] = []
    for number, segment in enumerate(segments):
        dictionary = _dictionary(base, number * SEGMENT_BYTES)
        inflater = zlib.decompressobj(-zlib.MAX_WBITS, zdict=dictionary)
        try:
            parts.append(inflater.decompress(segment, SEGMENT_BYTES))
        except zlib.error as error:
            raise CheckpointError(f"segment {number} cannot be read: {error}") from error
    return b"".join(parts)


def _deflated(segment: bytes, dictionary: bytes) -> bytes:
    deflater = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=dictionary)
    return deflater.compress(segment) + deflater.flush()


def _dictionary(base: bytes, begin: int) -> bytes:
    return base[max(begin - CONTEXT_BYTES, 0) : begin + SEGMENT_BYTES + CONTEXT_BYTES]


@dataclass(slots=True)
class CheckpointSender:
    """The primary's side: takes cuts, and sends each once every consumer has acknowledged it.

    Attributes
    ----------
    too_large
        How many states were too large to be sent.
    state_bytes
        Size of the last state that was written, be it sent or too large; None: none.
    """

    too_large: int = 0
    state_bytes: int | None = None
    _cut: Cut | None = None
    _taken_us: int | None = None
    _taken_ms: int = NO_WATERMARK
    _states: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """Output watermark of a cut → the state that was sent, oldest first."""
    _newest: Cut | None = None
    _sent_us: dict[str, int] = field(default_factory=dict[str, int])
    """Node → when it was sent the newest cut that may be sent."""
    _held: dict[str, int] = field(default_factory=dict[str, int])
    """Node → output watermark of the newest state that it says it holds."""

    def take(
        self, cut: Callable[[], Cut | None], end: Position, now_us: int, interval_us: int
    ) -> None:
        """Take a cut, unless one waits to be acknowledged, or the last one was just taken.

        Parameters
        ----------
        cut
            Where the primary stands now; None if nobody could continue from there.
        end
            The end of its output.
        """
        if self._cut is not None or end.watermark_ms <= self._taken_ms:
            return
        if self._taken_us is not None and now_us - self._taken_us < interval_us:
            return
        self._cut = cut()
        if self._cut is not None:
            self._taken_us, self._taken_ms = now_us, end.watermark_ms

    def acknowledged(self, position: Position | None) -> Cut | None:
        """A further cut to send, if every consumer has acknowledged output up to there.

        Parameters
        ----------
        position
            What all consumers have acknowledged; None if there are none.
        """
        cut = self._cut
        if cut is None or position is None or position.watermark_ms < cut.output.watermark_ms:
            return None
        self._cut = None
        state = msgspec.msgpack.encode(list(cut.state.pieces()))
        self.state_bytes = len(state)
        if len(state) > MOST_STATE_BYTES:
            self.too_large += 1
            return None
        self._newest = cut
        self._sent_us.clear()
        self._states[cut.output.watermark_ms] = state
        while len(self._states) > STATES_KEPT and (forgotten := self._forgotten()) is not None:
            del self._states[forgotten]
        return cut

    def _forgotten(self) -> int | None:
        """The oldest state that no standby holds; the newest is yet to be sent."""
        held = self._held.values()
        *older, _newest = self._states
        return next((at_ms for at_ms in older if at_ms not in held), None)

    def restrict(self, standbys: Collection[str]) -> None:
        """Keep nothing for nodes that no longer have a standby."""
        for node in self._held.keys() - standbys:
            del self._held[node]

    def due(self, node: str, now_us: int) -> Cut | None:
        """The cut to send to a standby now, if there is one that it seems to lack."""
        cut = self._newest
        if cut is None or self._held.get(node) == cut.output.watermark_ms:
            return None
        sent_us = self._sent_us.get(node)
        if sent_us is not None and now_us - sent_us < AGAIN_US:
            return None
        self._sent_us[node] = now_us
        return cut

    def message(
        self, node: str, fragment: str, epoch: int, generation: int, cut: Cut
    ) -> Checkpoint:
        """A cut that may be sent, for one standby."""
        base_ms = self._held.get(node)
        base = b"" if base_ms is None else self._states.get(base_ms, b"")
        segments = written(self._states[cut.output.watermark_ms], base)
        return Checkpoint(
            fragment=fragment,
            epoch=epoch,
            generation=generation,
            inputs=cut.inputs,
            output=cut.output,
            base_ms=base_ms if base else None,
            state=segments,
            departs_ms=cut.departs_ms,
        )

    def told(self, node: str, at_ms: int) -> None:
        """Note which state a standby says it holds: none if it has started over."""
        self._held[node] = at_ms


@dataclass(slots=True)
class CheckpointReceiver:
    """The standby's side: the newest states that it was sent."""

    _states: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """Output watermark of the cut → the state, oldest first."""

    @property
    def at_ms(self) -> int:
        """Output watermark of the newest state; `NO_WATERMARK` if it holds none."""
        return next(reversed(self._states), NO_WATERMARK)

    def receive(self, checkpoint: Checkpoint) -> Cut:
        """The cut that was sent.

        Raises
        ------
        CheckpointError
            It cannot be read, or is relative to a state that is not here.
        """
        base_ms = checkpoint.base_ms
        base = b"" if base_ms is None else self._states.get(base_ms)
        if base is None:
            raise CheckpointError(f"the state at {base_ms} ms is not here")
        state = read(checkpoint.state, base)
        try:
            pieces = msgspec.msgpack.decode(state, type=list[bytes])
        except msgspec.MsgspecError as error:
            raise CheckpointError(f"it holds no state: {error}") from error
        at_ms = checkpoint.output.watermark_ms
        self._states.pop(at_ms, None)
        self._states[at_ms] = state
        # The next ones are relative to this one's base, or to a later one.
        for older in [each for each in self._states if each not in (base_ms, at_ms)]:
            if len(self._states) > STATES_KEPT or (base_ms is not None and older < base_ms):
                del self._states[older]
        return Cut(
            inputs=checkpoint.inputs,
            output=checkpoint.output,
            state=SavedState.of(pieces),
            departs_ms=checkpoint.departs_ms,
        )

    def reset(self) -> None:
        """Hold nothing any more."""
        self._states.clear()
