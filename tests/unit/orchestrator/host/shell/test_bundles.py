"""Bundles of messages: what was packed comes out again, and nothing else is taken for a bundle."""

from __future__ import annotations

import pytest

from orchestrator.host.shell.bundles import PART_FLAG, Bundled, head, opened


def test_messages_come_out_as_they_were_packed() -> None:
    frames = [b"a", b"b", b"c"]
    assert opened([head(-7, [2, 1 | PART_FLAG]), *frames]) == (
        -7,
        [Bundled(is_part=False, frames=[b"a", b"b"]), Bundled(is_part=True, frames=[b"c"])],
    )
    assert opened([head(7, [])]) == (7, [])


@pytest.mark.parametrize(
    "bundle",
    [
        [],
        [b"short"],
        [head(7, [1]) + b"x", b"a"],
        [head(7, [0])],
        [head(7, [PART_FLAG])],
        [head(7, [2]), b"a"],
        [head(7, [1]), b"a", b"b"],
    ],
    ids=["nothing", "no time", "torn length", "no frame", "no frame of a part", "few", "many"],
)
def test_frames_that_do_not_fit_are_no_bundle(bundle: list[bytes]) -> None:
    assert opened(bundle) is None
