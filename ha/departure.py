"""Where a replica's output departs from what was sent before, and who can go on with it.

A primary that crosses a discontinuity, or gets input from one that has, may make other output than
a predecessor has sent under the same numbers. It compares what consumers say that they have with
its own numbers. Either it gives up, or a consumer does that was fed by a predecessor which gave up
(docs/protocol/discontinuity-and-departure.md).
"""

from __future__ import annotations

from ha.messages import Ack, Subscribe
from ha.output_log import OutputLog
from streams.vectors.chunk import Position

UNHEARD_INTERVALS = 20
"""A sink that has acknowledged nothing in so many acknowledgement intervals is not waited for. By
default they last a second: a sink far away needs some of them, and repeats itself in every fourth.
"""


class Departure:
    """What one replica knows of the departure of its output, and of its consumers.

    Attributes
    ----------
    crossed_ms
        Up to where its inputs were complete when it crossed a discontinuity as primary; the least,
        if it has crossed several; None: none since it became primary.
    departs_ms
        Event time from beyond which its output may differ from what a former primary has sent in
        this generation: one has crossed a discontinuity there, of an input here or further up. The
        least, if there are several; None: nowhere.
    followers
        Consumers that had its own output from beyond there. What they have from beyond its end,
        they have from a successor with its state.
    claimants
        Consumers that have said what they have since it acts as primary and knows that its output
        departs.
    foreign
        Consumer → output of a predecessor that it has, which this does not continue.
    """

    def __init__(self) -> None:
        self.crossed_ms: int | None = None
        self.departs_ms: int | None = None
        self.followers: set[str] = set()
        self.claimants: set[str] = set()
        self.foreign: dict[str, Position] = {}

    def learn(self, departs_ms: int | None) -> None:
        """Note that an input, or a predecessor's output, departs from what was sent before."""
        before, self.departs_ms = self.departs_ms, earlier(self.departs_ms, departs_ms)
        if self.departs_ms != before:
            self.claimants.clear()

    def cross(self, reached_ms: int) -> None:
        """Note that an input, complete up to there, crosses a discontinuity."""
        self.crossed_ms = earlier(self.crossed_ms, reached_ms)
        self.learn(reached_ms)
        self.followers.clear()
        self.claimants.clear()

    def promoted(self) -> None:
        """Note that the replica acts as primary from now on."""
        self.claimants.clear()
        self.foreign.clear()

    def superseded(self) -> None:
        """Note that the replica is no primary: what consumers have comes from its successor."""
        self.crossed_ms = None
        self.followers.clear()

    def continues(
        self, log: OutputLog, node: str, position: Position, *, processed: bool = True
    ) -> bool:
        """Whether a consumer that has the output up to `position` can go on with what follows here.

        It cannot if a discontinuity was crossed at which a predecessor of this primary was further,
        and had sent the output to that consumer: by this replica, or by whoever produces its input.

        Parameters
        ----------
        processed
            Whether the consumer has processed it. What it has only received from beyond the end
            here may come from a standby that is further, and need not be judged yet.
        """
        if self.departs_ms is None or position.watermark_ms <= self.departs_ms:
            return True
        if log.contradicts(position):
            # Nor can a standby with the same state have come there.
            return False
        if log.end.watermark_ms < position.watermark_ms:
            # What it has not crossed itself, its predecessor may have crossed before it.
            is_crossed = self.crossed_ms is not None and position.watermark_ms > self.crossed_ms
            return node in self.followers or not is_crossed or not processed
        if position.watermark_ms >= log.base.watermark_ms:
            self.followers.add(node)
        return True

    def is_relied_on(self, log: OutputLog, besides: str) -> bool:
        """Whether somebody else's primaries or sinks have this output from beyond its departure."""
        assert self.departs_ms is not None, "without a departure nobody is judged"
        departs_ms, ends_ms = self.departs_ms, log.end.watermark_ms
        return any(
            had is not None
            and departs_ms < had.watermark_ms <= ends_ms
            and not log.contradicts(had)
            for node, each in log.subscribers.items()
            if node != besides and each.demanded is not None and not each.is_away
            # A demand that was never stated is the log's beginning.
            for had in (each.furthest and each.demanded, each.furthest if each.patient else None)
        )

    def claim(self, log: OutputLog, node: str, claim: Ack | Subscribe) -> Position | None:
        """Take in what a consumer says that it has: returns what of that is not continued here.

        What once was not stays so, whatever numbers follow, until the reader of the consumer that
        is furthest behind stands before the departure, or begins anew.
        """
        if self.departs_ms is None:
            return None
        if self._knows_departure(claim):
            self.claimants.add(node)
        least = claim.position
        if least is None or least.watermark_ms <= self.departs_ms:
            self.foreign.pop(node, None)
        for had, processed in ((least, True), (claim.furthest, False)):
            if had is not None and not self.continues(log, node, had, processed=processed):
                self.foreign.setdefault(node, had)
        return self.foreign.get(node)

    def _knows_departure(self, claim: Ack | Subscribe) -> bool:
        """Whether a consumer can have nothing more on its way that departs from this output."""
        assert self.departs_ms is not None, "without a departure nobody is judged"
        furthest = claim.furthest
        if furthest is not None and furthest.watermark_ms > self.departs_ms:
            return True
        return claim.departs_ms is not None and claim.departs_ms <= self.departs_ms

    def awaits_claims(self, log: OutputLog) -> bool:
        """Whether some sink has yet to say what it has of this output, since that departs."""
        return any(
            each.patient
            and each.silent < UNHEARD_INTERVALS
            and not each.is_away
            and node not in self.claimants
            for node, each in log.subscribers.items()
        )

    def is_refuted(self, log: OutputLog) -> bool:
        """Whether some sink has output that this does not continue, by what it said last."""
        return any(
            each.patient and self.differs_from(log, node) for node, each in log.subscribers.items()
        )

    def differs_from(self, log: OutputLog, node: str) -> bool:
        """Whether a subscriber has other output than this, which this does not continue.

        It may have received that from a predecessor and not say so yet as a primary must hear it
        (`continues`); but what is sent to it from now on would be taken for the same.
        """
        if self.departs_ms is None:
            return False
        if node in self.foreign:
            return True
        subscriber = log.subscribers[node]
        return any(
            had is not None and had.watermark_ms > self.departs_ms and log.contradicts(had)
            for had in (subscriber.sent, subscriber.furthest)
        )


def earlier(one_ms: int | None, other_ms: int | None) -> int | None:
    """The earlier of two event times, of which either may be missing."""
    return min((each for each in (one_ms, other_ms) if each is not None), default=None)
