"""The source driver `folder`: files that others put into a folder, each read once.

Files are read in the order of their names, which must rise: a file whose name comes before one that
was read already is refused, and counted. So the name of the last file is all that the journal has
to remember. A file must appear as a whole, by a rename within the file system; names that begin
with a dot or an underscore are left alone until then.

Each file enters in pieces, numbered within the file. A site that is killed within a file reads it
again when it starts again, and the pieces that are in the journal do not enter twice.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa

from orchestrator.drivers import DriverError
from orchestrator.manifest.document import Options, Section
from orchestrator.manifest.units import duration_ms
from orchestrator.records import SourceAssignment
from orchestrator.sources.driver import OpenSource, SourceContext
from orchestrator.sources.files import read_file
from orchestrator.sources.formats import RowForm, Unreadable
from orchestrator.sources.live import LiveSource
from orchestrator.sources.live_input import LiveInput

PIECE_ROWS = 65_536
"""Rows that enter at once."""

CLIENT = "file "
"""Before the name of a file, it is the client that its pieces come from."""

LAST = 2**53
"""Number of the end of a file, after all pieces."""


class Folder(LiveSource, frozen=True, kw_only=True):
    """Files that appear in a folder of the site.

    Attributes
    ----------
    path
        Absolute path of the folder.
    every_ms
        How often the site looks for new files.
    """

    path: str
    every_ms: float = 1000.0

    own_options: ClassVar[Options] = {
        "every_ms": ("every", lambda field: field.quantity(duration_ms, positive=True)),
    }

    @classmethod
    def read(cls, section: Section) -> Self:
        """The manifest's `from: {folder: …}`."""
        return cls(path=str(section.need("path").path()), **cls.given(section))

    @property
    def unlike(self) -> str | None:
        """Which files are refused depends on when a site looks."""
        return "a site may look into the folder before a file is there that another one finds"

    def open(self, assignment: SourceAssignment, context: SourceContext) -> OpenSource:
        """Begin to read."""
        path = Path(self.path)
        if not path.is_dir():
            raise DriverError(f"there is no folder {path}")
        opened = self.input(assignment, context)
        opened.address = str(path)
        reader = Reader(path, self.form(assignment), opened, self.every_ms / 1000)
        opened.on_close(reader.close)
        opened.start()
        reader.start()
        return opened


class Reader:
    """Reads the files of one folder on a thread of its own."""

    def __init__(self, path: Path, form: RowForm, opened: LiveInput, every_s: float) -> None:
        self._path = path
        self._form = form
        self._input = opened
        self._every_s = every_s
        self._ends = threading.Event()
        self._refused: set[str] = set()
        self._last = max(
            (c.removeprefix(CLIENT) for c in opened.clients if c.startswith(CLIENT)), default=""
        )
        """The last file that was begun; other processes may have read it."""
        self._done = opened.has(CLIENT + self._last, LAST)
        self._thread = threading.Thread(target=self._run, name=f"folder {path}", daemon=True)

    def start(self) -> None:
        """Begin to look for files."""
        self._thread.start()

    def close(self) -> None:
        """End after the piece that is being read."""
        self._ends.set()

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                names = sorted(each.name for each in self._path.iterdir() if each.is_file())
                for name in names:
                    if name[0] not in "._" and not self._ends.is_set():
                        self._look_at(name)
            except OSError as error:
                self._input.rejections.malformed(str(self._path).encode(), str(error))
            except DriverError:
                # The source has failed or ends. The host opens it again.
                return
            self._ends.wait(self._every_s)

    def _look_at(self, name: str) -> None:
        if name == self._last and not self._done:
            self._read(name)
        elif name > self._last:
            self._last = name
            self._read(name)
        elif name < self._last and name not in self._refused and not self._was_read(name):
            self._refused.add(name)
            self._input.rejections.malformed(
                name.encode(), f"the file comes after {self._last}, whose name is greater"
            )

    def _was_read(self, name: str) -> bool:
        return self._input.has(CLIENT + name, LAST)

    def _read(self, name: str) -> None:
        self._done = False
        client = CLIENT + name
        try:
            rows = read_file(self._path / name, self._form)
        except Unreadable as error:
            self._input.rejections.malformed(name.encode(), str(error))
            rows = pa.RecordBatch.from_pylist([], schema=self._form.schema)
        for number, begin in enumerate(range(0, rows.num_rows, PIECE_ROWS)):
            if self._ends.is_set():
                return
            self._input.push(rows.slice(begin, PIECE_ROWS), client=client, number=number)
        self._input.push(rows.slice(0, 0), client=client, number=LAST)
        self._done = True
