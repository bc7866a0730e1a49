"""Quantities as people write them: a number and a unit.

Decimal prefixes count in thousands, binary ones (`KiB`) in 1,024s; memory sizes also take Spark's
single letters, which are binary there too: `512m`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

_quantity = re.compile(
    r"\s*([+-]?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([^\s0-9].*?)\s*"
)

_durations_ms = {
    "us": 1e-3,
    "µs": 1e-3,
    "ms": 1.0,
    "s": 1e3,
    "min": 60e3,
    "h": 3600e3,
}

_sizes_bytes = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}

_server = re.compile(r"(?:[^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
"""Name or address, in brackets if it is an IPv6 one, and the port."""

MAX_PORT = 65535

LONGEST_MS = 100 * 365.25 * 24 * 3600e3
"""A hundred years: times of the store are µs in 64 bits, and some are sums of several."""

MOST_BYTES = 2.0**50
"""A pebibyte: more than any host has, or any stream brings in a second."""

_memory_bytes = {**_sizes_bytes, "k": 2**10, "m": 2**20, "g": 2**30}


class UnitError(ValueError):
    """Text that is not a quantity of the expected kind: the problem, then the remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy


def duration_ms(text: str) -> float:
    """Milliseconds.

    >>> duration_ms("1.5 s")
    1500.0
    """
    return _parse(text, "a duration", _durations_ms, "300 ms", LONGEST_MS)


def figure(value: float) -> str:
    """A figure for people: three digits that count, thousands marked, never an exponent.

    >>> figure(1974.2), figure(231.4), figure(12.345), figure(0.00004), figure(300.0)
    ('1,974', '231', '12.3', '0', '300')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else "0"


def rate_bytes_s(text: str) -> float:
    """Bytes a second.

    >>> rate_bytes_s("150 KB/s")
    150000.0
    """
    rates = {f"{unit}/s": factor for unit, factor in _sizes_bytes.items()}
    return _parse(text, "a rate", rates, "150 KB/s", MOST_BYTES)


def memory_bytes(text: str) -> int:
    """Bytes of memory.

    >>> memory_bytes("512m")
    536870912
    """
    return int(_parse(text, "a size", _memory_bytes, "512m", MOST_BYTES))


def timestamp_ms(text: str) -> int:
    """Milliseconds since 1970, of an ISO 8601 time with its offset from UTC.

    >>> timestamp_ms("2021-10-07T12:00:01Z")
    1633608001000
    """
    example = "2021-10-07T12:00:01Z"
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UnitError("is not a time", f'Write it as in "{example}".') from None
    if time.tzinfo is None:
        raise UnitError("does not say its time zone", f'Write it as in "{example}".')
    return round(time.timestamp() * 1000)


def _parse(text: str, what: str, units: Mapping[str, float], example: str, most: float) -> float:
    match = _quantity.fullmatch(text)
    if match is None:
        raise UnitError(f"is not {what}", f'Write a number and a unit, such as "{example}".')
    number, unit = match.groups()
    if unit not in units:
        raise UnitError(
            f"has an unknown unit, {unit!r}", f'Use one of {", ".join(units)}, as in "{example}".'
        )
    value = float(number.replace("_", "")) * units[unit]
    if abs(value) > most:
        raise UnitError("is too large", f'Write a number and a unit, such as "{example}".')
    if value < 0:
        raise UnitError("is negative", f"{what.capitalize()} is never negative.")
    return value


def servers(text: str) -> str:
    """Addresses of ZooKeeper servers, which may be followed by the folder of all their records.

    >>> servers("zk-0:2181,zk-1:2181/team")
    'zk-0:2181,zk-1:2181/team'
    """
    for server in text.partition("/")[0].split(","):
        found = _server.fullmatch(server.strip())
        if found is None or int(found[1] or 0) > MAX_PORT:
            raise UnitError(
                f"has no address in {server!r}", "Write host:port, several separated by commas."
            )
    return text
