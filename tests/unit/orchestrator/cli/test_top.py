"""What `vivace top` shows after which key, and how rows are sorted."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator import api
from orchestrator.cli.render.kinds import KINDS, OUTPUTS
from orchestrator.cli.top import Shown

FIRST = Shown(kind="fragments", column="cores")


def test_keys_are_those_of_htop() -> None:
    assert FIRST.after("<").column == "input lost"
    assert FIRST.after(">").column == "tuples/s"
    assert FIRST.after("\x1b[C") == FIRST.after(">")
    assert FIRST.after("i").is_inverted
    assert FIRST.after(" ").is_paused
    assert not FIRST.after(" ").after(" ").is_paused
    assert FIRST.after("x") == FIRST
    for key in ("q", "\x1b[21~", "\x03"):
        assert FIRST.after(key).has_ended


def test_tab_goes_through_the_kinds() -> None:
    shown = FIRST
    for kind in [*[*KINDS][1:], "fragments"]:
        shown = shown.after("\t")
        assert (shown.kind, shown.column) == (kind, KINDS[kind].first)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_column_to_sort_by_is_there(kind: str) -> None:
    assert KINDS[kind].first in [each.title for each in KINDS[kind].kind.columns]


def test_figures_are_sorted_the_greatest_first_and_what_is_not_known_last() -> None:
    output = api.OutputStatus(
        query="q", stream="a", site="s", deadline_ms=1.0, next_seq=0, watermark_ms=None, rows=0,
        latency_ms_p50=None, latency_ms_p99=None, deadline_misses=0, completed_timestamps=0,
        lost=0, repeated=0,
    )  # fmt: skip
    b = msgspec.structs.replace(output, stream="b", latency_ms_p99=5.0)
    c = msgspec.structs.replace(output, stream="c", latency_ms_p99=7.0)
    assert [each.stream for each in OUTPUTS.sorted_by([output, b, c], "p99")] == ["c", "b", "a"]
    assert [each.stream for each in OUTPUTS.sorted_by([c, output, b], "stream")] == ["a", "b", "c"]
