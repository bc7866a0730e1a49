"""The lines of a file or pipe on their way into a stream: bodies of whole lines, also sorted.

A site takes a body as a whole or not at all. Of a body that it refuses, the lines that cannot be
read are found here, with the code that the site uses
(`orchestrator.edges.sources.formats.formats`).

*Sorting.* What is held of each line is its timestamp and where it lies in the file, about 75 bytes;
the lines themselves are read again from the file in the order of event time. A pipe is written to a
temporary file first.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import stat
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from foundation.arrays import IntArray
from orchestrator.edges.sources.formats.formats import newlines, salvage
from orchestrator.edges.sources.formats.row_form import BOM, Format, RowForm, first_seen
from orchestrator.errors import InvalidInput

BODY_BYTES = 2**20
"""Lines that are sent together, if so many are there."""

MOST_LINE_BYTES = 2**20

MOST_SORTED = 2**25
"""Lines of a file that is sorted: they take 2.5 GB of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """Lines that are sent together.

    Attributes
    ----------
    header
        The line that names the columns of CSV, with its end; of JSON nothing.
    lines
        With their ends.
    first
        Number of the first one in its file, from 1.
    begin
        Where it begins there, bytes.
    """

    written: Format
    header: bytes
    lines: bytes
    first: int = 1
    begin: int = 0

    @property
    def content(self) -> bytes:
        """What is sent."""
        return self.header + self.lines

    @property
    def each(self) -> list[bytes]:
        """The lines with their ends."""
        return [line + b"\n" for line in self.lines.split(b"\n")[:-1]]

    def having(self, lines: Iterable[bytes]) -> Body:
        """Others in their place."""
        return Body(written=self.written, header=self.header, lines=b"".join(lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that cannot be read.

    Attributes
    ----------
    number
        Of the line in its file, from 1.
    place
        Of the line in its body, from 0.
    """

    number: int
    place: int
    line: bytes
    reason: str


def opened(path: Path) -> BinaryIO:
    """A file of lines.

    Raises
    ------
    InvalidInput
        It cannot be read.
    """
    try:
        return path.open("rb", buffering=0)
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InvalidInput(str(path), "", None, problem, "Check the path.") from None


def bodies(lines: BinaryIO, written: Format | None) -> Iterator[Body]:
    """Whole lines, together as far as they are there; CSV with its header.

    A header without lines is sent, too: it may be a tuple of a file that lacks its header, which
    the site then refuses.

    Parameters
    ----------
    written
        None: as the first line looks.
    """
    header, count, number, at = b"", 0, 1, 0
    for part in _parts(lines):
        # Empty lines may come before the header, and a BOM before all.
        body = (part if at else part.removeprefix(BOM)).lstrip(b"\r\n")
        left_out = part[: len(part) - len(body)]
        number, at = number + left_out.count(b"\n"), at + len(left_out)
        if not body:
            continue
        if written is None:
            written = Format.JSON if first_seen(body) == b"{" else Format.CSV
        if written is Format.CSV and not header:
            header, _, body = body.partition(b"\n")
            if b"\r" in header.rstrip(b"\r"):
                raise InvalidInput(
                    "", "lines", None, "has lines that end with CR alone",
                    "Have them end with LF, or CR and LF.",
                )  # fmt: skip
            header += b"\n"
            number, at = number + 1, at + len(header)
        if first_seen(body):
            count += 1
            yield Body(written=written, header=header, lines=body, first=number, begin=at)
        number, at = number + newlines(body), at + len(body)
    if header and not count:
        yield Body(written=Format.CSV, header=header, lines=b"")


def bad_lines(form: RowForm, body: Body) -> tuple[list[IntArray], list[BadLine]]:
    """The timestamps of a body's tuples, ms, and its lines that cannot be read; both in order."""
    bad: list[BadLine] = []

    def reject(number: int, line: bytes, reason: str) -> None:
        bad.append(BadLine(number=number, place=number - body.first, line=line, reason=reason))

    header = body.header.rstrip(b"\r\n") if body.written is Format.CSV else None
    text = body.lines.removesuffix(b"\n")
    found = salvage(form, body.written, text, reject, header=header, first=body.first)
    return [rows.column(0).to_numpy() for rows in found], bad


def without(body: Body, bad: list[BadLine]) -> Body:
    """A body without some of its lines."""
    left_out = {each.place for each in bad}
    return body.having(line for place, line in enumerate(body.each) if place not in left_out)


def before(body: Body, bad: BadLine) -> Body:
    """The lines of a body in front of one of them."""
    return body.having(body.each[: bad.place])


def lines_left(lines: BinaryIO, body: Body, bad: BadLine) -> int | None:
    """How many lines there are from one of a body on, until the end; None if that is a pipe's."""
    if not stat.S_ISREG(os.fstat(lines.fileno()).st_mode):
        return None
    rest = body.lines.count(b"\n") - bad.place
    ends = b"\n"
    while data := os.read(lines.fileno(), BODY_BYTES):
        rest += data.count(b"\n")
        ends = data
    return rest + (not ends.endswith(b"\n"))


def sorted_bodies(
    lines: BinaryIO,
    written: Format | None,
    form: RowForm,
    reject: Callable[[Body, list[BadLine]], None],
) -> Iterator[Body]:
    """The lines of a file in the order of event time; of equal timestamps, in the file's.

    Parameters
    ----------
    reject
        Told a body's lines that cannot be read, before any line is sent.

    Raises
    ------
    InvalidInput
        There are more than `MOST_SORTED`.
    """
    with file_of(lines) as file:
        times, starts, sizes, like = _index(file, written, form, reject)
        if like is None or not len(times):
            return
        order = np.argsort(times, kind="stable")
        ends = np.cumsum(sizes[order])
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            begin = 0
            while begin < len(order):
                sent = int(ends[begin - 1]) if begin else 0
                end = max(int(np.searchsorted(ends, sent + BODY_BYTES, side="right")), begin + 1)
                chosen = [
                    data[start : start + size]
                    for start, size in zip(
                        starts[order[begin:end]].tolist(),
                        sizes[order[begin:end]].tolist(),
                        strict=True,
                    )
                ]
                yield like.having([each.rstrip(b"\r\n") + b"\n" for each in chosen])
                begin = end


def _index(
    file: BinaryIO,
    written: Format | None,
    form: RowForm,
    reject: Callable[[Body, list[BadLine]], None],
) -> tuple[IntArray, IntArray, IntArray, Body | None]:
    """Timestamp, place and length of each line that can be read, and a body of the file."""
    times: list[IntArray] = []
    starts: list[IntArray] = []
    sizes: list[IntArray] = []
    like: Body | None = None
    count = 0
    for body in bodies(file, written):
        found, bad = bad_lines(form, body)
        if bad:
            reject(body, bad)
        left_out = {each.place for each in bad}
        lines = body.each
        begins = body.begin + np.cumsum([0, *map(len, lines)])
        kept = [p for p, line in enumerate(lines) if line.strip() and p not in left_out]
        times += found
        starts.append(begins[kept])
        sizes.append(np.diff(begins)[kept])
        count, like = count + len(kept), body
        if count > MOST_SORTED:
            raise InvalidInput(
                "", "is_sorted", None, f"sorts {MOST_SORTED:,} lines at most",
                "Sort the file by its timestamps beforehand, and send it without --sort.",
            )  # fmt: skip
    return _joined(times), _joined(starts), _joined(sizes), like


def _joined(parts: list[IntArray]) -> IntArray:
    return np.concatenate(parts or [np.zeros(0, dtype=np.int64)])


@contextlib.contextmanager
def file_of(lines: BinaryIO) -> Generator[BinaryIO]:
    """The same as a file from its beginning; what a pipe gives is written to one."""
    if stat.S_ISREG(os.fstat(lines.fileno()).st_mode):
        yield lines
        return
    with tempfile.TemporaryFile(buffering=0) as file:
        while data := os.read(lines.fileno(), BODY_BYTES):
            file.write(data)
        file.seek(0)
        yield file


def _parts(lines: BinaryIO) -> Iterator[bytes]:
    """Whole lines, as many as are there."""
    rest = b""
    number = lines.fileno()
    while data := os.read(number, BODY_BYTES):
        rest += data
        if len(rest) < BODY_BYTES and _has_more(number):
            continue
        whole, newline, rest = rest.rpartition(b"\n")
        if newline:
            yield whole + newline
        if len(rest) > MOST_LINE_BYTES:
            raise InvalidInput(
                "", "lines", None, "has a line that is too long", "Send shorter lines."
            )
    if first_seen(rest):
        yield rest if rest.endswith(b"\n") else rest + b"\n"


def _has_more(number: int) -> bool:
    """Whether a read would return at once."""
    return bool(select.select([number], [], [], 0)[0])
