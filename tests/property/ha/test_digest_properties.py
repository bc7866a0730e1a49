"""Digests agree for equal output however it is cut, and differ when a tuple does."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from ha.digest import INTERVAL_MS, OutputDigests
from streams.vectors.chunk import Chunk
from tests.streams_of_numbers import chunk, cut

groups_of = st.lists(st.integers(0, 3), min_size=1, max_size=20).map(
    lambda counts: [(INTERVAL_MS // 3 * (i + 1), count) for i, count in enumerate(counts)]
)
cuts = st.lists(st.integers(0, 20), max_size=8)


def digests(chunks: list[Chunk], since_ms: int | None = None) -> OutputDigests:
    made = OutputDigests() if since_ms is None else OutputDigests(since_ms)
    for each in chunks:
        made.add(each)
    return made


@given(groups_of, cuts, cuts)
def test_equal_output_has_equal_digests(
    groups: list[tuple[int, int]], one: list[int], other: list[int]
) -> None:
    ours, theirs = digests(cut(groups, one)), digests(cut(groups, other))
    assert ours.newest(1) == theirs.newest(1)
    newest = theirs.newest(1)
    assert newest is None or not ours.differs(newest)


@given(groups_of, cuts, st.integers(0, 19))
@example([(INTERVAL_MS // 3 * (i + 1), 1) for i in range(4)], [], 0)
def test_a_replica_that_begins_later_agrees_on_whole_intervals(
    groups: list[tuple[int, int]], ends: list[int], begin: int
) -> None:
    begin = min(begin, len(groups) - 1)
    since_ms = groups[begin][0]
    known = sum(count for _, count in groups[: begin + 1])
    rest = [(ts, count) for ts, count in groups if ts > since_ms]
    later = digests([chunk(known, rest)] if rest else [], since_ms)
    whole = digests(cut(groups, ends))
    for one, other in ((whole, later), (later, whole)):
        newest = one.newest(1)
        assert newest is None or not other.differs(newest)


@given(groups_of, cuts, st.integers(0, 60))
def test_a_tuple_too_many_shows(groups: list[tuple[int, int]], ends: list[int], at: int) -> None:
    at %= len(groups)
    more = [(ts, count + (i == at)) for i, (ts, count) in enumerate(groups)]
    end = (groups[-1][0] + 2 * INTERVAL_MS, 1)
    ours, theirs = digests(cut([*groups, end], ends)), digests([chunk(0, [*more, end])])
    # In its own interval by its content, in a later one by the numbers that follow it.
    newest = theirs.newest(1)
    assert newest is not None
    assert ours.differs(newest)
