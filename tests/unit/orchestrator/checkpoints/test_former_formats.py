"""What former versions have kept is read by this one: journals, savepoints, and states as they
travel between hosts and lie in checkpoints.

`golden/` has a file of every number of a format there ever was. Whoever raises one of them adds a
file by `python -m tests.unit.orchestrator.checkpoints.test_former_formats`, which leaves those that
are there as they are. (Files of checkpoints themselves: `test_checkpoint_file.py`.)
"""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ha.messages import Data, Snapshot
from ha.replica import Replica
from ha.roles import RoleEvent
from orchestrator.checkpoints.savepoint import ExportedFiles, Savepoint
from orchestrator.checkpoints.savepoint_index import FORMAT
from orchestrator.edges.sources.live.journal import Commit, Journal
from orchestrator.host.shell.wire import decode, encode
from orchestrator.records.versions import LEAST_WIRE, WIRE_VERSION
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import Chunk, Position, stream_schema
from tests.saved_cluster import SavedCluster

GOLDEN = Path(__file__).parent / "golden"

COLUMNS = {"key": "int", "value": "int"}
SCHEMA = stream_schema(COLUMNS)

STATEMENTS = {
    "filter": "RSTREAM(SELECT key FROM s [NOW] WHERE value > 3)",
    "groups": "ISTREAM(SELECT key, sum(value) AS total FROM s [RANGE 3 SECONDS] GROUP BY key)",
    "panes": "RSTREAM(SELECT key, count(*) AS n, max(value) AS most FROM s "
    "[RANGE 4 SECONDS SLIDE 1 SECONDS] GROUP BY key)",
    "rows": "RSTREAM(SELECT avg(value) AS mean FROM s [ROWS 5])",
    "newest": "ISTREAM(SELECT key, value FROM s [PARTITION BY key ROWS 2])",
    "session": "RSTREAM(SELECT key, count(*) AS n FROM s [SESSION 2 SECONDS] GROUP BY key)",
    "join": "RSTREAM(SELECT l.value AS value FROM s [NOW] AS l, s [RANGE 2 SECONDS] AS r "
    "WHERE l.key = r.key AND l.value > r.value)",
}
"""A state of each way to evaluate a statement."""


def part(seconds: range) -> Chunk:
    """The tuples of some seconds, three in each."""
    times = [1000 * second for second in seconds for _ in range(3)]
    numbers = [3 * second + each for second in seconds for each in range(3)]
    rows = {
        "_ts": times,
        "key": [number % 4 for number in numbers],
        "value": [number * 7 % 11 for number in numbers],
    }
    watermarks_ms = np.array([1000 * second for second in seconds], dtype=np.int64)
    return Chunk(
        first_seq=3 * seconds[0],
        rows=pa.RecordBatch.from_pydict(rows, schema=SCHEMA),
        watermarks_ms=watermarks_ms,
        ingestion_times_us=watermarks_ms * 1000,
    )


class Evaluated:
    """A statement that is evaluated over all tuples, or goes on from a state after half of them."""

    def __init__(self, statement: str) -> None:
        (parsed,) = parse(f"REGISTER QUERY f {statement};")
        program = compile_statement(parsed, {"s": COLUMNS})
        self.replica = Replica(program, {"s": SCHEMA}, epoch=3, generation=3)

    def begin(self) -> None:
        """Begin with the first tuple."""
        self.replica.apply(RoleEvent.FOUNDED, 3)
        self.replica.inputs["s"].cursor.start(Position(), 1)

    def read(self, seconds: range) -> None:
        """Evaluate the tuples of some seconds."""
        self.replica.receive(Data(stream="s", epoch=1, generation=1, chunk=part(seconds)))
        self.replica.evaluate(1000)

    def output(self) -> list[dict[str, object]]:
        """All of it that is in the log."""
        return [row for each in self.replica.log.chunks() for row in each.rows.to_pylist()]


HALF, REST = range(8), range(8, 16)


def snapshot(statement: str) -> Snapshot:
    evaluated = Evaluated(statement)
    evaluated.begin()
    evaluated.read(HALF)
    found = evaluated.replica.snapshot()
    assert found is not None
    return found


@pytest.mark.parametrize("wire", range(LEAST_WIRE, WIRE_VERSION + 1))
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_replica_goes_on_from_a_state_of_every_wire_that_is_spoken(name: str, wire: int) -> None:
    undisturbed = Evaluated(STATEMENTS[name])
    undisturbed.begin()
    undisturbed.read(HALF)
    undisturbed.read(REST)
    kept = json.loads((GOLDEN / f"wire-{wire}.json").read_text())[name]
    other = Evaluated(STATEMENTS[name])
    schemas = {"s": SCHEMA, "f": other.replica.log.schema}
    found = decode([base64.b64decode(each) for each in kept], lambda stream: schemas[stream])
    assert isinstance(found, Snapshot)
    assert other.replica.install(found)
    other.replica.inputs["s"].cursor.start(part(HALF).end, 1)
    other.read(REST)
    assert other.output() == undisturbed.output()
    assert other.replica.engine.snapshot() == undisturbed.replica.engine.snapshot()


def write_journal(folder: Path) -> None:
    journal = Journal(folder, SCHEMA, retain_bytes=2**20)
    for seconds, waiting in ((HALF, part(range(20, 21)).rows), (REST, None)):
        journal.append(
            Commit(
                chunks=(part(seconds),),
                waiting=waiting,
                watermark_ms=1000 * seconds[-1],
                newest_ms=20_000,
                clients=[("client", seconds[-1], None)],
            )
        )
    journal.close()


def test_the_journals_so_far_can_be_read(tmp_path: Path) -> None:
    folders = sorted(GOLDEN.glob("journal-*"))
    assert folders
    for folder in folders:
        copy = shutil.copytree(folder, tmp_path / folder.name)
        journal = Journal(copy, SCHEMA, retain_bytes=2**20)
        assert journal.end == part(REST).end
        found: list[dict[str, object]] = []
        cut = journal.retained
        while (piece := journal.read(cut, journal.end)) is not None:
            found += piece.rows.to_pylist()
            cut = piece.end
        assert found == part(HALF).rows.to_pylist() + part(REST).rows.to_pylist()
        journal.close()


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
def test_every_format_of_savepoints_so_far_can_be_read(version: int) -> None:
    savepoint = Savepoint(ExportedFiles(GOLDEN / f"savepoint-{version}.tar"))
    fragments = {each.fragment for each in savepoint.check()}
    assert fragments == {each.fragment for each in savepoint.index.saved}
    assert {each.name for each in savepoint.index.queries} == {"proximity"}
    assert len(fragments) == 3
    for fragment in fragments:
        state = savepoint.state_of(fragment)
        assert state is not None
        assert state[1] == [fragment.encode(), b"state"]


def write_golden() -> None:
    """Add the files of this version's formats, if they are not there."""
    if not (file := GOLDEN / f"wire-{WIRE_VERSION}.json").exists():
        states = {
            name: [base64.b64encode(frame).decode() for frame in encode(snapshot(statement))]
            for name, statement in STATEMENTS.items()
        }
        file.write_text(json.dumps(states, indent=1) + "\n")
    if not (folder := GOLDEN / "journal-1").exists():
        write_journal(folder)
        (folder / "lock").unlink()
    if not (file := GOLDEN / f"savepoint-{FORMAT}.tar").exists():
        with tempfile.TemporaryDirectory() as work:
            SavedCluster(Path(work) / "state").save().export(file, lambda _: None)


if __name__ == "__main__":
    write_golden()
