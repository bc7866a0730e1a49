"""Where a replica's output departs from what was sent before, and who can go on with it.

A primary that crosses a discontinuity may give numbers to new tuples that a predecessor had given
to others. So may a primary whose input comes from such a primary. It compares the claims of
consumers with its own numbers. Either it gives up, or a consumer that a predecessor had fed does
(docs/protocol/discontinuity-and-departure.md).
"""

from __future__ import annotations

from ha.messages import Ack, Subscribe
from ha.output_log import OutputLog
from streams.vectors.chunk import Position

UNHEARD_INTERVALS = 20
"""A primary does not wait for a sink that has acknowledged nothing in so many intervals. By default
they last a second. A sink far away needs some of them, and repeats itself in every fourth."""


class Departure:
    """What one replica knows of the departure of its output, and of its consumers.

    Attributes
    ----------
    crossed_ms
        Event time up to which the crossing input was complete when the replica crossed a
        discontinuity as primary: the least, if it has crossed several. None: it has crossed none
        since it became primary.
    departs_ms
        Event time from beyond which its output may differ from what a former primary has sent in
        this generation, because a primary has crossed a discontinuity there: of this fragment, or
        of one further up. The least, if there are several. None: nowhere.
    followers
        Consumers that had this replica's output from beyond the departure. If such a consumer has
        output from beyond the replica's end, it has that from a successor with the same state.
    claimants
        Consumers that have made a claim since the replica acts as primary and knows of the
        departure.
    foreign
        Consumer → position of a predecessor's output that it has and this output does not continue.
    """

    def __init__(self) -> None:
        self.crossed_ms: int | None = None
        self.departs_ms: int | None = None
        self.followers: set[str] = set()
        self.claimants: set[str] = set()
        self.foreign: dict[str, Position] = {}

    def learn(self, departs_ms: int | None) -> None:
        """Note a departure of an input, or of a predecessor's output."""
        before, self.departs_ms = self.departs_ms, earlier(self.departs_ms, departs_ms)
        if self.departs_ms != before:
            self.claimants.clear()

    def cross(self, reached_ms: int) -> None:
        """Note that an input, which is complete up to `reached_ms`, crosses a discontinuity."""
        self.crossed_ms = earlier(self.crossed_ms, reached_ms)
        self.learn(reached_ms)
        self.followers.clear()
        self.claimants.clear()

    def promoted(self) -> None:
        """Note that the replica acts as primary from now on."""
        self.claimants.clear()
        self.foreign.clear()

    def superseded(self) -> None:
        """Note that the replica is no primary: consumers get output from its successor now."""
        self.crossed_ms = None
        self.followers.clear()

    def continues(
        self, log: OutputLog, node: str, position: Position, *, processed: bool = True
    ) -> bool:
        """Whether a consumer that has the output up to `position` can go on with this output.

        It cannot if it has that output from a predecessor that was further, where this replica or a
        producer of its input crossed a discontinuity.

        Parameters
        ----------
        processed
            Whether the consumer has processed the output up to there. Output beyond the end of
            this log that it has only received may come from a standby that is further. It need not
            be judged yet.
        """
        if self.departs_ms is None or position.watermark_ms <= self.departs_ms:
            return True
        if log.contradicts(position):
            # No standby with the same state can have sent that either.
            return False
        if log.end.watermark_ms < position.watermark_ms:
            # A crossing that is not this replica's own may be its predecessor's.
            is_crossed = self.crossed_ms is not None and position.watermark_ms > self.crossed_ms
            return node in self.followers or not is_crossed or not processed
        if position.watermark_ms >= log.base.watermark_ms:
            self.followers.add(node)
        return True

    def is_relied_on(self, log: OutputLog, besides: str) -> bool:
        """Whether primaries or sinks of other hosts have this output from beyond the departure."""
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
        """Take in a claim: returns the position in it that this output does not continue, if any.

        A consumer with such a position stays foreign, whatever numbers it names later, until its
        reader that is furthest behind stands before the departure, or begins anew.
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
        """Whether nothing of another history can be on the way to a consumer any more."""
        assert self.departs_ms is not None, "without a departure nobody is judged"
        furthest = claim.furthest
        if furthest is not None and furthest.watermark_ms > self.departs_ms:
            return True
        return claim.departs_ms is not None and claim.departs_ms <= self.departs_ms

    def awaits_claims(self, log: OutputLog) -> bool:
        """Whether some sink has made no claim since the departure is known."""
        return any(
            each.patient
            and each.silent < UNHEARD_INTERVALS
            and not each.is_away
            and node not in self.claimants
            for node, each in log.subscribers.items()
        )

    def is_refuted(self, log: OutputLog) -> bool:
        """Whether some sink's last claim names output that this does not continue."""
        return any(
            each.patient and self.differs_from(log, node) for node, each in log.subscribers.items()
        )

    def differs_from(self, log: OutputLog, node: str) -> bool:
        """Whether a subscriber has tuples of another history, so that it must be sent nothing.

        This is stricter than `continues`. The subscriber may have received such tuples and not
        processed them. That makes nobody give up, but it would mix them with what it is sent.
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
