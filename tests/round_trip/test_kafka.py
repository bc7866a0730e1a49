"""Out of Kafka, through a query, into Kafka, while ten processes are killed: all once."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer

from bench.cluster import running
from orchestrator.manifest import load
from tests.conftest import PATIENCE_S, WaitUntil
from tests.mock_kafka import PARTITIONS, MockKafka
from tests.round_trip.conftest import Say
from tests.round_trip.kills import kill_executor, kill_site
from tests.round_trip.market import (
    END_MS,
    STATEMENTS,
    TRADES_OF_QUOTE,
    Row,
    expected,
    quote,
    trade,
)

pytestmark = [
    pytest.mark.round_trip,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

KILLS = 10
REST_S = 4.0
"""The longest rest between two kills."""

BURST_S = 0.02
NODES = ("one", "two", "three")
SITES = ("north", "south", "exit")
OUTPUTS = {"spreads": "number", "seconds": "n"}

MANIFESTS = """\
kind: Cluster
name: round
nodes: [one, two, three]
sites: [north, south, exit]
executorMemory: 512m
---
kind: Stream
name: trades
sites: [north, south]
columns: {{symbol: string, number: int, price: float}}
rate: 20 KB/s
from: {{kafka: {{{kafka}, topic: trades}}}}
---
kind: Stream
name: quotes
site: south
columns: {{symbol: string, bid: float}}
rate: 4 KB/s
from: {{kafka: {{{kafka}, topic: quotes}}}}
---
kind: Query
name: market
deadline: 5 s
recovery: 1 s
outputs:
  spreads: {{site: exit, to: {{kafka: {{brokers: "{brokers}", topic: spreads, key: symbol}}}}}}
  seconds: {{site: exit, to: {{kafka: {{brokers: "{brokers}", topic: seconds, key: symbol}}}}}}
statements: |
{statements}"""

SOURCE = (
    'brokers: "{brokers}", timestamp: {{column: at, format: ms}}, partitions: {partitions}, '
    "idleAfter: off, maxAhead: off"
)


class Market:
    """Sends trades and quotes until it is told to end.

    Attributes
    ----------
    trades
        How many have been sent.
    """

    def __init__(self, brokers: str) -> None:
        self.trades = 0
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 1})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End the streams with trades and quotes that complete all others and never enter.

        Partitions wait for each other, and the newest timestamp stays open.
        """
        self._ended.set()
        self._thread.join()
        for partition in range(PARTITIONS):
            for topic, last in (("trades", trade(self.trades)), ("quotes", quote(0))):
                row = asdict(last) | {"at": trade(self.trades).at + END_MS}
                self._producer.produce(topic, msgspec.json.encode(row), partition=partition)
        assert not self._producer.flush(PATIENCE_S)

    def _run(self) -> None:
        begun = time.monotonic()
        while not self._ended.wait(BURST_S):
            # As fast as the trades' own time.
            due = (time.monotonic() - begun) * 1000 / (trade(1).at - trade(0).at)
            while self.trades < due:
                if self.trades % TRADES_OF_QUOTE == 0:
                    self._send("quotes", self.trades // TRADES_OF_QUOTE)
                self._send("trades", self.trades)
                self.trades += 1
            self._producer.poll(0)

    def _send(self, topic: str, number: int) -> None:
        row = asdict(trade(number) if topic == "trades" else quote(number))
        self._producer.produce(topic, msgspec.json.encode(row), partition=number % PARTITIONS)


class Reader:
    """The process that consumes the results."""

    def __init__(self, brokers: str, database: Path) -> None:
        self._command = [
            sys.executable,
            str(Path(__file__).with_name("consumer.py")),
            brokers,
            str(database),
            *OUTPUTS,
        ]
        self._database = database
        self._process = subprocess.Popen(self._command)

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self._process = subprocess.Popen(self._command)

    def found(self) -> dict[str, list[bytes]]:
        """The messages of each output that it has."""
        assert self._process.poll() is None, "the consumer has failed"
        with sqlite3.connect(f"file:{self._database}?mode=ro", uri=True) as kept:
            rows = kept.execute("SELECT topic, value FROM messages").fetchall()
        found: dict[str, list[bytes]] = {name: [] for name in OUTPUTS}
        for topic, value in rows:
            found[topic].append(value)
        return found


@pytest.fixture
def kafka() -> MockKafka:
    made = MockKafka()
    for topic in ("trades", "quotes", *OUTPUTS):
        made.create(topic)
    return made


@pytest.fixture
def reader(kafka: MockKafka, tmp_path: Path, wait_until: WaitUntil) -> Iterator[Reader]:
    database = tmp_path / "consumed.sqlite"
    made = Reader(kafka.brokers, database)
    wait_until(lambda: database.exists() and database.stat().st_size > 0)
    yield made
    made.kill()


def test_each_result_is_there_once_whichever_ten_processes_are_killed(
    kafka: MockKafka,
    reader: Reader,
    tmp_path: Path,
    dice: random.Random,
    say: Say,
    wait_until: WaitUntil,
) -> None:
    manifests = tmp_path / "round.yaml"
    source = SOURCE.format(brokers=kafka.brokers, partitions=PARTITIONS)
    manifests.write_text(
        MANIFESTS.format(kafka=source, brokers=kafka.brokers, statements=STATEMENTS)
    )
    market = Market(kafka.brokers)
    with running(load([manifests]), tmp_path / "work", say) as cluster:
        for kill in chosen(dice):
            time.sleep(dice.uniform(0.2, REST_S))
            say("killed", kill)
            if kill in SITES:
                kill_site(cluster.store, kill)
            elif kill in NODES:
                kill_executor(cluster.store, kill)
            else:
                reader.restart()
        market.end()
        wanted = expected(market.trades)
        say("wanted", str({name: len(rows) for name, rows in wanted.items()}))
        wait_until(lambda: all(len(reader.found()[name]) >= len(wanted[name]) for name in wanted))
    for name, column in OUTPUTS.items():
        # What the topic has once the sites have ended; the consumer has had as many before.
        written = [value for own in kafka.read(name).values() for value, _ in own]
        assert sorted(rows(written, column)) == wanted[name], name
        assert sorted(reader.found()[name]) == sorted(written), name


def chosen(dice: random.Random) -> list[str]:
    """What is killed, in turn: each kind of process at least twice."""
    kinds = [SITES, NODES, ("consumer",)]
    picked = [dice.choice(kind) for kind in kinds * 2]
    picked += [dice.choice(dice.choice(kinds)) for _ in range(KILLS - len(picked))]
    dice.shuffle(picked)
    return picked


def rows(messages: list[bytes], column: str) -> list[Row]:
    """Results out of messages; their numbers must be those of one generation, without a gap."""
    found = [msgspec.json.decode(message) for message in messages]
    assert sorted(row["_seq"] for row in found) == list(range(len(found)))
    value = "spread" if column == "number" else "total"
    return [(row["_ts"], row["symbol"], row[column], row[value]) for row in found]
