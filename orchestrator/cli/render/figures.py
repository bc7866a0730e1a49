"""How figures are written: three significant digits, units always, colour never alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rich.text import Text

TIGHT = 0.9
"""Share of a limit from which on a figure is marked as close to it."""


def ms(value: float | None) -> str:
    """Milliseconds.

    >>> ms(12.345), ms(231.4), ms(None)
    ('12.3 ms', '231 ms', '–')
    """
    if value is None:
        return "–"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms"


def lasting(value_ms: float) -> str:
    """How long something lasts, in the two greatest units that count.

    >>> lasting(8_196_400), lasting(600_000), lasting(2_500), lasting(12.345)
    ('2 h 17 min', '10 min', '2.5 s', '12.3 ms')
    """
    if value_ms < 1000:
        return ms(value_ms)
    if value_ms < 60_000:
        return f"{value_ms / 1000:.3g} s"
    units = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
    names = list(units)
    seconds = value_ms / 1000
    first = next(number for number, name in enumerate(names) if seconds >= units[name])
    least = units[names[min(first + 1, 3)]]
    seconds = round(seconds / least) * least
    parts: list[str] = []
    for name in names:
        whole, seconds = divmod(seconds, units[name])
        parts += [f"{whole:.0f} {name}"] if whole else []
    return " ".join(parts)


def against(value_ms: float | None, limit_ms: float) -> Text:
    """A figure and its limit, marked when it is close, over, or not to be had."""
    if value_ms is None or value_ms > limit_ms:
        style, mark = "bold red", " ✗"
    elif value_ms > TIGHT * limit_ms:
        style, mark = "yellow", " !"
    else:
        style, mark = "green", "  "
    return Text.assemble((ms(value_ms), style), f" / {ms(limit_ms)}", (mark, style))


def bytes_text(value: float) -> str:
    """Bytes with a decimal prefix.

    >>> bytes_text(512), bytes_text(23456)
    ('512 B', '23.5 KB')
    """
    for unit in ("B", "KB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def count(value: int) -> str:
    """A whole number with thousands marked.

    >>> count(284505)
    '284,505'
    """
    return f"{value:,}"


def of_bytes(done: float, whole: float | None) -> str:
    """How much has been done, of how much."""
    return f"{bytes_text(done)} of {'unknown' if whole is None else bytes_text(whole)}"


def clock(at_us: int) -> str:
    """A moment of the cluster's clock as this machine's time of day."""
    return datetime.fromtimestamp(at_us / 1e6).strftime("%H:%M:%S.%f")[:-3]


def moment(at_us: int) -> str:
    """The same with its date, in whole seconds."""
    return datetime.fromtimestamp(at_us / 1e6).strftime("%Y-%m-%d %H:%M:%S")


def event_time(at_ms: int) -> str:
    """An event timestamp as a time in UTC; in ms if no calendar reaches so far.

    >>> event_time(1_633_608_001_500), event_time(10**15)
    ('2021-10-07 12:00:01.500', '1000000000000000 ms')
    """
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    except OverflowError:
        return f"{at_ms} ms"
    return at.replace(tzinfo=None).isoformat(" ", "milliseconds")
