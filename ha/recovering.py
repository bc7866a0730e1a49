"""The parts of a takeover, as the replica that has taken over measures them.

They are detection, and the two parts of R = K + Q·p in reliable placement, (1):

- *Detection* is the silence before: from the last sign of life of the former primary until it was
  taken for lost. If a connection breaks, this is next to nothing.
- *K* lasts until the first tuples have come of each input that was kept back. Under Active Standby
  none was.
- *Q·p* lasts until the output has come as far as the former primary had last told, and the tuples
  that came first are evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from streams.vectors.chunk import NO_WATERMARK


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The loss of the host of a peer replica, or of a source's other site.

    Attributes
    ----------
    silent_us
        For how long it had not been heard.
    kept_back
        Inputs of which producers keep tuples back from this host.
    """

    lost: str
    cause: str
    silent_us: int
    detected_at_us: int
    kept_back: frozenset[str]


@dataclass(slots=True)
class Recovering:
    """One takeover.

    Attributes
    ----------
    epoch
        Of the replica since then.
    silent_us
        Detection.
    began_us
        When the former primary was taken for lost.
    target_ms
        Output watermark that it had said it had reached.
    awaited
        Inputs of which tuples were kept back, and none has come yet.
    tuples
        Input tuples that were evaluated.
    resent_us, caught_up_us
        The ends of K and of Q·p; None before.
    """

    epoch: int
    silent_us: int
    began_us: int
    target_ms: int
    awaited: set[str]
    tuples: int = 0
    resent_us: int | None = None
    caught_up_us: int | None = None
    _resent_to_ms: dict[str, int] = field(default_factory=dict[str, int])
    _is_due: bool = False
    """Whether the evaluation that caught up has yet to be charged."""

    def __post_init__(self) -> None:
        if not self.awaited:
            self.resent_us = self.began_us

    def arrived(self, stream: str, watermark_ms: int, now_us: int) -> None:
        """Note that tuples of an input have come, up to a watermark."""
        if stream not in self.awaited:
            return
        self.awaited.discard(stream)
        self._resent_to_ms[stream] = watermark_ms
        if not self.awaited:
            self.resent_us = now_us
            self.target_ms = max(self.target_ms, min(self._resent_to_ms.values()))

    def evaluated(self, tuples: int, output_ms: int | None, now_us: int) -> None:
        """Note an evaluation that began now, and how far the output has come with it."""
        if self.caught_up_us is not None or self.resent_us is None:
            return
        self.tuples += tuples
        self.reached(output_ms, now_us)
        self._is_due = self.caught_up_us is not None

    def reached(self, output_ms: int | None, now_us: int) -> None:
        """Note how far the output has come."""
        if self.resent_us is None:
            return
        if (NO_WATERMARK if output_ms is None else output_ms) >= self.target_ms:
            self.caught_up_us = max(now_us, self.resent_us)

    def took(self, took_us: float) -> None:
        """Note how long that evaluation took."""
        if self._is_due and self.caught_up_us is not None:
            self.caught_up_us += round(took_us)
            self._is_due = False
