"""Events of NEXMark: persons, auctions and bids of an auction house.

After the generator of Apache Beam: of 50 events in a row the first is a person, the next three are
auctions and the other 46 bids. Sellers, bidders and auctions are hot ones by the same chances, and
else any of those that are active; some bids are for auctions that do not exist yet. What differs:
whole columns are drawn at once, and random texts are picked out of some thousand ones.

    python -m bench.nexmark_events [FOLDER [EVENTS]]

writes `nexmark-{persons,auctions,bids}.parquet`, which `examples/nexmark/streams.yaml` replays.

References
----------
Tucker, Tufte, Papadimos, Maier, *NEXMark: a benchmark for queries over data streams*, 2008. Apache
Beam, `sdks/java/testing/nexmark`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.report import ROOT
from foundation.arrays import IntArray

EVENTS = 1_000_000
BEGIN_MS = 1_609_498_800_000
"""2021-01-01, 11:00 UTC."""

EVENTS_MS = 10
"""Events of a millisecond."""

PERSONS, AUCTIONS, TOGETHER = 1, 3, 50
"""Of `TOGETHER` events so many are persons and auctions, the others bids."""

ACTIVE_PERSONS, IN_FLIGHT_AUCTIONS = 1_000, 100
PERSON_LEAD = AUCTION_LEAD = 10
"""Ids of so many persons and auctions to come are in use too."""

FIRST_PERSON = FIRST_AUCTION = 1_000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_AUCTIONS, HOT_SELLERS, HOT_BIDDERS = 2, 4, 4
"""All but one of so many name a hot one."""

HOT = 100
"""One of so many is hot."""

CHANNELS, TEXTS = 10_000, 1_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")

_states = ("AZ", "CA", "ID", "OR", "WA", "WY")
_cities = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond"),
    *("Seattle", "Kent", "Cheyenne"),
)
_first_names = (
    *("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter"),
    "Walter",
)
_last_names = (
    *("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"),
)
_letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)


class Events:
    """Draws events; equal seeds give equal ones.

    Parameters
    ----------
    count
        Number of events.
    """

    def __init__(self, count: int, seed: int = 1) -> None:
        self._rng = np.random.default_rng(seed)
        self._numbers = np.arange(count, dtype=np.int64)

    def tables(self) -> Mapping[str, pa.Table]:
        """The tables of persons, auctions and bids, each with its timestamps, ms, first."""
        return {"persons": self.persons(), "auctions": self.auctions(), "bids": self.bids()}

    def persons(self) -> pa.Table:
        """Those who sell and bid."""
        numbers = self._numbers[self._numbers % TOGETHER < PERSONS]
        names = [f"{first} {last}" for first in _first_names for last in _last_names]
        digits = self._rng.integers(10**4, size=(TEXTS, 4))
        cards = [" ".join(f"{four:04}" for four in card) for card in digits.tolist()]
        return pa.Table.from_pydict(
            {
                "timestamp": _times_ms(numbers),
                "id": _last_person(numbers) + FIRST_PERSON,
                "name": self._any(names, len(numbers)),
                "email": self._any(
                    [f"{name}@{host}.com" for name, host in self._pairs(7, 5)], len(numbers)
                ),
                "credit_card": self._any(cards, len(numbers)),
                "city": self._any(_cities, len(numbers)),
                "state": self._any(_states, len(numbers)),
                "extra": self._any(self._texts(100), len(numbers)),
            }
        )

    def auctions(self) -> pa.Table:
        """What is sold."""
        rng = self._rng
        within = self._numbers % TOGETHER
        numbers = self._numbers[(within >= PERSONS) & (within < PERSONS + AUCTIONS)]
        count = len(numbers)
        times_ms = _times_ms(numbers)
        # How long it takes until as many auctions as are in flight have begun.
        horizon_ms = IN_FLIGHT_AUCTIONS * TOGETHER // AUCTIONS // EVENTS_MS
        lengths_ms = 1 + rng.integers(max(2 * horizon_ms, 1), size=count)
        initial = self._prices(count)
        sellers = self._persons(numbers, HOT_SELLERS, 0)
        return pa.Table.from_pydict(
            {
                "timestamp": times_ms,
                "id": _last_auction(numbers) + FIRST_AUCTION,
                "item": self._any(self._texts(20), count),
                "description": self._any(self._texts(100), count),
                "initial_bid": initial,
                "reserve": initial + self._prices(count),
                "expires": times_ms + lengths_ms,
                "seller": sellers,
                "category": FIRST_CATEGORY + rng.integers(CATEGORIES, size=count),
                "extra": self._any(self._texts(100), count),
            }
        )

    def bids(self) -> pa.Table:
        """What is bid, on which page."""
        rng = self._rng
        numbers = self._numbers[self._numbers % TOGETHER >= PERSONS + AUCTIONS]
        count = len(numbers)
        last = _last_auction(numbers)
        first = np.maximum(last - IN_FLIGHT_AUCTIONS, 0)
        active = first + rng.integers(last - first + 1 + AUCTION_LEAD)
        hot = rng.integers(HOT_AUCTIONS, size=count) > 0
        channels, pages = self._channels()
        channel = rng.integers(CHANNELS, size=count)
        is_hot = rng.integers(2, size=count) > 0
        channel = np.where(is_hot, CHANNELS + rng.integers(len(HOT_CHANNELS), size=count), channel)
        return pa.Table.from_pydict(
            {
                "timestamp": _times_ms(numbers),
                "auction": np.where(hot, last // HOT * HOT, active) + FIRST_AUCTION,
                "bidder": self._persons(numbers, HOT_BIDDERS, 1),
                "price": self._prices(count),
                "channel": pa.array(channels).take(pa.array(channel)),
                "url": pa.array(pages).take(pa.array(channel)),
                "extra": self._any(self._texts(60), count),
            }
        )

    def _channels(self) -> tuple[list[str], list[str]]:
        """Channels and their pages, the hot ones last."""
        numbers = range(CHANNELS + len(HOT_CHANNELS))
        pages = [
            f"https://www.nexmark.com/{one}/{two}/{one[:2]}{two}/item.htm?query=1"
            for (one, two), _ in zip(self._pairs(5, 5, len(numbers)), numbers, strict=True)
        ]
        named = self._rng.integers(10, size=CHANNELS) > 0
        for number in np.flatnonzero(named).tolist():
            pages[number] += f"&channel_id={number * 2654435761 % 2**31}"
        return [f"channel-{number}" for number in range(CHANNELS)] + list(HOT_CHANNELS), pages

    def _persons(self, numbers: IntArray, hot: int, of_hot: int) -> IntArray:
        """Ids of persons that are hot, or else active."""
        last = _last_person(numbers)
        active = np.minimum(last + 1, ACTIVE_PERSONS)
        any_active = last + 1 - active + self._rng.integers(active + PERSON_LEAD)
        is_hot = self._rng.integers(hot, size=len(numbers)) > 0
        return np.where(is_hot, last // HOT * HOT + of_hot, any_active) + FIRST_PERSON

    def _prices(self, count: int) -> IntArray:
        return np.round(10 ** (self._rng.random(count) * 6) * 100).astype(np.int64)

    def _texts(self, most: int) -> list[str]:
        """Random texts."""
        letters = _letters[self._rng.integers(len(_letters), size=(TEXTS, most))]
        lengths = self._rng.integers(most // 2, most + 1, TEXTS)
        rows = zip(letters, lengths.tolist(), strict=True)
        return [row[:length].tobytes().decode() for row, length in rows]

    def _pairs(self, one: int, other: int, count: int = TEXTS) -> list[tuple[str, str]]:
        letters = _letters[self._rng.integers(len(_letters), size=(count, one + other))]
        texts = [row.tobytes().decode() for row in letters]
        return [(text[:one], text[one:]) for text in texts]

    def _any(self, texts: Sequence[str], count: int) -> pa.Array:
        return pa.array(texts).take(pa.array(self._rng.integers(len(texts), size=count)))


def _times_ms(numbers: IntArray) -> IntArray:
    return BEGIN_MS + numbers // EVENTS_MS


def _last_person(numbers: IntArray) -> IntArray:
    """The person of each event, or the last one before it, counted from 0."""
    return numbers // TOGETHER * PERSONS


def _last_auction(numbers: IntArray) -> IntArray:
    """The auction of each event, or the last one before it, counted from 0; none counts as 0."""
    within = np.clip(numbers % TOGETHER - PERSONS, -1, AUCTIONS - 1)
    return np.maximum(numbers // TOGETHER * AUCTIONS + within, 0)


def write(folder: Path, events: int = EVENTS, seed: int = 1) -> None:
    """One recording for each stream."""
    folder.mkdir(parents=True, exist_ok=True)
    for stream, table in Events(events, seed).tables().items():
        parquet.write_table(table, folder / f"nexmark-{stream}.parquet")


if __name__ == "__main__":
    write(
        Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "data",
        int(sys.argv[2]) if len(sys.argv) > 2 else EVENTS,
    )
