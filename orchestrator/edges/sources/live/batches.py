"""Batches that come in parts and enter together: Spark's tasks write them, its driver commits them.

A task of Spark writes its partition while other tasks write theirs. A task may fail halfway and be
repeated, and no tuple of a batch may enter before the whole batch is there. Tasks therefore *stage*
parts: files in the site's folder that do not belong to the stream. The driver then *commits* the
batch by naming its parts. The site merges them by their timestamps into one file. From then on, the
batch depends on no other process. Its tuples enter in pieces, each under a number of its own, like
those of a file in a folder (`orchestrator.edges.sources.folder`). A site that is killed meanwhile
goes on with the file when it starts again.

A batch is named by its client and a number that rises. A batch that has entered, or is entering,
does not enter again. A repeated task may cut its rows into other parts and write them in another
order. So rows are compared as a whole, in any order. Other rows under the same name are refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from foundation.arrays import IntArray
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.sources.live.ingestion import BatchOutcome, Full, OtherRows
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.folders import path_part, private_folder, sync
from streams.vectors.row_digest import RowDigest

PIECE_ROWS = 65_536
"""Rows that enter at once."""

PIECES = 2**20
"""Numbers of a batch: one for each piece, and the last one for its end."""

MOST_NUMBER = 2**32
"""Beyond all numbers of batches; with those of their pieces they stay within `MAX_NUMBER`."""

STALE_S = 86_400.0
"""Parts that nobody has committed for a day make room for others."""

ENTERS_S = 20.0
"""How long a commit waits for other commits."""

_CLIENT, _NUMBER, _DIGEST = b"vivace.client", b"vivace.number", b"vivace.digest"


class TooLarge(ValueError):
    """A batch takes more room than there is for all."""


class Missing(ValueError):
    """A batch is committed of which a part is not here."""


class Batches:
    """The staged and committed batches of one stream.

    Parameters
    ----------
    folder
        Its own; made if missing.
    schema
        The stream's.
    opened
        The stream's way in. It has a journal, which remembers what has entered.
    most_bytes
        Bytes that staged parts may take on the disk.
    """

    def __init__(
        self, folder: Path, schema: pa.Schema, opened: LiveInput, *, most_bytes: int
    ) -> None:
        self._folder = private_folder(folder)
        for unfinished in self._folder.glob(".*"):
            # Of a process that was killed.
            unfinished.unlink()
        self._schema = schema
        self._input = opened
        self._most_bytes = most_bytes
        self._entering = threading.Lock()
        """One batch enters at a time, so that none makes another late."""
        self._staging = threading.Lock()
        self._sizes = {path: _size(path) for path in self._folder.iterdir() if path.is_dir()}

    def start(self) -> None:
        """Let batches enter, on a thread, that another process has committed."""
        if any(self._folder.glob("*.batch")):
            threading.Thread(target=self._resume, name="batches", daemon=True).start()

    def stage(self, client: str, number: int, part: str, rows: pa.RecordBatch) -> None:
        """Keep a part of a batch until the batch is committed; the same part again replaces it.

        Raises
        ------
        TooLarge
            The batch takes more than all may.
        Full
            Others leave no room for it.
        """
        name = path_part(part)
        folder = self._staged(client, number)
        with self._staging:
            file = folder / f"{name}.arrow"
            former_bytes = file.stat().st_size if file.exists() else 0
            self._make_room(folder, client, rows.nbytes - former_bytes)
            private_folder(folder)
            unfinished = folder / f".{uuid.uuid4().hex}"
            try:
                with unfinished.open("wb") as raw, _writer(raw, self._schema) as writer:
                    writer.write_batch(rows)
                more_bytes = unfinished.stat().st_size - former_bytes
                unfinished.replace(file)
            finally:
                unfinished.unlink(missing_ok=True)
            self._sizes[folder] = self._sizes.get(folder, 0) + more_bytes

    def commit(self, client: str, number: int, parts: Sequence[str]) -> BatchOutcome:
        """Let a batch enter; returns when all of it has.

        Parameters
        ----------
        parts
            All of the batch, in the order in which equal timestamps enter.

        Raises
        ------
        Full
            Other batches are entering.
        Missing
            A part is not here, and the batch has not been committed before.
        OtherRows
            It was committed before with other rows than those that are here.
        DriverError
            The source ends. The batch may enter when it is opened again.
        """
        if not self._entering.acquire(timeout=ENTERS_S):
            raise Full
        try:
            self._enter_all()
            if self._input.has(_name(client), _last(number)):
                self._compare(client, number, parts)
                taken = BatchOutcome(repeated=True, waiting=self._input.waiting_tuples)
            else:
                file = self._folder / f"{_key(client, number)}.batch"
                self._merge(client, number, parts, file)
                taken = self._enter(file)
        except OtherRows:
            self.abort(client, number)
            raise
        finally:
            self._entering.release()
        self.abort(client, number)
        return taken

    def abort(self, client: str, number: int) -> None:
        """Drop the staged parts of a batch."""
        with self._staging:
            self._drop(self._staged(client, number))

    def _resume(self) -> None:
        with contextlib.suppress(DriverError), self._entering:
            self._enter_all()

    def _enter_all(self) -> None:
        """Let committed batches enter that have not entered yet, the earliest first."""
        for file in sorted(self._folder.glob("*.batch"), key=lambda f: f.stat().st_mtime_ns):
            try:
                self._enter(file)
            except (pa.ArrowException, KeyError, ValueError, EOFError) as error:
                # Nobody was told that it has entered: its client writes it again.
                file.rename(file.with_suffix(".damaged"))
                problem = f"the committed batch {file.name} is damaged: {error}"
                self._input.rejections.malformed(b"", problem)

    def _enter(self, file: Path) -> BatchOutcome:
        table = _mapped(file)
        told = table.schema.metadata or {}
        client, number = told[_CLIENT].decode(), int(told[_NUMBER])
        digest = int(told[_DIGEST]) if _DIGEST in told else None
        taken = BatchOutcome()
        rows = table.replace_schema_metadata().cast(self._schema)
        for piece, batch in enumerate(rows.to_batches(PIECE_ROWS)):
            place = number * PIECES + piece
            # Asked first: a batch that is pushed in vain would wait for room.
            if not self._input.has(_name(client), place):
                taken += self._input.push(batch, client=_name(client), number=place, in_order=True)
        nothing = pa.RecordBatch.from_pylist([], schema=self._schema)
        last = _last(number)
        taken += self._input.push(nothing, client=_name(client), number=last, digest=digest)
        file.unlink(missing_ok=True)
        return taken

    def _merge(self, client: str, number: int, parts: Sequence[str], file: Path) -> None:
        """Write the file of a batch; the disk has it when this returns."""
        unfinished = private_folder(self._folder) / f".{uuid.uuid4().hex}"
        try:
            self._write_merged(client, number, parts, unfinished)
            sync(unfinished)
            unfinished.replace(file)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        sync(self._folder)

    def _compare(self, client: str, number: int, parts: Sequence[str]) -> None:
        """Raise `OtherRows` if parts are here, and differ from the batch that has entered."""
        with contextlib.suppress(Missing):
            digest = digest_of_parts(self._whole(client, number, parts))
            if self._input.differs(_name(client), _last(number), digest):
                raise OtherRows(client, number)

    def _whole(self, client: str, number: int, parts: Sequence[str]) -> pa.Table:
        """The rows of all parts, one after the other."""
        staged = self._staged(client, number)
        tables = [self._schema.empty_table()]
        for part in parts:
            try:
                tables.append(_mapped(staged / f"{path_part(part)}.arrow"))
            except FileNotFoundError:
                raise Missing(
                    f"part {part} of batch {number} is not here: write the batch again"
                ) from None
            except pa.ArrowException as error:
                raise Missing(
                    f"part {part} of batch {number} is damaged ({error}): write the batch again"
                ) from None
        return pa.concat_tables(tables)

    def _write_merged(
        self, client: str, number: int, parts: Sequence[str], unfinished: Path
    ) -> None:
        table = self._whole(client, number, parts)
        told = {
            _CLIENT: client.encode(),
            _NUMBER: str(number).encode(),
            _DIGEST: str(digest_of_parts(table)).encode(),
        }
        stamps: IntArray = table.column(0).to_numpy()
        order = None
        if len(stamps) > 1 and np.any(stamps[1:] < stamps[:-1]):
            order = np.argsort(stamps, kind="stable")
        with (
            unfinished.open("wb") as written,
            _writer(written, self._schema.with_metadata(told)) as writer,
        ):
            for begin in range(0, table.num_rows, PIECE_ROWS):
                piece = table.slice(begin, PIECE_ROWS)
                if order is not None:
                    piece = table.take(pa.array(order[begin : begin + PIECE_ROWS]))
                for batch in piece.combine_chunks().to_batches():
                    writer.write_batch(batch)

    def _staged(self, client: str, number: int) -> Path:
        return self._folder / _key(client, number)

    def _make_room(self, folder: Path, client: str, size_bytes: int) -> None:
        # Somebody may have removed the staged parts.
        self._sizes = {path: size for path, size in self._sizes.items() if path.exists()}
        if self._sizes.get(folder, 0) + size_bytes > self._most_bytes:
            raise TooLarge(
                f"the batch takes more than {self._most_bytes // 2**20} MiB: make batches smaller, "
                "or raise `staged`"
            )
        owner = _key(client, 0).split("-")[0]
        for other in list(self._sizes):
            former = other != folder and other.name.split("-")[0] == owner
            if former and _number(other) < _number(folder):
                self._drop(other)
        if sum(self._sizes.values()) + size_bytes <= self._most_bytes:
            return
        for other in list(self._sizes):
            with contextlib.suppress(FileNotFoundError):
                if other != folder and time.time() - other.stat().st_mtime > STALE_S:
                    self._drop(other)
        if sum(self._sizes.values()) + size_bytes > self._most_bytes:
            raise Full

    def _drop(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self._sizes.pop(folder, None)


def _mapped(file: Path) -> pa.Table:
    """The rows of a file, which is mapped. The disk may have damaged them since they were written.

    The mapping stays; the file is closed, because there may be more parts than open files.
    """
    with pa.memory_map(str(file)) as raw:
        table = ipc.open_file(raw).read_all()
    table.validate(full=True)
    return table


def digest_of_parts(table: pa.Table) -> int:
    """Of the rows in an order that depends on nothing else than their values.

    Arrow sorts some floats as equal that differ, such as 0.0 and -0.0: their bits are sorted.
    """
    for place, column in enumerate(table.columns):
        if column.type == pa.float64():
            bits = pa.chunked_array([each.view(pa.int64()) for each in column.chunks], pa.int64())
            table = table.set_column(place, table.column_names[place], bits)
    order = pc.sort_indices(table, [(name, "ascending") for name in table.column_names])
    digest = RowDigest()
    for begin in range(0, table.num_rows, PIECE_ROWS):
        for rows in table.take(order.slice(begin, PIECE_ROWS)).combine_chunks().to_batches():
            digest.update(rows)
    return digest.value


def _writer(raw: object, schema: pa.Schema) -> contextlib.closing[ipc.RecordBatchStreamWriter]:
    return contextlib.closing(ipc.new_file(raw, schema))


def _name(client: str) -> str:
    """The client's name in the journal: another one than for batches without parts."""
    return f"batches of {client}"


def _last(number: int) -> int:
    return number * PIECES + PIECES - 1


def _key(client: str, number: int) -> str:
    """A client may have any name; a folder may not."""
    return f"{hashlib.sha256(client.encode()).hexdigest()[:32]}-{number}"


def _number(folder: Path) -> int:
    return int(folder.name.split("-")[1])


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())
