"""A site saves the journal of a stream in a savepoint.

The folder may be slow. So the copy is made on a thread of its own where sources are opened on such
threads, too. The journal grows meanwhile; what was written when the copy began is copied.
"""

from __future__ import annotations

import threading
import zlib
from typing import Any

from orchestrator.edges.sources.driver import OpenSource, SourceContext
from orchestrator.edges.supervision import kept
from orchestrator.records import JournalCopy, SavedFile, StoredPosition
from streams.vectors.chunk import Position


def file_name(stream: str, journal_file: str) -> str:
    """The name of a journal's file in a savepoint."""
    return f"{stream}.{journal_file}"


class Copying:
    """The copy of one stream's journal for one savepoint.

    Attributes
    ----------
    wanted
        Its name, and when it was asked for.
    copy
        What has become of it; None: it is being made.
    """

    def __init__(
        self, stream: str, wanted: tuple[str, int], source: OpenSource, context: SourceContext
    ) -> None:
        self.wanted = wanted
        self.copy: JournalCopy | None = None
        self._stream, self._source, self._context = stream, source, context
        if context.opens_aside:
            threading.Thread(target=self._run, name="saving", daemon=True).start()
        else:
            self._run()

    def _run(self) -> None:
        try:
            self.copy = self._made()
        except Exception as error:  # noqa: BLE001  The savepoint says why it fails.
            self.copy = self._told(why=str(kept(error, "journal")) or repr(error))
        self._context.wake()

    def _made(self) -> JournalCopy:
        found = self._source.copy()
        if found is None:
            return self._told()
        files: list[SavedFile] = []
        for name, content in found.files:
            self._context.save(self.wanted[0], file_name(self._stream, name), content)
            files.append(SavedFile(name=name, bytes=len(content), crc32=zlib.crc32(content)))
        begin, end = _stored(found.begin), _stored(found.end)
        return self._told(files=tuple(files), begin=begin, end=end)

    def _told(self, **fields: Any) -> JournalCopy:
        return JournalCopy(savepoint=self.wanted[0], asked_us=self.wanted[1], **fields)


def _stored(position: Position) -> StoredPosition:
    return StoredPosition(next_seq=position.next_seq, watermark_ms=position.watermark_ms)
