"""A folder that grows: each file once, in the order of the names, whenever the site is killed."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.folder import Folder
from orchestrator.edges.sources.live import folder_readers as driver
from orchestrator.edges.sources.live.folder_readers import FileNames
from orchestrator.edges.sources.live.live_input import JournaledInput
from orchestrator.records import Guarantee, SourceAssignment, SourceSpec
from streams.vectors.chunk import NO_WATERMARK
from tests.conftest import WaitUntil


class Site:
    def __init__(self, folder: Path, archive: str = "archive") -> None:
        self.inbox = folder / "inbox"
        self.inbox.mkdir(exist_ok=True)
        self._archive = folder / archive
        self.options = Folder(
            path=str(self.inbox), every_ms=5, time_column="number", time_format="ms"
        )
        self.numbers: list[int] = []
        self.source: JournaledInput | None = None

    def open(self) -> JournaledInput:
        assigned = SourceAssignment(
            stream="s",
            columns={"number": "int"},
            source=SourceSpec(driver="folder", guarantee=Guarantee.JOURNALED),
            start_at_us=None,
        )
        context = SourceContext(folder=self._archive, clock_us=lambda: 10**12)
        source = self.options.open(assigned, context)
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


def test_a_file_whose_name_is_no_text_is_refused_once_and_the_next_one_enters(
    site: Site, wait_until: WaitUntil
) -> None:
    site.put("a.csv", 1)
    source = site.open()
    (site.inbox / os.fsdecode(b"b\xff.csv")).write_text("number\n2\n")
    wait_until(lambda: source.status.malformed == 1)
    assert source.status.last_rejected == "its name is not UTF-8"
    site.put("c.csv", 3, 4)
    wait_until(lambda: site.entered() == [1, 3])
    assert source.status.malformed == 1


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
    wait_until(lambda: again.has(f"{driver.CLIENT}c.csv", driver.LAST))
    assert again.status.malformed == 0
    assert again.status.late == 0
    again.close()
    # Everything was read to its end.
    last = site.open()
    site.put("d.csv", 1001)
    wait_until(lambda: site.entered()[-1] == 1000)
    assert last.status.repeated == 0


def test_files_that_are_damaged_disappear_or_change_stop_nothing(
    site: Site, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = io.BytesIO()
    parquet.write_table(pa.Table.from_pydict({"number": [1, 2]}), sink)
    whole = sink.getvalue()
    # The name of a column in the metadata, which pyarrow decodes.
    (site.inbox / "b.parquet").write_bytes(whole.replace(b"number", b"n\xffmber"))
    (site.inbox / "c.parquet").write_bytes(whole[:-20])
    (site.inbox / "d.csv").write_bytes(b"number\n1\0\n")
    site.put("f.csv", 1, 2, 3)
    gone, listed = site.inbox / "e.csv", driver.names_in

    def listed_with_it(folder: Path) -> list[str]:
        return sorted([*listed(folder), gone.name])

    monkeypatch.setattr(driver, "names_in", listed_with_it)
    source = site.open()
    wait_until(lambda: site.entered() == [1, 2])
    wait_until(lambda: source.status.malformed == 4)
    monkeypatch.undo()
    # What is read is what was opened, whatever is renamed over it.
    site.put("f.csv", 7, 8)
    site.put("g.csv", 4, 5)
    wait_until(lambda: site.entered() == [1, 2, 3, 4])
    site.inbox.rename(site.inbox.with_name("away"))
    wait_until(lambda: source.status.malformed > 4)
    site.inbox.with_name("away").rename(site.inbox)
    site.put("h.csv", 6)
    wait_until(lambda: site.entered() == [1, 2, 3, 4, 5])


def test_what_nobody_expects_of_a_file_is_a_failure_that_the_host_sees(
    site: Site, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("of a library")

    monkeypatch.setattr(driver, "read_file", fails)
    source = site.open()
    site.put("a.csv", 1)

    def failed() -> bool:
        try:
            source.emit(0, 10**12)
        except RuntimeError as error:
            return "of a library" in str(error)
        return False

    wait_until(failed)


def test_a_folder_that_is_not_there_is_named(site: Site) -> None:
    site.inbox.rmdir()
    with pytest.raises(DriverError, match="there is no folder"):
        site.open()
    site.source = None


NUMBERED = {"names": "n-###.csv", "idle_after_ms": None, "max_ahead_ms": None}


def by_number(site: Site) -> Site:
    site.options = msgspec.structs.replace(site.options, **NUMBERED)
    return site


def test_numbers_of_files() -> None:
    names = FileNames("n-###.csv")
    assert (names[7], names[1234]) == ("n-007.csv", "n-1234.csv")
    assert [names.number(n) for n in ("n-007.csv", "n-1234.csv")] == [7, 1234]
    for other in ("n-7.csv", "n-0007.csv", "n-00x.csv", "n-007.csv.gz", ".n-007.csv", "n-.csv"):
        assert names.number(other) is None
    for wrong in ("n.csv", "n-##-##.csv", "a/##.csv", ".##.csv"):
        with pytest.raises(ValueError, match=wrong):
            FileNames(wrong)


def test_the_next_number_is_waited_for_and_one_that_is_missing_is_named(
    site: Site, wait_until: WaitUntil
) -> None:
    source = by_number(site).open()
    assert source.waits_for is None
    site.put("n-001.csv", 3, 4)
    site.put("other.csv", 9)
    wait_until(lambda: source.waits_for is not None)
    assert "n-000.csv is missing, and n-001.csv is there" in (source.waits_for or "")
    site.put("n-000.csv", 1, 2)
    wait_until(lambda: site.entered() == [1, 2, 3])
    assert source.waits_for is None
    # A folder in its place cannot be read; it may be a disk that is out of reach.
    (site.inbox / "n-002.csv").mkdir()
    wait_until(lambda: "Is a directory" in (source.waits_for or ""))
    (site.inbox / "n-002.csv").rmdir()
    site.put("n-002.csv", 5)
    wait_until(lambda: site.entered() == [1, 2, 3, 4])
    assert source.status.malformed == 0


def test_a_numbered_file_that_is_far_too_large_is_refused(
    site: Site, wait_until: WaitUntil
) -> None:
    source = by_number(site).open()
    with (site.inbox / ".huge").open("wb") as file:
        file.truncate(2**40)
    (site.inbox / ".huge").rename(site.inbox / "n-000.csv")
    site.put("n-001.csv", 1, 2)
    wait_until(lambda: site.entered() == [1])
    assert source.status.malformed == 1
    assert "more than 2147483648 bytes" in str(source.status.last_rejected)


def test_a_pipe_in_the_place_of_a_numbered_file_is_waited_for_and_named(
    site: Site, wait_until: WaitUntil
) -> None:
    source = by_number(site).open()
    os.mkfifo(site.inbox / "n-000.csv")
    wait_until(lambda: "n-000.csv is no regular file" in (source.waits_for or ""))
    (site.inbox / "n-000.csv").unlink()
    site.put("n-000.csv", 1, 2)
    wait_until(lambda: site.entered() == [1])


def test_two_sites_that_look_at_different_times_read_numbered_files_alike(
    site: Site, tmp_path: Path, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert by_number(site).options.unlike is None
    site.options = msgspec.structs.replace(site.options, slack_ms=10)
    other = Site(tmp_path, archive="other")
    other.options = site.options
    monkeypatch.setattr(driver, "PIECE_ROWS", 7)
    files = [[10 * n + (k * 7) % 10 for k in range(10)] for n in range(20)]
    files[4] = [1]  # Late.
    for n in reversed(range(5, 10)):
        site.put(f"n-{n:03}.csv", *files[n])
    (site.inbox / "n-005.csv").write_text("count\n1\n")
    source = site.open()
    for n in reversed(range(5)):
        site.put(f"n-{n:03}.csv", *files[n])
    wait_until(lambda: len(site.entered()) > 40)
    # It is killed within what it reads.
    source.close()
    for n in range(10, 20):
        site.put(f"n-{n:03}.csv", *files[n])
    source = site.open()
    late = other.open()
    for each in (site, other):
        wait_until(lambda each=each: len(each.entered()) > 0 and each.numbers[-1] == 188)
    assert site.numbers == other.numbers
    assert late.status.late > 0
    assert late.status.malformed == 1
    assert late._ingestion.end == source._ingestion.end  # pyright: ignore[reportPrivateUsage]
    other.close()
