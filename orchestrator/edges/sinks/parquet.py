"""The sink driver `parquet`: a dataset of files, one for each hour of event time or a part of it.

Results are kept in the site's archive, as by the driver `archive`, and that is what counts as kept.
The tuples of the interval that is under way are written to a hidden file. When the interval is
complete, the file gets its name at once, whole:

    PATH/STREAM/vivace_version=LIFE/vivace_date=2026-07-02/vivace_hour=13/20260702T130000Z.parquet

So a reader sees whole intervals only, and a file never changes. A note at the site says up to where
intervals have been published. A site that starts again begins the interval anew out of the archive;
one that was killed between a file and its note writes the same file again. If the folder of the
files is removed, all that the archive has is published anew. Queries that had the
same name, one after the other, write different versions: their numbers begin again, and their
columns may differ.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from foundation.bounds import EventTime, Number
from orchestrator.documents.document import Field, Section
from orchestrator.edges.drivers import DriverError, Unusable
from orchestrator.edges.events import Deliver, Durable
from orchestrator.edges.open_folders import FilesGone, check_open
from orchestrator.edges.sinks.archive import Archive, OpenArchive
from orchestrator.edges.sinks.delivered import Delivered, numbered, numbered_schema
from orchestrator.edges.sinks.driver import SinkDriver
from orchestrator.errors import in_sentences
from orchestrator.folders import path_part, private_folder, sync
from orchestrator.records import SinkAssignment
from streams.vectors.chunk import NO_WATERMARK, TIMESTAMP, stream_schema
from streams.vectors.reserved import DATE, HOUR, IN_DATASETS, VERSION

if TYPE_CHECKING:
    from orchestrator.edges.site_check import SiteCheck

HOUR_MS = 3_600_000

GROUP_BYTES = 8 * 2**20
"""Rows that are held in memory before they are written as a row group."""


class ParquetFiles(SinkDriver, frozen=True, kw_only=True):
    """Files of an interval of event time each.

    Attributes
    ----------
    path
        Folder of the dataset.
    every_ms
        Length of an interval, of which an hour has a whole number.
    """

    path: str
    every_ms: int = HOUR_MS

    @classmethod
    def read(cls, section: Section) -> Self:
        """The manifest's `to: {parquet: …}`."""
        given: dict[str, Any] = section.given({"every_ms": ("every", _every)})
        return cls(path=str(section.need("path").path()), **given)

    @property
    def reserved(self) -> Mapping[str, str]:
        """The names of folders, which readers take for columns, rather than for those of files."""
        return IN_DATASETS

    @property
    def ignores_case(self) -> bool:
        """Spark and DuckDB read them."""
        return True

    def check(self, assignment: SinkAssignment, site: SiteCheck) -> None:
        """Look whether the folder can be written, and has none of an earlier layout."""
        site.need_writable("path", self.path)
        if (former := self._former(assignment.stream)) is not None:
            raise Unusable("path", self.path, *former)

    def dataset(self, stream: str) -> Path:
        """The folder of a stream.

        Raises
        ------
        DriverError
            It has folders of an earlier layout: readers refuse folders of both.
        """
        if (former := self._former(stream)) is not None:
            raise DriverError(f"{self.path} {in_sentences(*former)}")
        return Path(self.path) / path_part(stream)

    def _former(self, stream: str) -> tuple[str, str] | None:
        """Problem and remedy if the stream's folder has folders of an earlier layout."""
        found = next((Path(self.path) / path_part(stream)).glob("version=*"), None)
        if found is None:
            return None
        problem = f"has files of an earlier layout ({stream}/{found.name}): readers take no folder "
        return problem + "with both", f"Move {found.parent} away, or choose another path."

    def open(self, assignment: SinkAssignment, folder: Path) -> OpenParquet:
        """Continue the archive, and what is published of it."""
        return OpenParquet(self, assignment, folder)

    def kept(self, assignment: SinkAssignment, folder: Path) -> Durable | None:
        """What is archived."""
        return Archive().kept(assignment, folder)

    def read_back(self, stream: str, folder: Path) -> Delivered:
        """What is archived."""
        return Archive().read_back(stream, folder)


class _Published(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The site's note: intervals of the query up to this timestamp have their files."""

    life: Number
    until_ms: EventTime


_decoder = msgspec.json.Decoder(_Published)


class OpenParquet:
    """The archive of one stream, and the file of the interval that is under way."""

    def __init__(self, options: ParquetFiles, assignment: SinkAssignment, folder: Path) -> None:
        self._every_ms = options.every_ms
        self._life = assignment.life
        self._schema = numbered_schema(stream_schema(assignment.columns))
        self._opened: int | None = None
        self._folder = options.dataset(assignment.stream) / f"{VERSION}={assignment.life}"
        self._note = folder / f"{path_part(assignment.stream)}.parquet.json"
        try:
            if not self._folder.exists():
                self._note.unlink(missing_ok=True)
            self._folder.mkdir(parents=True, exist_ok=True)
            for left in self._folder.glob(".*.unfinished"):
                left.unlink()
        except OSError as error:
            raise DriverError(f"the folder of the files cannot be used: {error}") from None
        self._interval: _Interval | None = None
        self._published_ms = self._noted()
        self._kept: list[Deliver] = []
        self._archive = OpenArchive(assignment, folder)
        try:
            self._opened = os.open(self._folder, os.O_RDONLY)
            self._begin_anew()
        except BaseException:
            self.close()
            raise

    @property
    def durable(self) -> Durable | None:
        """Up to where the archive has it."""
        return self._archive.durable

    def keep(self, delivery: Deliver) -> None:
        """Take a delivery in."""
        self._archive.keep(delivery)
        self._kept.append(delivery)

    def flush(self) -> None:
        """Archive all deliveries, and publish the intervals that they complete."""
        try:
            self._archive.flush()
        except FilesGone:
            # The note went with the archive, and the files are still there.
            private_folder(self._note.parent)
            self._write_note()
            raise
        self._check()
        if self._kept:
            kept, self._kept = self._kept, []
            self._take(numbered(kept), kept[-1].chunk.watermark_ms)

    def close(self) -> None:
        """Release everything; what is under way is begun anew out of the archive."""
        self._kept.clear()
        if self._interval is not None:
            self._interval.drop()
            self._interval = None
        if self._opened is not None:
            os.close(self._opened)
            self._opened = None
        self._archive.close()

    def _check(self) -> None:
        """Make sure that the folder of the files and the one under way are there."""
        assert self._opened is not None
        try:
            check_open(self._folder, self._opened)
        except FilesGone:
            # The archive has what they had.
            self._note.unlink(missing_ok=True)
            raise
        if self._interval is not None:
            self._interval.check()

    def _begin_anew(self) -> None:
        durable = self._archive.durable
        if durable is None:
            return
        reader = self._archive.reader((0, 0), self._published_ms)
        while (rows := reader.read(GROUP_BYTES)) is not None:
            self._take(rows, NO_WATERMARK)
        self._take(self._schema.empty_table(), durable.position.watermark_ms)

    def _take(self, rows: pa.RecordBatch | pa.Table, watermark_ms: int) -> None:
        """Take rows in the order of their timestamps, and what they say to be complete."""
        timestamps = rows.column(TIMESTAMP).to_numpy()
        first = int(np.searchsorted(timestamps, self._published_ms, side="right"))
        while first < len(timestamps):
            begin_ms = int(timestamps[first]) // self._every_ms * self._every_ms
            if self._interval is not None and self._interval.begin_ms != begin_ms:
                self._publish(self._interval)
            if self._interval is None:
                self._interval = _Interval(self._folder, begin_ms, self._schema)
            end = int(np.searchsorted(timestamps, begin_ms + self._every_ms))
            self._interval.add(rows.slice(first, end - first))
            first = end
        under_way = self._interval
        if under_way is not None and watermark_ms >= under_way.begin_ms + self._every_ms - 1:
            self._publish(under_way)

    def _publish(self, interval: _Interval) -> None:
        interval.publish()
        self._interval = None
        self._published_ms = interval.begin_ms + self._every_ms - 1
        self._write_note()

    def _write_note(self) -> None:
        noted = _Published(life=self._life, until_ms=self._published_ms)
        unfinished = self._note.with_suffix(".unfinished")
        unfinished.write_bytes(msgspec.json.encode(noted))
        sync(unfinished)
        unfinished.replace(self._note)
        sync(self._note.parent)

    def _noted(self) -> int:
        try:
            noted = _decoder.decode(self._note.read_bytes())
        except FileNotFoundError:
            return NO_WATERMARK
        except msgspec.DecodeError as error:
            raise DriverError(f"{self._note} is damaged: {error}") from None
        return noted.until_ms if noted.life == self._life else NO_WATERMARK


class _Interval:
    """The hidden file of an interval that is under way."""

    def __init__(self, folder: Path, begin_ms: int, schema: pa.Schema) -> None:
        self.begin_ms = begin_ms
        self._folder = folder
        self._schema = schema
        self._hidden = folder / f".{uuid.uuid4().hex}.unfinished"
        self._file = self._hidden.open("xb")
        self._writer = parquet.ParquetWriter(self._file, schema)
        self._rows: list[pa.Table] = []
        self._held_bytes = 0

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Take rows of it."""
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        self._rows.append(table)
        self._held_bytes += table.nbytes
        if self._held_bytes >= GROUP_BYTES:
            self._write()

    def check(self) -> None:
        """Make sure that the file is there."""
        check_open(self._hidden, self._file.fileno())

    def publish(self) -> None:
        """Give the file its name; the disk has it when this returns."""
        self._write()
        self._writer.close()
        self._file.close()
        # Results may be later than the year 9999, which no calendar of Python's reaches.
        date, _, time = str(np.datetime64(self.begin_ms, "ms")).partition("T")
        hour = self._folder / f"{DATE}={date}" / f"{HOUR}={time[:2]}"
        hour.mkdir(parents=True, exist_ok=True)
        sync(self._hidden)
        begin = f"{date}T{time[:8]}Z".replace("-", "").replace(":", "")
        self._hidden.replace(hour / f"{begin}.parquet")
        for folder in (hour, hour.parent, self._folder):
            sync(folder)

    def drop(self) -> None:
        """Remove it."""
        self._writer.close()
        self._file.close()
        self._hidden.unlink(missing_ok=True)

    def _write(self) -> None:
        if self._rows:
            self._writer.write_table(pa.concat_tables(self._rows).combine_chunks())
        self._rows, self._held_bytes = [], 0


def _every(field: Field) -> int:
    every_ms = field.interval_ms()
    if every_ms < 1000 or HOUR_MS % every_ms:
        field.refuse(
            "does not divide an hour into whole parts of a second or more",
            "Write 1 h, 30 min, 15 min, 5 min, 1 min or the like.",
        )
    return round(every_ms)
