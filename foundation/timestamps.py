"""Event timestamps as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def timestamp_text(at_ms: int) -> str:
    """A timestamp as people write it.

    Before all calendars, as before the first tuple, it is "the beginning"; after them it is in ms.

    >>> timestamp_text(1_633_608_001_500)
    '2021-10-07T12:00:01.500Z'
    """
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(at_ms))
    except OverflowError:
        return "the beginning" if at_ms < 0 else f"{at_ms} ms"
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03}Z"
