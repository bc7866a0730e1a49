"""Readers of the folder of a source `folder`: which file comes next, and how it enters.

Each file enters in pieces, numbered within the file. A site that is killed within a file reads it
again when it starts again, and the pieces that are in the journal do not enter twice.

*By name.* All files are read, in the order of their names, which must rise: a file whose name comes
before one that was read already is refused, and counted. So the name of the last file is all that
the journal has to remember. Which files are refused depends on when a site looks.

*By number.* The names are known beforehand: `readings-######.csv` stands for readings-000000.csv,
readings-000001.csv and so on. The next one is waited for, whatever else is there. So every site
reads the same, whenever it looks. A file that cannot be read at all now, such as on a disk that is
out of reach, is waited for too; one whose content is no such rows is refused, as at any other site.
"""

from __future__ import annotations

import io
import os
import re
import threading
from pathlib import Path

import pyarrow as pa

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.sources.formats.files import read_file, read_rows, read_whole
from orchestrator.edges.sources.formats.row_form import RowForm, Unreadable
from orchestrator.edges.sources.live.journal import MOST_CLIENTS
from orchestrator.edges.sources.live.live_input import LiveInput

PIECE_ROWS = 65_536
"""Rows that enter at once."""

CLIENT = "file "
"""Before the name of a file, it is the client that its pieces come from."""

LAST = 2**53
"""Number of the end of a file that has a name, after all pieces."""

PIECES = 2**20
"""Numbers of a file that has one: one for each piece, and the last one for its end."""


def names_in(folder: Path) -> list[str]:
    """The files of a folder in the order of their names, without those that are being written."""
    names = sorted(each.name for each in folder.iterdir() if each.is_file())
    return [name for name in names if name[0] not in "._"]


def is_text(name: str) -> bool:
    """Whether the bytes of a file's name are UTF-8."""
    return name.isascii() or os.fsencode(name).decode(errors="replace") == name


class FolderReader:
    """Looks at a folder, again and again, on a thread of its own."""

    def __init__(self, path: Path, form: RowForm, opened: LiveInput, every_s: float) -> None:
        self.path = path
        self.form = form
        self.input = opened
        self.ends = threading.Event()
        self._every_s = every_s
        self._thread = threading.Thread(target=self._run, name=f"folder {path}", daemon=True)

    def start(self) -> None:
        """Begin to look for files."""
        self._thread.start()

    def close(self) -> None:
        """End after the piece that is being read."""
        self.ends.set()

    def look(self) -> None:
        """Let enter what is there.

        Raises
        ------
        OSError
            The folder or a file cannot be read now.
        """
        raise NotImplementedError

    def unreachable(self, error: OSError) -> None:
        """The folder or a file cannot be read now."""
        raise NotImplementedError

    def enter(self, rows: pa.RecordBatch, client: str, first: int, last: int) -> bool:
        """Let a file enter in pieces with rising numbers, then its end; returns whether all has."""
        for number, begin in enumerate(range(0, rows.num_rows, PIECE_ROWS), first):
            if self.ends.is_set():
                return False
            piece = rows.slice(begin, PIECE_ROWS)
            self.input.push(piece, client=client, number=number, in_order=True)
        self.input.push(rows.slice(0, 0), client=client, number=last)
        return True

    def refused(self, name: str, error: Unreadable) -> pa.RecordBatch:
        """Count a file whose content is no such rows; returns what enters instead."""
        self.input.rejections.malformed(name.encode(), f"{name}, {error}")
        return pa.RecordBatch.from_pylist([], schema=self.form.schema)

    def _run(self) -> None:
        while not self.ends.is_set():
            try:
                self.look()
            except OSError as error:
                self.unreachable(error)
            except DriverError:
                # The source has failed or ends. The host opens it again.
                return
            except Exception as error:  # noqa: BLE001  Whatever it is, the host opens the source again.
                self.input.fail(error)
                return
            self.ends.wait(self._every_s)


class ByName(FolderReader):
    """Reads all files in the order of their names."""

    def __init__(self, path: Path, form: RowForm, opened: LiveInput, every_s: float) -> None:
        super().__init__(path, form, opened, every_s)
        self._refused: set[str] = set()
        self._last = max(
            (c.removeprefix(CLIENT) for c in opened.clients if c.startswith(CLIENT)), default=""
        )
        """The last file that was begun; other processes may have read it."""
        self._done = opened.has(CLIENT + self._last, LAST)
        self._read_names: set[str] = set()
        known = [c.removeprefix(CLIENT) for c in opened.clients if c.startswith(CLIENT)]
        self._oldest = min(known, default="") if len(opened.clients) >= MOST_CLIENTS else ""
        """Names before this one are forgotten: their files have been read, or refused."""

    def look(self) -> None:
        """Read the files that are new."""
        for name in names_in(self.path):
            if not self.ends.is_set():
                self._look_at(name)

    def unreachable(self, error: OSError) -> None:
        """Count it: the folder may be there when the site looks again."""
        self.input.rejections.malformed(str(self.path).encode(), str(error))

    def _look_at(self, name: str) -> None:
        if not is_text(name):
            # Neither the journal nor a message could hold it.
            if name not in self._refused:
                self._refused.add(name)
                self.input.rejections.malformed(os.fsencode(name), "its name is not UTF-8")
        elif name == self._last and not self._done:
            self._read(name)
        elif name > self._last:
            self._last = name
            self._read(name)
        elif name < self._last and name not in self._refused and not self._was_read(name):
            self._refused.add(name)
            self.input.rejections.malformed(
                name.encode(), f"the file comes after {self._last}, whose name is greater"
            )

    def _was_read(self, name: str) -> bool:
        is_known = name in self._read_names or self.input.has(CLIENT + name, LAST)
        return is_known or name < self._oldest

    def _read(self, name: str) -> None:
        self._done = False
        try:
            rows = read_file(self.path / name, self.form, self.input.rejections.ignored)
        except Unreadable as error:
            rows = self.refused(name, error)
        self._done = self.enter(rows, CLIENT + name, 0, LAST)
        self._read_names.add(name)


class FileNames:
    """The names of files by number.

    Parameters
    ----------
    pattern
        With one run of `#`, as many as a number has digits at least.

    Raises
    ------
    ValueError
        The pattern has no such run, or more than one, or is no name of a file.
    """

    def __init__(self, pattern: str) -> None:
        runs = re.findall("#+", pattern)
        if len(runs) != 1:
            raise ValueError(pattern)
        if "/" in pattern or pattern[0] in "._":
            raise ValueError(pattern)
        self._before, self._after = pattern.split(runs[0])
        self._digits = len(runs[0])

    def __getitem__(self, number: int) -> str:
        """The name of a file."""
        return f"{self._before}{number:0{self._digits}}{self._after}"

    def number(self, name: str) -> int | None:
        """The number of a file; None if it is none of these."""
        if not (name.startswith(self._before) and name.endswith(self._after)):
            return None
        digits = name[len(self._before) : len(name) - len(self._after)]
        number = int(digits) if digits.isascii() and digits.isdigit() else None
        return number if number is not None and self[number] == name else None


class ByNumber(FolderReader):
    """Reads the files whose names have a number, one after the other, from 0 on."""

    def __init__(
        self, path: Path, form: RowForm, opened: LiveInput, every_s: float, names: FileNames
    ) -> None:
        super().__init__(path, form, opened, every_s)
        self._names = names
        self._client = f"{CLIENT}{names[0]}"
        last = opened.last(self._client)
        self._next = 0 if last is None else (last + 1) // PIECES
        """The file that is read next, or was begun; the end of a file has its greatest number."""

    def look(self) -> None:
        """Read what follows, as far as it is there."""
        while not self.ends.is_set():
            name = self._names[self._next]
            try:
                data = read_whole(self.path / name)
                rows = read_rows(
                    Path(name).suffix,
                    io.BytesIO(data),
                    self.form,
                    self.input.rejections.ignored,
                )
            except FileNotFoundError:
                self._miss(name)
                return
            except Unreadable as error:
                rows = self.refused(name, error)
            self.input.wait_for(None)
            first = self._next * PIECES
            if not self.enter(rows, self._client, first, first + PIECES - 1):
                return
            self._next += 1

    def unreachable(self, error: OSError) -> None:
        """Wait for it, and say so."""
        self.input.wait_for(f"{error}; waiting")

    def _miss(self, name: str) -> None:
        """The next file is not there. Say so if others are that come after it."""
        numbers = [self._names.number(each.name) for each in self.path.iterdir()]
        later = min((n for n in numbers if n is not None and n > self._next), default=None)
        if later is None or (self.path / name).exists():
            self.input.wait_for(None)
        else:
            missing = f"{self.path / name} is missing, and {self._names[later]} is there; waiting"
            self.input.wait_for(missing)
