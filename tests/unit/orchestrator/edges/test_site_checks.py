"""What a site finds when it looks at sources and sinks before they are applied."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.edges.site_checks import EdgeChecks
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.driver import SourceDriver
from orchestrator.edges.sources.folder import Folder
from orchestrator.edges.sources.http import Http
from orchestrator.edges.sources.live.live_source import Durability
from orchestrator.edges.sources.replay import Replay
from orchestrator.records import DriverSpec, EdgeCheck, EdgeFault, SinkAssignment, SourceAssignment
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.protocol import CHECKS

COLUMNS = {"number": "int"}


class Asker:
    """Asks a site whose folder is given."""

    def __init__(self, folder: Path | None) -> None:
        self.store = MemoryServer().connect()
        self.site = EdgeChecks(self.store, "here", folder)

    def ask(self, check: EdgeCheck) -> EdgeFault | None:
        self.store.create(CHECKS.key("one"), check, ephemeral=True)
        self.site.respond()
        found = self.store.get(CHECKS.key("one"))
        assert found is not None
        assert found.record.is_done
        self.store.delete(CHECKS.key("one"), found.version)
        return found.record.fault

    def source(self, name: str, driver: SourceDriver) -> EdgeFault | None:
        assigned = SourceAssignment(
            stream="north", columns=COLUMNS, source=spec_of(name, driver), start_at_us=None
        )
        return self.ask(EdgeCheck(site="here", sources=(assigned,)))

    def sink(self, sink: DriverSpec | None) -> EdgeFault | None:
        assigned = SinkAssignment(stream="alerts", columns=COLUMNS, deadline_ms=100.0, sink=sink)
        return self.ask(EdgeCheck(site="here", sinks=(assigned,)))


@pytest.fixture
def asker(tmp_path: Path) -> Asker:
    return Asker(tmp_path / "site")


def test_a_site_responds_to_what_it_was_asked_and_only_once(asker: Asker) -> None:
    other = EdgeCheck(site="elsewhere")
    asker.store.create(CHECKS.key("other"), other)
    assert asker.ask(EdgeCheck(site="here")) is None
    assert asker.store.get(CHECKS.key("other")).record == other  # pyright: ignore[reportOptionalMemberAccess]
    done = EdgeCheck(site="here", is_done=True)
    asker.store.create(CHECKS.key("done"), done)
    asker.site.respond()
    assert asker.store.get(CHECKS.key("done")).version == 0  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"timestamp": [1000, 2000], "number": [1, 2]}, None),
        ({"timestamp": [], "number": []}, None),
        ({"timestamp": [1000], "count": [1]}, "cannot be read: column number is missing"),
        (
            {"timestamp": [1000], "number": ["x"]},
            "column number is of type string; cast it to int64",
        ),
        ({"timestamp": [10_000], "number": [1]}, "has no tuple from 1970-01-01T00:00:01Z to "),
        # On both sides, and nothing between.
        ({"timestamp": [10, 10_000], "number": [1, 2]}, "has no tuple from "),
        ({"timestamp": [2000, 1000], "number": [1, 2]}, "has timestamps that fall after row 1"),
    ],
)
def test_recording(
    asker: Asker, tmp_path: Path, columns: dict[str, list[object]], problem: str | None
) -> None:
    path = tmp_path / "r.parquet"
    replay = Replay(path=str(path), begin_ms=1000, end_ms=9000)
    missing = asker.source("replay", replay)
    assert missing is not None
    assert "No such file" in missing.problem
    # Columns without values are of no type.
    typed = {name: each or pa.array([], pa.int64()) for name, each in columns.items()}
    parquet.write_table(pa.Table.from_pydict(typed), str(path))
    found = asker.source("replay", replay)
    if problem is None:
        assert found is None
        return
    assert found is not None
    assert (found.stream, found.option, found.value) == ("north", "path", str(path))
    assert problem in found.problem
    assert found.remedy


def test_folder(asker: Asker, tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    folder = Folder(path=str(inbox))
    found = asker.source("folder", folder)
    assert found is not None
    assert (found.option, found.value, found.problem) == (
        "path",
        str(inbox),
        "is no folder at the site",
    )
    inbox.mkdir()
    assert asker.source("folder", folder) is None
    (inbox / ".b.csv").write_text("other\n1\n")
    (inbox / "c.csv").write_text("other\n1\n")
    found = asker.source("folder", folder)
    assert found is not None
    assert "has c.csv, which cannot be read: column number is missing" in found.problem
    # What comes later is refused and counted, as ever.
    (inbox / "b.csv").write_text("number\n1\n")
    assert asker.source("folder", folder) is None
    numbered = Folder(path=str(inbox), names="n-##.csv")
    assert asker.source("folder", numbered) is None
    (inbox / "n-00.csv").write_text("other\n1\n")
    assert asker.source("folder", numbered) is not None
    assert list((tmp_path / "site").glob("*")) == []


def test_a_journal_needs_a_folder_that_can_be_written(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    folder = Folder(path=str(inbox))
    found = Asker(None).source("folder", folder)
    assert found is not None
    assert (found.option, found.value) == ("durable", "machine")
    assert "needs a folder of the site for the stream's journal" in found.problem
    assert Asker(None).source("folder", Folder(path=str(inbox), durable=Durability.NOTHING)) is None
    (tmp_path / "file").write_text("")
    found = Asker(tmp_path / "file" / "site").source("folder", folder)
    assert found is not None
    assert f"{tmp_path / 'file'} is no folder" in found.problem


def test_token_file(asker: Asker, tmp_path: Path) -> None:
    token = tmp_path / "token"
    http = Http(token_file=str(token))
    token.write_text("short")
    found = asker.source("http", http)
    assert found is not None
    assert (found.option, found.value) == ("tokenFile", str(token))
    assert "fewer than 16 characters" in found.problem


def test_sinks_that_keep_files(asker: Asker, tmp_path: Path) -> None:
    assert asker.sink(None) is None
    made = tmp_path / "results" / "here"
    options = {"path": str(made)}
    assert asker.sink(DriverSpec(driver="parquet", options=options)) is None
    assert not made.parent.exists()
    made.parent.write_text("")
    found = asker.sink(DriverSpec(driver="parquet", options=options))
    assert found is not None
    assert (found.stream, found.option, found.value) == ("alerts", "path", str(made))
    assert f"{made.parent} is no folder" in found.problem
    without = Asker(None)
    assert without.sink(None) is None
    found = without.sink(DriverSpec(driver="archive"))
    assert found is not None
    assert "needs a folder of the site for what the sink archive keeps" in found.problem


def test_a_driver_that_the_site_does_not_have_is_said(asker: Asker) -> None:
    found = asker.sink(DriverSpec(driver="carrier_pigeon"))
    assert found is not None
    assert "no driver is named carrier_pigeon" in found.problem
