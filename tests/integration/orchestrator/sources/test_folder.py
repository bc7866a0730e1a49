"""A folder that grows: each file once, in the order of the names, whenever the site is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.drivers import DriverError
from orchestrator.records import SourceAssignment, SourceSpec
from orchestrator.sources import folder as driver
from orchestrator.sources.driver import SourceContext
from orchestrator.sources.folder import Folder
from orchestrator.sources.live_input import JournaledInput
from streams.chunk import NO_WATERMARK
from tests.conftest import WaitUntil


class Site:
    def __init__(self, folder: Path) -> None:
        self.inbox = folder / "inbox"
        self.inbox.mkdir()
        self._archive = folder / "archive"
        self.numbers: list[int] = []
        self.source: JournaledInput | None = None

    def open(self) -> JournaledInput:
        options = Folder(path=str(self.inbox), every_ms=5, time_column="number", time_format="ms")
        assigned = SourceAssignment(
            stream="s",
            columns={"number": "int"},
            source=SourceSpec(driver="folder", resumable=True, waits=True),
            start_at_us=None,
        )
        context = SourceContext(folder=self._archive, clock_us=lambda: 10**12)
        source = options.open(assigned, context)
        assert isinstance(source, JournaledInput)
        source.seek(NO_WATERMARK)
        self.source, self.numbers = source, []
        return source

    def put(self, name: str, *numbers: int) -> None:
        hidden = self.inbox / f".{name}"
        hidden.write_text("".join(f"{line}\n" for line in ("number", *numbers)))
        hidden.rename(self.inbox / name)

    def entered(self) -> list[int]:
        assert self.source is not None
        while (emitted := self.source.emit(0, 10**12)) is not None:
            self.numbers += emitted.rows.column(1).to_pylist()
        return self.numbers

    def close(self) -> None:
        if self.source is not None:
            self.source.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def test_files_enter_in_the_order_of_their_names_and_late_names_are_refused(
    site: Site, wait_until: WaitUntil
) -> None:
    site.put("b.csv", 3, 4)
    site.put("a.csv", 1, 2)
    (site.inbox / "_SUCCESS").touch()
    source = site.open()
    wait_until(lambda: site.entered() == [1, 2, 3])
    site.put("d.csv", 7)
    wait_until(lambda: site.entered() == [1, 2, 3, 4])
    site.put("c.csv", 9)
    wait_until(lambda: source.status.malformed == 1)
    assert "comes after d.csv" in str(source.status.last_rejected)
    (site.inbox / "e.csv").write_text("count\n1\n")
    wait_until(lambda: source.status.malformed == 2)
    site.put("f.csv", 8)
    wait_until(lambda: site.entered() == [1, 2, 3, 4, 7])


def test_a_site_that_is_killed_within_a_file_goes_on_there(
    site: Site, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "PIECE_ROWS", 10)
    site.put("a.csv", *range(5))
    site.put("b.csv", *range(5, 1000))
    source = site.open()
    wait_until(lambda: len(site.entered()) > 50)
    source.close()
    again = site.open()
    wait_until(lambda: site.entered() == list(range(999)))
    site.put("c.csv", 1000)
    wait_until(lambda: site.entered() == list(range(1000)))
    assert again.status.malformed == 0
    assert again.status.late == 0
    again.close()
    # Everything was read to its end.
    last = site.open()
    site.put("d.csv", 1001)
    wait_until(lambda: site.entered()[-1] == 1000)
    assert last.status.repeated == 0


def test_a_folder_that_is_not_there_is_named(site: Site) -> None:
    site.inbox.rmdir()
    with pytest.raises(DriverError, match="there is no folder"):
        site.open()
    site.source = None
