"""Bounds of numbers, times and names that come from other processes.

A number near the end of 64 bits overflows as soon as something is added to it. Decoders therefore
refuse whatever lies beyond these bounds, which legitimate values never approach.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

MAX_NUMBER = 2**53
"""A stream of a million tuples a second takes 285 years to get there."""

MOST_DIGITS = 20
"""Of a number in a text: one of thousands takes long to read, and Python refuses it."""

MAX_NAME = 128
"""Characters of a name. Names become parts of file names, which may have 255 bytes."""

MAX_RTT_MS = 10_000.0
"""A longer round trip comes from a stalled process or a wrong clock; no link on Earth takes it."""

Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]
"""A sequence number, an epoch, a generation, or a time on the cluster's clock in µs."""

EventTime = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
"""An event timestamp or a watermark, ms."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
"""The name of a node, a stream or a fragment."""
