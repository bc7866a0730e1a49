"""What goes round: trades joined with the newest quote of their symbol, and sums of each second.

Prices are multiples of a quarter, so that sums of them are exact in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BASE_MS = 1_700_000_000_000
TRADE_EVERY_MS, QUOTE_EVERY_MS = 5, 25
WINDOW_MS = 1000
SYMBOLS = 8
TRADES_OF_QUOTE = QUOTE_EVERY_MS // TRADE_EVERY_MS
END_MS = 10_000
"""How long after the last trade those have their timestamp which end the streams."""

STATEMENTS = """\
  REGISTER QUERY spreads RSTREAM(
    SELECT t.symbol AS symbol, t.number AS number, t.price - q.bid AS spread
    FROM trades [NOW] AS t, quotes [PARTITION BY symbol ROWS 1] AS q
    WHERE t.symbol = q.symbol);
  REGISTER QUERY seconds RSTREAM(
    SELECT symbol, count(*) AS n, sum(spread) AS total
    FROM spreads [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY symbol);
"""

Row = tuple[int, str, int, float]
"""Of `spreads`: timestamp, symbol, number of the trade, spread. Of `seconds`: timestamp, symbol,
number of spreads, sum of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trade:
    """A trade; `number` counts them."""

    at: int
    symbol: str
    number: int
    price: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A quote, which holds until the next one of its symbol."""

    at: int
    symbol: str
    bid: float


def trade(number: int) -> Trade:
    """Trade of that number."""
    symbol = f"S{number % SYMBOLS}"
    at = BASE_MS + TRADE_EVERY_MS * number
    return Trade(at=at, symbol=symbol, number=number, price=number % 401 / 4)


def quote(number: int) -> Quote:
    """Quote of that number."""
    symbol = f"S{number % SYMBOLS}"
    return Quote(at=BASE_MS + QUOTE_EVERY_MS * number, symbol=symbol, bid=number % 97 / 4)


def spreads(trades: Sequence[Trade], quotes: Sequence[Quote]) -> list[Row]:
    """Each trade with the newest quote of its symbol up to then; inputs in order."""
    found: list[Row] = []
    newest: dict[str, float] = {}
    waiting = list(reversed(quotes))
    for each in trades:
        while waiting and waiting[-1].at <= each.at:
            held = waiting.pop()
            newest[held.symbol] = held.bid
        if (bid := newest.get(each.symbol)) is not None:
            found.append((each.at, each.symbol, each.number, each.price - bid))
    return found


def seconds(rows: Sequence[Row]) -> list[Row]:
    """Number and sum of the spreads of each symbol in each second that has some; sorted."""
    found: dict[tuple[int, str], tuple[int, float]] = {}
    for at, symbol, _, spread in rows:
        end = -(-at // WINDOW_MS) * WINDOW_MS
        n, total = found.get((end, symbol), (0, 0.0))
        found[end, symbol] = n + 1, total + spread
    return sorted((end, symbol, n, total) for (end, symbol), (n, total) in found.items())


def expected(trades: int) -> dict[str, list[Row]]:
    """The results of so many trades, and the quotes of their time; sorted."""
    quotes = -(-trades // TRADES_OF_QUOTE)
    found = spreads([trade(n) for n in range(trades)], [quote(n) for n in range(quotes)])
    return {"spreads": sorted(found), "seconds": seconds(found)}
