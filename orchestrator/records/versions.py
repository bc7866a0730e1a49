"""Which versions of Vivace may run beside each other, and what they say to each other.

Two formats are shared by processes: that of messages between hosts (*wire*) and that of records in
the store. Either has a number, which rises with every change that an older version does not
understand. A process reports what it understands; a link speaks the newest wire that both ends
know. A record tells in `needs` which number a reader must know to act on it, by its later fields
(`Record.later`); such fields are in use only once every process that runs knows them. So one step
lies between versions that run side by side, and a rolling upgrade passes through every step.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

from orchestrator.records.base import FIRST_WIRE, Record

LEAST_WIRE = 13
"""The oldest wire that this version speaks: that of one step back, once there is one."""

WIRE_VERSION = 13
"""The newest wire that this version speaks."""

RECORDS = 1
"""The newest records that this version reads."""


class Versions(Record, frozen=True, kw_only=True):
    """What a process understands.

    Attributes
    ----------
    product
        Vivace's version, for people.
    wire
        The oldest and the newest wire that it speaks.
    records
        The newest records that it reads.
    """

    product: str
    wire: tuple[int, int]
    records: int

    def spoken_with(self, other: Versions) -> int | None:
        """The newest wire that both speak; None: they cannot exchange messages."""
        newest = min(self.wire[1], other.wire[1])
        return newest if newest >= max(self.wire[0], other.wire[0]) else None

    def obstacle(self, other: Versions) -> str | None:
        """Why processes of these versions must not run at the same time, a phrase; None: they may.

        Records are one step apart at most: the newer version writes what the older one reads.
        """
        if self.spoken_with(other) is None:
            there, here = wire_span(other.wire), wire_span(self.wire)
            return f"it speaks wire {there}, and this version {here}"
        if abs(self.records - other.records) > 1:
            return f"it reads records up to {other.records}, and this version up to {self.records}"
        return None

    def __str__(self) -> str:
        return f"{self.product} (wire {wire_span(self.wire)}, records {self.records})"


FIRST = Versions(product="0.1", wire=(FIRST_WIRE, FIRST_WIRE), records=1)
"""Of a process that does not say: the first release. It stays, whatever comes."""


@cache
def this_version() -> Versions:
    """What this process understands."""
    return Versions(product=version("vivace"), wire=(LEAST_WIRE, WIRE_VERSION), records=RECORDS)


def wire_span(wire: tuple[int, int]) -> str:
    """The oldest and the newest wire, as people read them."""
    least, newest = wire
    return str(newest) if least == newest else f"{least} to {newest}"
