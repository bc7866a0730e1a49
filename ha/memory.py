"""How a host divides the memory that its queues may take.

Every queue on the way of a tuple is bounded in bytes, and all of them together by the host's budget
(`memory` in the cluster's manifest). The shares are fixed, not handed out on demand. So no stream
can take the room that another one needs to go on. The argument that back-pressure does not deadlock
rests on that (docs/protocol/credit.md).

In addition, a live source takes up to a sixteenth for input that its host has not numbered yet, and
another sixteenth for tuples that wait for a later timestamp; more of these lie in files. Clients of
a site's HTTP server hold up to a quarter in bodies of requests, and a sixteenth in results that
they do not take. The latest results, which all clients share, hold up to a sixteenth.

| share | for |
| --- | --- |
| a half | output logs, in equal parts |
| a quarter | input of the streams that the host reads, in equal parts |
| a quarter | messages under way to the host that it has not handled yet |

Half of a stream's part is its *window*: the credit that the host gives the producers, for what is
under way, queued, or taken by a sink and not yet kept for good. The other half is left to standbys
that are slower than a primary or sink which reads the same stream on the same host.
"""

from __future__ import annotations

from dataclasses import dataclass

LOG_SHARE = 1 / 2
INPUT_SHARE = 1 / 4
TRANSIT_SHARE = 1 / 4
SOURCE_SHARE = 1 / 16

BODY_SHARE = 1 / 4
READER_SHARE = 1 / 16

WINDOW_SHARE = 1 / 2

MOST_WINDOW_BYTES = 8 * 1024 * 1024
"""Enough for 50 MB/s at a round trip of 100 ms and an acknowledgement every 50 ms. More would only
make input wait longer at a host that cannot follow."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The budget of one host, bytes."""

    total_bytes: int

    @property
    def transit_bytes(self) -> int:
        """For messages that have arrived and are not handled yet."""
        return int(self.total_bytes * TRANSIT_SHARE)

    @property
    def source_bytes(self) -> int:
        """For input that a live source has taken and the host has not numbered yet."""
        return int(self.total_bytes * SOURCE_SHARE)

    @property
    def waiting_bytes(self) -> int:
        """For tuples of a live source that wait for a later timestamp, most of them in files."""
        return self.total_bytes

    @property
    def body_bytes(self) -> int:
        """For bodies of requests to a site."""
        return int(self.total_bytes * BODY_SHARE)

    @property
    def reader_bytes(self) -> int:
        """For results that readers do not take, and again for the latest ones of all outputs."""
        return int(self.total_bytes * READER_SHARE)

    @property
    def unheard_bytes(self) -> int:
        """For data that was sent to a peer since that was heard: twice what it gives credit for."""
        return int(self.total_bytes * INPUT_SHARE)

    def log_bytes(self, logs: int) -> int:
        """For each of so many output logs."""
        return int(self.total_bytes * LOG_SHARE / max(logs, 1))

    def input_bytes(self, streams: int) -> int:
        """For the input of each of so many streams."""
        return int(self.total_bytes * INPUT_SHARE / max(streams, 1))

    def window_bytes(self, streams: int) -> int:
        """The credit for each of so many streams."""
        return min(int(self.input_bytes(streams) * WINDOW_SHARE), MOST_WINDOW_BYTES)
