"""Standby schemes: how much of its input a secondary is sent, and what that costs at recovery.

Reliable placement, §3.1 and §4.6. Under *Active Standby* (AS) an upstream sends every tuple to
primary and secondary at once. Under *Semi-Active Standby* (SAS) it keeps them and sends the
secondary batches of B; a tuple that is covered before its batch is full is trimmed and never sent.
B = 1 is Active Standby, B = ∞ upstream backup.

A tuple is covered by a checkpoint (`ha.checkpoint`). Cuts are taken every T, and the next only when
consumers have acknowledged the output up to the last one, A after it was taken; then the secondary
gets it. So a tuple that comes just after a cut waits for the next one, and for that to be
acknowledged. Consumers that are secondaries themselves acknowledge when a checkpoint of theirs has
covered the output, so A depends on the L fragments from here to the last output:

    C_0 = 0,    A_l = C_(l−1) + d,    C_l = max(T, A_l) + A_l

So up to λC_L tuples wait. Checkpoints take traffic themselves, as does what has changed of the
state, and recovery takes a round trip, because the secondary has to ask for what was kept back:

    R = detection + K + Q·p              B = 1, Q = 0
    R = detection + 2K + Σ Q·p           B > 1, Q = min(B − 1, λC)
    traffic = sent(B)·DR + c / max(T, A) + s

A batch that is full before a covering comes is sent. What is younger than A is never covered, so
batches that fill within A send everything; larger ones leave the rest of the last interval unsent,
fewer than B tuples. Where B is small that saves less than the checkpoints take, and there are none
(`frugal`): every tuple is sent then, and Q = B − 1.

One of the 2K is the secondary's request. The paper's (1) has no such way: there the upstreams learn
of the death by themselves and send at once (`is_asked`).

*Adaptive* Semi-Active Standby takes the largest B for which R keeps the bound in the paper
(`largest`). Trimming makes traffic fall and rise with B, so ours takes the B and the T of the least
traffic among those that keep it (`cheapest`).

=========  ==================  ===================================================
symbol     name here           meaning
=========  ==================  ===================================================
B          batch               tuples that are sent at once
T          checkpoint_ms       between two checkpoints
d          delay_ms            from taking a cut until consumers that live have acknowledged it
L          levels              fragments on the longest way to an output, with this one
A          Covering.waits_ms   from taking a cut until all consumers have acknowledged it
C          covered_ms          until a tuple is covered, at most
c          checkpoint_bytes    of one checkpoint on the wire, without state
s          changes_bytes_s     changes of the state
λ          tuples_s            rate of an input
p          cost_us             processing time of a tuple
R, R'      recovery_ms, bound  recovery time and its bound
=========  ==================  ===================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

NEVER = 2**53 - 1
"""The B of upstream backup: larger than any number of tuples."""

INTERVALS = tuple(2**k for k in range(7))
"""T as multiples of the acknowledgement interval, from which ours chooses."""

NO_CHECKPOINTS = 0.0
"""The T of secondaries that are sent all of their input, in batches or at once."""

HYSTERESIS = 0.2
"""Another scheme must save this share of the traffic of the one that runs."""

MARGIN = 0.1
"""What another scheme than the one that runs must leave of the time that the bound leaves to it:
latencies vary, and it must not break the bound at once."""


def sent_share(tuples_s: float, covered_ms: float, batch: int) -> float:
    """Share of a stream that a secondary is sent in batches, in [0, 1].

    Each covering trims what lies unsent, so of n tuples between two of them ⌊n/B⌋ batches go out.
    Where the expected n is no whole number, some intervals have ⌊n⌋ tuples and the others one more.

    Parameters
    ----------
    tuples_s
        The stream's rate.
    covered_ms
        Between two coverings, > 0.
    batch
        B ≥ 1.
    """
    expected = tuples_s * covered_ms / 1e3
    if batch == 1 or expected == 0:
        return 1.0
    fewer = math.floor(expected)
    often = expected - fewer
    batches = (1 - often) * (fewer // batch) + often * ((fewer + 1) // batch)
    return batches * batch / expected


@dataclass(frozen=True, slots=True)
class Covering:
    """When tuples are covered by checkpoints.

    Attributes
    ----------
    waits_ms, covered_ms
        A and C.
    period_ms
        Between two cuts: max(T, A).
    """

    waits_ms: float
    covered_ms: float
    period_ms: float

    def sent_share(self, tuples_s: float, batch: int) -> float:
        """Share of a stream that a secondary is sent in batches, in [0, 1]."""
        if batch > tuples_s * self.covered_ms / 1e3 + 1 and tuples_s > 0:
            return 0.0
        # Without a wait this is the paper's trimming. With one nearly every batch is filled.
        return sent_share(tuples_s, self.covered_ms, batch) if self.waits_ms == 0 else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One input of a secondary.

    Attributes
    ----------
    tuples_s, bytes_s
        Its rate.
    is_free
        Whether the stream flows to the secondary's node anyway, because somebody else there needs
        every tuple: links carry a stream once.
    """

    tuples_s: float
    bytes_s: float
    is_free: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeding:
    """How a secondary is fed, and what that means.

    Attributes
    ----------
    batch
        B; 1 is Active Standby.
    checkpoint_ms
        T; `NO_CHECKPOINTS` if every tuple is sent.
    covered_ms
        C, or until a batch has gathered if there are no checkpoints: how far the secondary is
        behind at most. 0 under Active Standby.
    bytes_s
        Traffic to the secondary.
    recovery_ms
        R.
    """

    batch: int
    checkpoint_ms: float
    covered_ms: float
    bytes_s: float
    recovery_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """A secondary whose feeding is to be chosen.

    Attributes
    ----------
    inputs
        Its inputs.
    cost_us
        p.
    detection_ms, transfer_ms
        Until the primary's death is noticed, and K.
    checkpoint_bytes, changes_bytes_s
        c and s.
    ack_interval_ms
        Between two acknowledgements: the least T.
    delay_ms, levels
        d and L.
    is_asked
        Whether upstreams send what they kept back only when the secondary asks for it.
    """

    inputs: Sequence[Input]
    cost_us: float
    detection_ms: float
    transfer_ms: float
    checkpoint_bytes: float
    changes_bytes_s: float
    ack_interval_ms: float
    delay_ms: float
    levels: int = 1
    is_asked: bool = True

    @property
    def resend_ms(self) -> float:
        """Until tuples that were kept back arrive: K, after the request if there is one."""
        return (1 + self.is_asked) * self.transfer_ms

    def covering(self, checkpoint_ms: float) -> Covering:
        """When tuples are covered, with cuts every T."""
        waits_ms = covered_ms = 0.0
        for _ in range(self.levels):
            waits_ms = covered_ms + self.delay_ms
            covered_ms = max(checkpoint_ms, waits_ms) + waits_ms
        return Covering(waits_ms, covered_ms, max(checkpoint_ms, waits_ms))

    def sent_bytes_s(self, feeding: Feeding) -> list[float]:
        """How much of each input the secondary is sent; nothing of what flows anyway."""
        covering = self.covering(feeding.checkpoint_ms)
        return [
            0.0
            if each.is_free
            else each.bytes_s
            if feeding.checkpoint_ms == NO_CHECKPOINTS
            else each.bytes_s * covering.sent_share(each.tuples_s, feeding.batch)
            for each in self.inputs
        ]

    def with_batch(self, batch: int, checkpoint_ms: float) -> Feeding:
        """What feeding in batches of B means."""
        paid = [each for each in self.inputs if not each.is_free]
        if batch == 1 or not paid:
            return Feeding(
                batch=1,
                checkpoint_ms=0.0,
                covered_ms=0.0,
                bytes_s=sum(each.bytes_s for each in paid),
                recovery_ms=self.detection_ms + self.transfer_ms,
            )
        if checkpoint_ms == NO_CHECKPOINTS:
            return self._without_checkpoints(batch, paid)
        covering = self.covering(checkpoint_ms)
        covered_ms = covering.covered_ms
        kept = sum(min(batch - 1.0, each.tuples_s * covered_ms / 1e3) for each in paid)
        sent = sum(each.bytes_s * covering.sent_share(each.tuples_s, batch) for each in paid)
        checkpoints_bytes_s = self.checkpoint_bytes * 1e3 / covering.period_ms
        return Feeding(
            batch=batch,
            checkpoint_ms=checkpoint_ms,
            covered_ms=covered_ms,
            bytes_s=sent + checkpoints_bytes_s + self.changes_bytes_s,
            recovery_ms=self.detection_ms + self.resend_ms + kept * self.cost_us / 1e3,
        )

    def _without_checkpoints(self, batch: int, paid: Sequence[Input]) -> Feeding:
        rates = [each.tuples_s for each in paid]
        gathered_ms = max((batch * 1e3 / rate for rate in rates if rate > 0), default=0.0)
        return Feeding(
            batch=batch,
            checkpoint_ms=NO_CHECKPOINTS,
            covered_ms=gathered_ms,
            bytes_s=sum(each.bytes_s for each in paid),
            recovery_ms=self.detection_ms
            + self.resend_ms
            + (batch - 1.0) * len(paid) * self.cost_us / 1e3,
        )

    def frugal(self, fed: Feeding, bound_ms: float) -> Feeding:
        """The same batches without checkpoints, if that takes less traffic and keeps the bound."""
        without = self.with_batch(fed.batch, NO_CHECKPOINTS)
        is_better = without.recovery_ms <= bound_ms and without.bytes_s < fed.bytes_s
        return without if is_better else fed

    def largest(self, bound_ms: float, t_ms: float, most: int = NEVER) -> Feeding:
        """The largest B that keeps the bound: the rule of the paper.

        Parameters
        ----------
        t_ms
            T.
        most
            No greater one.
        """
        if self.with_batch(most, t_ms).recovery_ms <= bound_ms:
            return self.with_batch(most, t_ms)
        low, high = 1, 2
        while self.with_batch(high, t_ms).recovery_ms <= bound_ms:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            keeps = self.with_batch(middle, t_ms).recovery_ms <= bound_ms
            low, high = (middle, high) if keeps else (low, middle)
        return self.with_batch(low, t_ms)

    def cheapest(self, bound_ms: float, running: Feeding | None = None) -> Feeding:
        """The B and T of the least traffic that keep the bound.

        Parameters
        ----------
        running
            What runs. It is kept unless it breaks the bound, or another saves `HYSTERESIS`.
        """
        active = self.with_batch(1, 0.0)
        choices = [*self.choices(), self.largest(bound_ms, self.ack_interval_ms)]
        if running is None:
            return _least(choices, bound_ms) or active
        now = self.with_batch(running.batch, running.checkpoint_ms)
        margin_ms = MARGIN * max(bound_ms - active.recovery_ms, 0.0)
        best = _least(choices, bound_ms - margin_ms) or active
        keeps = now.recovery_ms <= bound_ms
        return now if keeps and best.bytes_s >= (1 - HYSTERESIS) * now.bytes_s else best

    def choices(self) -> list[Feeding]:
        """The B and T among which ours chooses whatever the bound; Active Standby comes first."""
        found = [self.with_batch(1, 0.0)]
        for multiple in INTERVALS:
            t_ms = multiple * self.ack_interval_ms
            found += [self.with_batch(b, t_ms) for b in (NEVER, *self._batches(t_ms))]
        return found

    def _batches(self, checkpoint_ms: float) -> list[int]:
        """Sizes between which traffic falls: just beyond n/k for a few k.

        If acknowledgements take time, batches send everything, or as little as none at all.
        """
        fastest = max((each.tuples_s for each in self.inputs if not each.is_free), default=0.0)
        covering = self.covering(checkpoint_ms)
        if covering.waits_ms > 0:
            return []
        waiting = fastest * covering.covered_ms / 1e3
        sizes = {math.floor(waiting / k) + 1 for k in range(1, 9)}
        return sorted(size for size in sizes if size > 1)


def _least(choices: Sequence[Feeding], bound_ms: float) -> Feeding | None:
    """The one of the least traffic that keeps the bound, if any does."""
    legal = [each for each in choices if each.recovery_ms <= bound_ms]
    return min(legal, key=lambda each: (each.bytes_s, each.recovery_ms), default=None)
