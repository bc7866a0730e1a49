"""Out of Kafka, through a query, into Kafka, while the whole cluster is killed: all once."""

from __future__ import annotations

import random
import time
from pathlib import Path

import msgspec
import pytest

from tests.conftest import WaitUntil
from tests.functional.conftest import Vivace
from tests.functional.test_restart import data, kill_everything, ok
from tests.mock_kafka import PARTITIONS, MockKafka
from tests.round_trip.conftest import Say
from tests.round_trip.market import STATEMENTS, expected
from tests.round_trip.test_kafka import MANIFESTS, OUTPUTS, SOURCE, Market, kafka, rows

__all__ = ["data", "kafka"]

pytestmark = [
    pytest.mark.round_trip,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

KILLS = 2
LATEST_S = 10.0
"""A kill comes so long after results flow again, at most."""


def written(kafka: MockKafka, topic: str) -> list[bytes]:
    return [value for own in kafka.read(topic).values() for value, _ in own]


def test_a_topic_has_each_result_once_however_often_every_process_is_killed(
    kafka: MockKafka,
    vivace: Vivace,
    data: Path,
    tmp_path: Path,
    dice: random.Random,
    say: Say,
    wait_until: WaitUntil,
) -> None:
    source = SOURCE.format(brokers=kafka.brokers, partitions=PARTITIONS)
    text = MANIFESTS.format(kafka=source, brokers=kafka.brokers, statements=STATEMENTS)
    cluster, rest = tmp_path / "cluster.yaml", tmp_path / "rest.yaml"
    for file, part in zip((cluster, rest), text.split("---\n", 1), strict=True):
        file.write_text(part)
    cluster.write_text(cluster.read_text() + "state: {folder: state, every: 2 s}\n")

    def has(number: int) -> bool:
        """Whether there is a result of this trade, or of a later one."""
        found = (msgspec.json.decode(value)["number"] for value in written(kafka, "spreads"))
        return max(found, default=-1) >= number

    ok(vivace, "up", "--file", cluster, "--data", data)
    ok(vivace, "apply", "--file", rest)
    market = Market(kafka.brokers)
    wait_until(lambda: has(500))
    for kill in range(KILLS):
        time.sleep(dice.uniform(0.0, LATEST_S))
        say("killed", f"everything, the {kill + 1}. time, after {market.trades} trades")
        kill_everything(tmp_path / "home", data, wait_until)
        killed, began_s = market.trades, time.monotonic()
        ok(vivace, "up", "--file", cluster, "--data", data)
        wait_until(lambda killed=killed: has(killed))
        say("results again", f"after {time.monotonic() - began_s:.0f} s")
    market.end()
    wanted = expected(market.trades)
    say("wanted", str({name: len(rows) for name, rows in wanted.items()}))
    wait_until(lambda: all(len(written(kafka, name)) >= len(wanted[name]) for name in wanted))
    for each in msgspec.json.decode(ok(vivace, "history", "--json", "--limit", "1000"))["history"]:
        assert each["kind"] not in ("state lost", "input lost"), each
    ok(vivace, "down")
    for name, column in OUTPUTS.items():
        assert sorted(rows(written(kafka, name), column)) == wanted[name], name
