"""A savepoint of a cluster of six nodes goes on in one of four nodes with other names, exactly.

Two streams enter: a recording, and numbers that a client pushes. The savepoint is taken while both
flow, and the cluster goes on after it and ends. Another cluster in another folder begins with the
exported savepoint, in which the journal of what was pushed is as well. Each result of either
cluster is the one that a cluster had that was never disturbed, under the same number.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vivace as client
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import GENERATION, SEQUENCE, Delivered
from orchestrator.embedded.ports import free_port
from streams.vectors.reserved import TIMESTAMP
from tests.conftest import PATIENCE_S, WaitUntil
from tests.functional.conftest import Vivace
from tests.functional.test_restart import ok, ours

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

BEGIN_MS = 1_700_000_000_000
BEGIN = "2023-11-14T22:13:20Z"
SECONDS = 600
STEP_MS = 20
SENSORS = 7
SLIDE_MS = 1000
BATCH = 5
PAUSE_S = 0.05


def cluster_of(name: str, nodes: list[str]) -> str:
    listed = ", ".join(f"{{name: {node}, region: here}}" for node in nodes)
    return f"""kind: Cluster
name: {name}
nodes: [{listed}]
sites: [{{name: desk, region: here}}]
state: {{folder: state, every: 2 s}}
"""


REST = f"""kind: Stream
name: readings
site: desk
columns: {{sensor: int, number: int}}
rate: 10 KB/s
from: {{replay: {{path: readings.csv, begin: "{BEGIN}", end: "2023-11-14T22:23:20Z",
  interval: 100 ms}}}}
---
kind: Stream
name: pushed
site: desk
columns: {{number: int}}
rate: 10 KB/s
from: {{http: {{listen: PORT}}}}
---
kind: Query
name: kept
deadline: 10 s
recovery: 10 s
outputs: {{counts: desk, each: desk}}
statements: |
  REGISTER QUERY counts RSTREAM(SELECT sensor, count(*) AS tuples, max(number) AS newest
    FROM readings [RANGE 5 SECONDS SLIDE {SLIDE_MS} MILLISECONDS] GROUP BY sensor);
  REGISTER QUERY each RSTREAM(SELECT number FROM pushed [NOW]);
"""


def readings() -> Iterator[tuple[int, int, int]]:
    """Timestamp, sensor and number of each tuple of the recording."""
    for number in range(SECONDS * 1000 // STEP_MS):
        yield BEGIN_MS + number * STEP_MS, number * 5 % SENSORS, number


def expected(at_ms: int) -> list[tuple[int, int, int]]:
    """The counts at the end of a slide: sensor, tuples and newest, by the definition."""
    within = [(s, n) for at, s, n in readings() if at_ms - 5000 < at <= at_ms]
    sensors = sorted({sensor for sensor, _ in within})
    of = {sensor: [n for s, n in within if s == sensor] for sensor in sensors}
    return [(sensor, len(numbers), max(numbers)) for sensor, numbers in of.items()]


class Pusher:
    """A client that sends numbers, each batch until it is acknowledged."""

    def __init__(self, port: int, begin: int) -> None:
        self._address = f"http://127.0.0.1:{port}"
        self._ends = threading.Event()
        self.acknowledged = begin
        self._thread = threading.Thread(target=self._push, daemon=True)
        self._thread.start()

    def _push(self) -> None:
        stream = client.site(self._address, patience_s=PATIENCE_S).stream("pushed")
        while not self._ends.wait(PAUSE_S):
            numbers = range(self.acknowledged, self.acknowledged + BATCH)
            stream.send({"number": list(numbers)})
            self.acknowledged += BATCH

    def end(self) -> int:
        """Stop; returns the number after the last that was acknowledged."""
        self._ends.set()
        self._thread.join()
        return self.acknowledged


@pytest.fixture
def folders(tmp_path: Path, vivace: Vivace, wait_until: WaitUntil) -> Iterator[tuple[Path, Path]]:
    """Folders of the two clusters; nothing of them survives the test."""
    found = tmp_path / "six", tmp_path / "four"
    yield found
    for folder in found:
        if ours(folder):
            vivace("down")
        wait_until(lambda folder=folder: not ours(folder))


def numbers_of(data: Path) -> list[int]:
    """What `each` has delivered, in order."""
    try:
        return read_back(data / "archive", "each").rows["number"].to_pylist()
    except FileNotFoundError:
        return []


def stream_of(vivace: Vivace, name: str) -> dict[str, Any]:
    """A stream as `vivace get streams` shows it."""
    found = json.loads(ok(vivace, "get", "streams", "--json"))
    return next(each for each in found if each["stream"] == name)


def checked(delivered: Delivered) -> tuple[int, int]:
    """The counts are what they should be; first number and generation."""
    assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
    rows = delivered.rows.to_pylist()
    of: dict[int, list[tuple[int, int, int]]] = {}
    for row in rows:
        of.setdefault(row[TIMESTAMP], []).append((row["sensor"], row["tuples"], row["newest"]))
    # The first one may be cut by where the sink began.
    for at_ms in [*of][1:]:
        assert sorted(of[at_ms]) == expected(at_ms), at_ms
    (generation,) = {row[GENERATION] for row in rows}
    return rows[0][SEQUENCE], generation


def test_six_nodes_and_then_four_with_other_names(
    vivace: Vivace, folders: tuple[Path, Path], tmp_path: Path, wait_until: WaitUntil
) -> None:
    former, later = folders
    port = free_port()
    rest = tmp_path / "rest.yaml"
    rest.write_text(REST.replace("PORT", str(port)))
    with (tmp_path / "readings.csv").open("w") as file:
        file.write("timestamp,sensor,number\n")
        file.writelines(f"{at},{sensor},{number}\n" for at, sensor, number in readings())
    six, four = tmp_path / "six.yaml", tmp_path / "four.yaml"
    six.write_text(cluster_of("six", [f"n{number}" for number in range(6)]))
    four.write_text(cluster_of("four", ["anna", "bert", "carl", "dora"]))
    ok(vivace, "up", "-f", six, "--data", former)
    ok(vivace, "apply", "-f", rest)
    pusher = Pusher(port, 0)
    wait_until(lambda: len(numbers_of(former)) > 100)
    before = pusher.acknowledged
    made = json.loads(ok(vivace, "savepoint", "create", "before", "--json"))
    assert (made["state"], len(made["states"]), made["left_out"]) == ("kept", 2, {})
    copy = tmp_path / "before.tar"
    ok(vivace, "savepoint", "export", "before", copy)
    taken = len(numbers_of(former))
    wait_until(lambda: len(numbers_of(former)) > taken + 100)
    pusher.end()
    ok(vivace, "down")
    wait_until(lambda: not ours(former))

    # Nothing but the savepoint goes to the other folder, not even the journal.
    ok(vivace, "up", "-f", four, "--data", later, "--from", copy)
    wait_until(lambda: numbers_of(later)[-1:] >= [before - 1])
    entered = stream_of(vivace, "pushed")["entered"]
    assert entered >= before
    pusher = Pusher(port, entered)
    wait_until(lambda: pusher.acknowledged > entered + 100)
    acknowledged = pusher.end()
    wait_until(lambda: acknowledged - 1 in numbers_of(later))
    one, other = numbers_of(former), numbers_of(later)
    assert one == [*range(len(one))]
    assert other == [*range(other[0], acknowledged)]
    assert other[0] <= entered
    kinds = {
        each["kind"] for each in json.loads(ok(vivace, "history", "-n", "200", "--json"))["history"]
    }
    assert "restored" in kinds
    assert "state lost" not in kinds
    wait_until(lambda: read_back(later / "archive", "counts").rows.num_rows > 100)
    found = [read_back(data / "archive", "counts") for data in (former, later)]
    (first, generation), (again, same) = (checked(each) for each in found)
    assert (first, same) == (0, generation)
    assert again <= found[0].rows.num_rows
    # Where both clusters have a number, it names the same tuple.
    of_number = [{row[SEQUENCE]: row for row in each.rows.to_pylist()} for each in found]
    for number in of_number[0].keys() & of_number[1].keys():
        assert of_number[0][number] == of_number[1][number]
    ok(vivace, "down")
