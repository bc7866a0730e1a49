"""The journal of a live source: the tuples that it has taken in, numbered, on the site's disk.

Nobody can ask a client to send a tuple once more. Tuples are therefore in the journal before their
client is told that they are accepted, and before the host numbers them. A site that is killed and
started again finds in the journal how far the numbers had come, and continues them. Consumers that
lack tuples get them from the journal. So a source with a journal resumes like a
recording.

A *commit* holds three things: the tuples that have become part of the stream, in its order; the
tuples that were accepted and wait for their turn; and the clients' numbers of the batches. It is
written and synced as a whole. One sync serves all batches that arrived meanwhile.

A segment, the file `<number>.journal`, is a head and commits, of entries
(`orchestrator.edges.sources.live.journal_entries`). A head repeats what a process needs to
continue, so that older segments can be dropped: the journal keeps its newest `retain_bytes`. Head
and commit may be several entries, all but the last marked as unfinished. A process that was killed
while it wrote leaves an unfinished commit behind. It is ignored, because no client was told of it.
Every process begins a segment of its own. A process that was stopped and replaced cannot write when
it wakes up, because its successor holds a lock.

A commit by which nothing but time passes is in no segment: a stream that is silent overnight would
have pushed out the tuples of the day. The file `advances` has the last one.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import threading
import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from foundation.timestamps import timestamp_text
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.open_folders import FilesGone, check_open
from orchestrator.edges.sources.live.journal_entries import (
    PREFIX,
    Batch,
    Header,
    Pieces,
    is_followed,
    packed,
    parts,
    payloads,
    size_of,
)
from orchestrator.folders import private_folder, sync
from streams.vectors.arrow_frame import FrameRefused, read_batch
from streams.vectors.chunk import NO_WATERMARK, Chunk, Position, joined

READ_BYTES = 2**20
"""After so much of it, a part that is read again ends."""

MOST_READ_ENTRIES = 64
"""As many entries are read for it at most: the site's host does nothing else meanwhile."""

SEGMENT_BYTES = 16 * 2**20
"""Size at which a segment ends."""

LOCK, GONE, ADVANCES = "lock", "gone", "advances"
"""Files in the folder of a journal. Its process holds the first. The second says that a part was
removed, so that it cannot be continued. The third says how far time has passed since the last
tuple."""

SLOT_BYTES = 4096
"""The file has two places of that size, which are written in turns: a process that is killed
meanwhile leaves the other one whole."""

HEAD_PIECE_BYTES = 4 * 2**20
"""Size of an entry of a head, about."""

MOST_CLIENTS = 16_384
"""Clients and idempotency keys that are remembered. Beyond that the oldest are forgotten: a batch
that comes again after so many others counts as a new one."""

MOST_FORMER = 4096
"""Batches before the last one of their client whose rows can be told from others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The input that a source takes in at once.

    Attributes
    ----------
    chunks
        Parts of the stream, numbered.
    waiting
        Tuples that were accepted and have no number yet.
    watermark_ms, newest_ms
        As of the orderer, after it.
    clients
        The batches that its tuples came in.
    """

    chunks: Sequence[Chunk]
    waiting: pa.RecordBatch | None
    watermark_ms: int
    newest_ms: int
    clients: Sequence[Batch] = ()

    @property
    def advances_only(self) -> bool:
        """Whether it says only that time has passed."""
        rows = any(chunk.rows.num_rows for chunk in self.chunks)
        return bool(self.chunks) and not (rows or self.waiting or self.clients)


@dataclass(slots=True)
class _Entry:
    """Where a part of the stream lies."""

    watermark_ms: int
    offset: int
    length: int


@dataclass(slots=True)
class _Segment:
    """A file, and the parts of the stream in it."""

    path: Path
    begin: Position
    size_bytes: int = 0
    head_bytes: int = 0
    entries: list[_Entry] = field(default_factory=list[_Entry])


def differ(one: int | None, other: int | None) -> bool:
    """Whether rows are known to differ by their digests."""
    return one is not None and other is not None and one != other


class Clients:
    """The last batch of each client, of the latest `MOST_CLIENTS`, and some that came before."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, tuple[int, int | None]] = OrderedDict()
        self._former: OrderedDict[tuple[str, int], int] = OrderedDict()
        """Digests of batches before the last ones, as far as these are known."""
        self._numbers: dict[str, list[int]] = {}
        """The numbers of these, of each client that has some."""

    @property
    def names(self) -> list[str]:
        """The clients, the latest last."""
        return list(self._last)

    def last(self, client: str) -> int | None:
        """The number of a client's last batch; None if it is unknown."""
        found = self._last.get(client)
        return None if found is None else found[0]

    def has(self, client: str, number: int) -> bool:
        """Whether a batch has been taken in already."""
        last = self.last(client)
        return last is not None and last >= number

    def differs(self, client: str, number: int, digest: int | None) -> bool:
        """Whether a batch of that number had other rows, as far as they are remembered."""
        last, own = self._last.get(client, (-1, None))
        known = own if last == number else self._former.get((client, number))
        return differ(known, digest)

    def note(self, client: str, number: int, digest: int | None = None) -> None:
        """Note a batch that is being taken in."""
        last, known = self._last.get(client, (-1, None))
        if number >= last:
            if number > last and known is not None:
                self._former[client, last] = known
                self._numbers.setdefault(client, []).append(last)
            self._last[client] = number, known if number == last else digest
        self._last.move_to_end(client)
        if len(self._last) > MOST_CLIENTS:
            self._discard(next(iter(self._last)))
        if len(self._former) > MOST_FORMER:
            (oldest, _), _ = self._former.popitem(last=False)
            self._numbers[oldest].pop(0)

    def _discard(self, client: str) -> None:
        """Drop all that is known of a client: it may begin anew, with numbers used before."""
        del self._last[client]
        for number in self._numbers.pop(client, ()):
            del self._former[client, number]

    def all(self) -> list[Batch]:
        """All batches in the order in which `note` brings them back."""
        former = [(*key, digest) for key, digest in self._former.items()]
        return [*former, *((client, *known) for client, known in self._last.items())]


class Journal:
    """The journal of one stream in one generation.

    Parameters
    ----------
    folder
        Its own; made if missing.
    schema
        The stream's.
    retain_bytes
        How much is kept.
    sync
        Whether the disk has a commit before `append` returns. Otherwise the operating system has
        it, so that it outlives the process but not the machine.
    read_only
        Whether it is only read, which another process that writes it does not mind: as far as
        that one has come by now.

    Attributes
    ----------
    end
        The cut after everything that has become part of the stream.
    watermark_ms, newest_ms
        As of the orderer of the process that wrote last.
    clients
        The last batches of clients.

    Raises
    ------
    DriverError
        Another process has it open, or it is damaged.
    """

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        *,
        retain_bytes: int = 0,
        sync: bool = True,
        read_only: bool = False,
    ) -> None:
        self._folder = folder if read_only else private_folder(folder)
        self._schema = schema
        self._retain_bytes = retain_bytes
        self._needed_ms: int | None = None
        self._most_bytes = 0
        self._sync = sync
        self._lock: int | None = None if read_only else self._locked()
        self._changing = threading.Lock()
        """The host's loop reads while the source's thread appends."""
        self._segments: list[_Segment] = []
        self._file: BinaryIO | None = None
        self._commits = 0
        self._slots: int | None = None
        self._advances = 0
        self._advance: Header | None = None
        self.end = Position()
        self.watermark_ms = self.newest_ms = NO_WATERMARK
        self._left: list[pa.RecordBatch] = []
        """Tuples that the former process had accepted, in its file; some are numbered since."""
        self.clients = Clients()
        try:
            self._recover()
            if not read_only:
                self._slots = os.open(self._folder / ADVANCES, os.O_WRONLY | os.O_CREAT, 0o600)
                self._begin_segment(self._waiting(self._left))
        except BaseException:
            self.close()
            raise

    @property
    def retained(self) -> Position:
        """The cut from which on the stream is kept."""
        return self._segments[0].begin

    @property
    def size_bytes(self) -> int:
        """Its size on the disk."""
        return sum(segment.size_bytes for segment in self._segments)

    def append(self, commit: Commit) -> None:
        """Keep a commit for good.

        Raises
        ------
        OSError
            The disk does not take it. The journal must be opened anew.
        FilesGone
            See `check`.
        """
        if self._file is None:
            raise DriverError("the journal is closed")
        self.check()
        if commit.advances_only:
            self._keep_advance(commit)
            return
        self._commits += 1
        written: list[tuple[Header, Pieces]] = []
        for number, chunk in enumerate(commit.chunks or (None,)):
            last = number >= len(commit.chunks) - 1
            written.append(self._entry(chunk, commit, last=last))
        segment = self._segments[-1]
        offset = segment.size_bytes
        self._write([piece for _, pieces in written for piece in pieces])
        self.check()
        for header, pieces in written:
            length = size_of(pieces)
            if header.watermarks_ms:
                with self._changing:
                    segment.entries.append(_entry_of(header, offset, length))
                self.end = header.end
            offset += length
        for batch in commit.clients:
            self.clients.note(*batch)
        self._note(commit)

    def _keep_advance(self, commit: Commit) -> None:
        """Keep how far time has passed, in the place of the last but one."""
        header = Header(
            first_seq=self.end.next_seq,
            complete_ms=commit.chunks[-1].watermark_ms,
            watermark_ms=commit.watermark_ms,
            newest_ms=commit.newest_ms,
        )
        assert self._slots is not None
        self._advances += 1
        os.pwrite(self._slots, _bytes_of(header), self._advances % 2 * SLOT_BYTES)
        if self._sync:
            os.fdatasync(self._slots)
        self._advance, self.end = header, header.end
        self._note(commit)

    def check(self) -> None:
        """Make sure that the written files can be found again.

        Raises
        ------
        FilesGone
            It was removed, and neither this process nor another one can continue the journal.
        """
        if self._file is None or self._lock is None or self._slots is None:
            return
        newest = self._segments[-1]
        try:
            check_open(newest.path, self._file.fileno(), newest.size_bytes)
            check_open(self._folder / ADVANCES, self._slots)
        except FilesGone:
            # Unless the folder is gone as well, which says the same.
            with contextlib.suppress(OSError, FilesGone):
                check_open(self._folder / LOCK, self._lock)
                (self._folder / GONE).touch()
            raise

    def take_waiting(self) -> Iterator[pa.RecordBatch]:
        """Tuples that another process accepted and did not number, in the order of their arrival.

        They are told once, and read from its file meanwhile.
        """
        left, self._left = self._left, []
        return self._waiting(left)

    def _waiting(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            after = batch.column(0).to_numpy() > self.watermark_ms
            if after.any():
                yield batch if after.all() else batch.filter(pa.array(after))

    @property
    def is_full(self) -> bool:
        """Whether its newest segment should end.

        Its head counts for as much again: where much waits, that would be written too often.
        """
        newest = self._segments[-1]
        return newest.size_bytes - newest.head_bytes >= max(SEGMENT_BYTES, newest.head_bytes)

    def roll(self, waiting: Iterable[pa.RecordBatch]) -> None:
        """Begin a segment, and drop the oldest beyond `retain_bytes`.

        Parameters
        ----------
        waiting
            All tuples that were accepted and have no number yet.
        """
        assert self._file is not None
        self._file.close()
        self._begin_segment(waiting)
        with self._changing:
            while len(self._segments) > 2 and self.size_bytes > self._retain_bytes:
                if self._is_needed(self._segments[1]) and self.size_bytes <= self._most_bytes:
                    break
                self._segments.pop(0).path.unlink(missing_ok=True)

    def files(self) -> tuple[Position, Position, Iterator[tuple[str, bytes]]]:
        """From where to where it goes by now, and its files as far as they are written."""
        with self._changing:
            end = self.end
            found = [(each.path, each.size_bytes) for each in self._segments]
            begin, advance = self._segments[0].begin, self._advance

        def read() -> Iterator[tuple[str, bytes]]:
            for path, size in found:
                with path.open("rb") as file:
                    yield path.name, file.read(size)
            if advance is not None and advance.first_seq == end.next_seq:
                yield ADVANCES, _bytes_of(advance)

        return begin, end, read()

    def need(self, after_ms: int, most_bytes: int) -> None:
        """Keep what follows an event time beyond `retain_bytes`, too, up to so many bytes."""
        self._needed_ms, self._most_bytes = after_ms, most_bytes

    def _is_needed(self, second: _Segment) -> bool:
        """Whether the oldest segment, before the second one, has something that is needed."""
        return self._needed_ms is not None and second.begin.watermark_ms > self._needed_ms

    def _note(self, told: Commit | Header) -> None:
        self.watermark_ms, self.newest_ms = told.watermark_ms, told.newest_ms

    def read(self, after: Position, until: Position) -> Chunk | None:
        """A part of the stream that follows `after`, up to `until` at most; None if there is none.

        It has several entries if these are small: a reader gets a few parts a second, and there may
        be a hundred entries.

        Raises
        ------
        DriverError
            It is no longer kept, or has no such position.
        """
        if after.watermark_ms < self.retained.watermark_ms:
            raise DriverError(
                f"the journal begins at {self.retained}, and {after} is asked for: raise `retain`"
            )
        with self._changing:
            following = list(islice(self._following(after.watermark_ms), MOST_READ_ENTRIES))
        found: list[Chunk] = []
        read_bytes = 0
        for entry, segment in following:
            try:
                part = self._chunk(segment, entry)
            except DriverError:
                if found:
                    # Tuples before it can be had. Readers that ask for later ones are told so.
                    break
                raise
            if not found and (cut := _cut_at(part, after.watermark_ms)) != after:
                raise DriverError(
                    f"the journal {self._folder} stands at {cut} where a reader stands at {after}: "
                    "it is another one, or damaged"
                )
            rest = part.after(after)
            if rest is None or rest.watermark_ms > until.watermark_ms:
                break
            found.append(rest)
            read_bytes += entry.length
            if read_bytes >= READ_BYTES:
                break
        return joined(found) if found else None

    def position_at(self, watermark_ms: int) -> Position:
        """The cut after a watermark.

        Raises
        ------
        DriverError
            It is no longer kept.
        """
        if watermark_ms < self.retained.watermark_ms:
            asked = timestamp_text(watermark_ms)
            raise DriverError(f"the journal {self._folder} begins after {asked}")
        with self._changing:
            following = next(self._following(watermark_ms), None)
        if following is None:
            return Position(next_seq=self.end.next_seq, watermark_ms=watermark_ms)
        return _cut_at(self._chunk(following[1], following[0]), watermark_ms)

    def close(self) -> None:
        """Release the files."""
        try:
            if self._file is not None:
                self._file.close()
        finally:
            # Also if the disk is full and the rest cannot be written.
            self._file = None
            for descriptor in (self._slots, self._lock):
                if descriptor is not None:
                    os.close(descriptor)
            self._slots = self._lock = None

    def _locked(self) -> int:
        lock = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise DriverError(f"another process has the journal {self._folder} open") from None
        return lock

    def _following(self, watermark_ms: int) -> Iterator[tuple[_Entry, _Segment]]:
        for segment in self._segments:
            first = bisect_right(segment.entries, watermark_ms, key=lambda e: e.watermark_ms)
            for entry in segment.entries[first:]:
                yield entry, segment

    def _chunk(self, segment: _Segment, entry: _Entry) -> Chunk:
        with segment.path.open("rb") as file:
            file.seek(entry.offset)
            data = file.read(entry.length)
        length, checksum = PREFIX.unpack_from(data)
        payload = data[PREFIX.size :]
        if length != len(payload) or zlib.crc32(payload) != checksum:
            raise DriverError(f"{segment.path} is damaged at byte {entry.offset}")
        header, rows, _ = parts(payload)
        return self._decoded(header, rows)

    def _decoded(self, header: Header, rows: memoryview) -> Chunk:
        try:
            batch = read_batch(rows, self._schema)
        except FrameRefused as error:
            raise DriverError(f"the journal {self._folder} is damaged: {error}") from None
        return Chunk(
            first_seq=header.first_seq,
            rows=batch,
            watermarks_ms=np.frombuffer(header.watermarks_ms, dtype="<i8").astype(np.int64),
            ingestion_times_us=np.frombuffer(header.ingestion_times_us, dtype="<i8").astype(
                np.int64
            ),
        )

    def _entry(self, chunk: Chunk | None, commit: Commit, *, last: bool) -> tuple[Header, Pieces]:
        header = Header(
            first_seq=self.end.next_seq if chunk is None else chunk.first_seq,
            rows=0 if chunk is None else chunk.rows.num_rows,
            watermarks_ms=b"" if chunk is None else _bytes(chunk.watermarks_ms),
            ingestion_times_us=b"" if chunk is None else _bytes(chunk.ingestion_times_us),
            complete_ms=self.end.watermark_ms if chunk is None else chunk.watermark_ms,
            watermark_ms=commit.watermark_ms,
            newest_ms=commit.newest_ms,
            whole=last,
            commit=self._commits,
            **_told(commit.clients if last else ()),
        )
        rows = None if chunk is None else chunk.rows
        return header, packed(header, rows, commit.waiting if last else None)

    def _write(self, pieces: Pieces) -> None:
        assert self._file is not None
        self._write_some(pieces)
        self._file.flush()
        if self._sync:
            os.fdatasync(self._file.fileno())

    def _write_some(self, pieces: Pieces) -> None:
        """Write an entry of a head or commit that is not finished yet."""
        assert self._file is not None
        for piece in pieces:
            self._file.write(piece)
        self._segments[-1].size_bytes += size_of(pieces)

    def _begin_segment(self, waiting: Iterable[pa.RecordBatch]) -> None:
        """Begin a file with a head: all that a process needs to continue."""
        number = _number(self._segments[-1].path) + 1 if self._segments else 0
        path = self._folder / f"{number:012d}.journal"
        # A former process may have begun it and written nothing whole.
        path.unlink(missing_ok=True)
        self._file = path.open("xb")
        self._segments.append(_Segment(path=path, begin=self.end))
        self._commits = 0
        head = Header(
            first_seq=self.end.next_seq,
            complete_ms=self.end.watermark_ms,
            watermark_ms=self.watermark_ms,
            newest_ms=self.newest_ms,
            **_told(self.clients.all()),
        )
        unfinished = msgspec.structs.replace(head, clients=[], digests=[], whole=False)
        for batch in waiting:
            for piece in _pieces(batch):
                self._write_some(packed(unfinished, None, piece))
        self._write(packed(head, None, None))
        self._segments[-1].head_bytes = self._segments[-1].size_bytes
        sync(self._folder)

    def _recover(self) -> None:
        """Read the segments of former processes."""
        if (self._folder / GONE).exists():
            raise is_gone(self._folder)
        advances = self._advances_read()
        found = sorted(self._folder.glob("*.journal"), key=_number)
        for path in found:
            data = _mapped(path)
            segment = _Segment(path=path, begin=self.end)
            waiting: list[pa.RecordBatch] = []
            headed, commit = False, 0
            for (offset, length), header, batch in self._entries(path, data):
                if not headed:
                    headed = True
                    # Time may have passed meanwhile, which no segment has.
                    if self._segments and self.end.next_seq < header.first_seq:
                        former = self._segments[-1]
                        raise _damaged(former.path, former.size_bytes)
                    self.end = header.end
                    segment.begin = self.end
                elif header.watermarks_ms:
                    segment.entries.append(_entry_of(header, offset, length))
                    self.end = header.end
                if batch is not None:
                    waiting.append(batch)
                for known in header.batches:
                    self.clients.note(*known)
                self._note(header)
                segment.size_bytes = offset + length
                commit = header.commit + 1
            # This may be the rest of a commit that began before.
            if is_followed(data, segment.size_bytes, commit):
                raise _damaged(path, segment.size_bytes)
            if not headed:
                continue
            self._segments.append(segment)
            self._left = waiting
        for header in advances if self._segments else ():
            if self.end.is_before(header.end):
                if header.first_seq != self.end.next_seq:
                    former = self._segments[-1]
                    raise _damaged(former.path, former.size_bytes)
                self.end = header.end
                self._note(header)

    def _advances_read(self) -> list[Header]:
        """The whole ones of the file `advances`; segments are read later, and go further."""
        path = self._folder / ADVANCES
        data = path.read_bytes() if path.exists() else b""
        found = (next(payloads(data, offset), None) for offset in (0, SLOT_BYTES))
        return [parts(entry[1])[0] for entry in found if entry is not None]

    def _entries(
        self, path: Path, data: mmap.mmap | bytes
    ) -> Iterator[tuple[tuple[int, int], Header, pa.RecordBatch | None]]:
        """Place, header and waiting tuples of each entry of whole commits."""
        unfinished: list[tuple[tuple[int, int], Header, pa.RecordBatch | None]] = []
        for offset, payload in payloads(data):
            try:
                header, _, waiting = parts(payload)
                batch = read_batch(waiting, self._schema) if waiting else None
            except (msgspec.DecodeError, FrameRefused, struct.error) as error:
                raise DriverError(f"{path} is no journal of this stream: {error}") from None
            unfinished.append(((offset, PREFIX.size + len(payload)), header, batch))
            if header.whole:
                yield from unfinished
                unfinished.clear()


def is_gone(folder: Path) -> DriverError:
    """Says that a journal cannot be continued."""
    return DriverError(
        f"the journal {folder} is gone, and consumers rely on its numbers: delete the stream and "
        "apply it again"
    )


def _damaged(path: Path, offset: int) -> DriverError:
    return DriverError(
        f"the journal {path} is damaged at byte {offset}, and clients were told that what follows "
        "is kept: restore the file, or delete the stream and apply it again"
    )


def _bytes_of(advance: Header) -> bytes:
    return b"".join(packed(advance, None, None))


def _entry_of(header: Header, offset: int, length: int) -> _Entry:
    return _Entry(watermark_ms=header.complete_ms, offset=offset, length=length)


def _cut_at(chunk: Chunk, watermark_ms: int) -> Position:
    """The cut after a watermark that lies before the end of a part."""
    known = int(np.searchsorted(chunk.timestamps, watermark_ms, side="right"))
    return Position(next_seq=chunk.first_seq + known, watermark_ms=watermark_ms)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts of bounded size."""
    most = max(int(HEAD_PIECE_BYTES * batch.num_rows / max(batch.nbytes, 1)), 1)
    for begin in range(0, batch.num_rows, most):
        yield batch.slice(begin, most)


def _mapped(path: Path) -> mmap.mmap | bytes:
    """A file's content, read where it is looked at."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _bytes(numbers: IntArray) -> bytes:
    return numbers.astype("<i8").tobytes()


def _number(path: Path) -> int:
    return int(path.name.split(".")[0])


def _told(batches: Iterable[Batch]) -> dict[str, Any]:
    """Batches as a header has them."""
    listed = list(batches)
    return {
        "clients": [(client, number) for client, number, _ in listed],
        "digests": [digest for _, _, digest in listed],
    }
