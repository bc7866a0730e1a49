"""The source driver `folder`: files that others put into a folder, each read once.

A file must appear as a whole, by a rename within the file system; names that begin with a dot or an
underscore are left alone until then. `orchestrator.edges.sources.live.folder_readers` says which
file is read next: by the order of names, or by the numbers in them. Two sites that read by number
read alike.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from orchestrator.documents.document import Field, Options, Section
from orchestrator.edges.drivers import DriverError, Unusable
from orchestrator.edges.sources.driver import OpenSource, SourceContext
from orchestrator.edges.sources.formats.files import SUFFIXES, read_file
from orchestrator.edges.sources.formats.row_form import Unreadable
from orchestrator.edges.sources.live.folder_readers import (
    ByName,
    ByNumber,
    FileNames,
    is_text,
    names_in,
)
from orchestrator.edges.sources.live.live_source import LiveSource
from orchestrator.records import SourceAssignment

if TYPE_CHECKING:
    from orchestrator.edges.site_check import SiteCheck


class Folder(LiveSource, frozen=True, kw_only=True):
    """Files that appear in a folder of the site.

    Attributes
    ----------
    path
        Absolute path of the folder.
    every_ms
        How often the site looks for new files.
    names
        The names of the files, with `#` for the digits of their numbers; None: any names that rise.
    """

    path: str
    every_ms: float = 1000.0
    names: str | None = None

    own_options: ClassVar[Options] = {
        "every_ms": ("every", Field.interval_ms),
        "names": ("names", lambda field: _names(field)),
    }

    @classmethod
    def read(cls, section: Section) -> Self:
        """The manifest's `from: {folder: …}`."""
        return cls(path=str(section.need("path").path()), **cls.given(section))

    @property
    def unlike(self) -> str | None:
        """Without numbers, which files are refused depends on when a site looks."""
        return self.lacks({"`names` with numbers, such as `readings-######.csv`": bool(self.names)})

    def check(self, assignment: SourceAssignment, site: SiteCheck) -> None:
        """Look into the folder, and into the file that would be read first, if there is one."""
        super().check(assignment, site)
        path = Path(self.path)
        if not path.is_dir():
            raise Unusable(
                "path", path, "is no folder at the site", "Make it, or correct the path."
            )
        if not os.access(path, os.R_OK | os.X_OK):
            raise Unusable(
                "path", path, "cannot be read by the site", "Let the site's user read it."
            )
        names = [name for name in names_in(path) if is_text(name)]
        if self.names is not None:
            names = [name for name in names if name == FileNames(self.names)[0]]
        for name in names[:1]:
            try:
                read_file(path / name, self.form(assignment))
            except Unreadable as error:
                raise Unusable(
                    "path",
                    path,
                    f"has {name}, which cannot be read: {error}",
                    "Correct the stream's columns, or take the file away.",
                ) from None

    def open(self, assignment: SourceAssignment, context: SourceContext) -> OpenSource:
        """Begin to read."""
        path = Path(self.path)
        if not path.is_dir():
            raise DriverError(f"there is no folder {path}")
        opened = self.input(assignment, context)
        opened.address = str(path)
        form, every_s = self.form(assignment), self.every_ms / 1000
        if self.names is None:
            reader = ByName(path, form, opened, every_s)
        else:
            reader = ByNumber(path, form, opened, every_s, FileNames(self.names))
        opened.on_close(reader.close)
        opened.start()
        reader.start()
        return opened


def _names(field: Field) -> str:
    pattern = field.text()
    try:
        FileNames(pattern)
    except ValueError:
        field.refuse(
            "does not name files by number",
            "Write `#` for each digit, in one place, such as readings-######.csv.",
        )
    if Path(pattern).suffix.lower() not in SUFFIXES:
        field.refuse("is no kind of file", f"Its name ends with one of {', '.join(SUFFIXES)}.")
    return pattern
