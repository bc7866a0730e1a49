"""When days begin in a time zone.

The rules of time zones are those of the package `tzdata`, whatever the system has, so hosts with
the same version of it agree. A day that a zone has skipped is none. One that would begin at a local
time which there is not, since clocks are set at midnight, begins when they are set; of two such
times the first one counts.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from foundation.arrays import IntArray

FIRST, LAST = date(1970, 1, 1).toordinal(), date(2070, 1, 1).toordinal()
"""Of the days that are looked up, which takes a tenth of a second. Those before and after have 24
hours."""

RULES = "time zones"
"""What the rules are called where they are told like the code of a function."""


class TimeZoneError(Exception):
    """There is no such time zone, or there are no rules of time zones."""


@dataclass(frozen=True, slots=True)
class LocalDays:
    """The days of a time zone.

    Attributes
    ----------
    zone
        Its name in the database of time zones, such as Europe/Berlin.
    begins_ms
        How long after midnight days begin, by the clock, ms; less than 24 hours.
    """

    zone: str
    begins_ms: int = 0


def rules() -> dict[str, str]:
    """The version of the rules that are installed, such as 2026f, by `RULES`; empty without any."""
    try:
        return {RULES: str(importlib.import_module("tzdata").IANA_VERSION)}
    except ImportError:
        return {}


@cache
def day_begins(days: LocalDays) -> tuple[IntArray, int]:
    """When days begin, ms since 1970-01-01 in UTC, rising; and the place of 1970-01-01.

    Raises
    ------
    TimeZoneError
        There is no such zone.
    """
    zone, epoch = _zone(days.zone), datetime(1970, 1, 1, tzinfo=UTC)
    clock = timedelta(milliseconds=days.begins_ms)
    begins = [
        ((datetime.fromordinal(day) + clock).replace(tzinfo=zone) - epoch)
        // timedelta(milliseconds=1)
        for day in range(FIRST, LAST)
    ]
    first = begins[epoch.toordinal() - FIRST]
    # A day that was skipped begins and ends at once.
    found = np.unique(np.array(begins, dtype=np.int64))
    return found, int(found.searchsorted(first))


def _zone(name: str) -> ZoneInfo:
    package, _, file = f"tzdata/zoneinfo/{name}".rpartition("/")
    try:
        with files(package.replace("/", ".")).joinpath(file).open("rb") as found:
            return ZoneInfo.from_file(found, key=name)
    except (ImportError, OSError, ValueError, TypeError, ZoneInfoNotFoundError):
        pass
    if not rules():
        raise TimeZoneError("the package tzdata, which has the rules of time zones, is missing")
    raise TimeZoneError(f"there is no time zone {name}; write one such as 'Europe/Berlin'")
