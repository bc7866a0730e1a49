"""A site saves a journal in a savepoint, or says why it cannot."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from orchestrator.edges.sources.driver import JournalFiles, OpenSource, SourceContext
from orchestrator.edges.sources.journal_saving import Copying
from orchestrator.records import JournalCopy, SavedFile, StoredPosition
from streams.vectors.chunk import Position

WANTED = ("before", 7)


class Kept(OpenSource):
    """A source with two files."""

    resumes = True

    def copy(self) -> JournalFiles:
        """Its files."""
        begin = Position(next_seq=1, watermark_ms=10)
        end = Position(next_seq=5, watermark_ms=50)
        return JournalFiles(begin=begin, end=end, files=self._files())

    def _files(self) -> Iterator[tuple[str, bytes]]:
        yield "0.journal", b"old"
        yield "1.journal", b"newest"


def test_files_are_copied_under_the_name_of_their_stream() -> None:
    saved: dict[tuple[str, str], bytes] = {}

    def save(savepoint: str, file: str, content: bytes) -> None:
        saved[savepoint, file] = content

    copying = Copying("s", WANTED, Kept(), SourceContext(save=save))
    assert saved == {("before", "s.0.journal"): b"old", ("before", "s.1.journal"): b"newest"}
    assert copying.copy == JournalCopy(
        savepoint="before",
        asked_us=7,
        files=tuple(
            SavedFile(name=name, bytes=len(content), crc32=zlib.crc32(content))
            for name, content in (("0.journal", b"old"), ("1.journal", b"newest"))
        ),
        begin=StoredPosition(next_seq=1, watermark_ms=10),
        end=StoredPosition(next_seq=5, watermark_ms=50),
    )


def test_what_keeps_it_from_being_copied_is_told() -> None:
    copying = Copying("s", WANTED, Kept(), SourceContext())
    assert copying.copy is not None
    assert (copying.copy.files, copying.copy.end) == ((), None)
    assert copying.copy.why == "the cluster has no folder of savepoints"


def test_a_source_without_files_has_an_empty_copy() -> None:
    copying = Copying("s", WANTED, OpenSource(), SourceContext())
    assert copying.copy == JournalCopy(savepoint="before", asked_us=7)
