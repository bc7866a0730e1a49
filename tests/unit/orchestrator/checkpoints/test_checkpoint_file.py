"""Files of checkpoints: whole, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.checkpoints.checkpoint_file import (
    FORMAT,
    CheckpointHead,
    CheckpointRefused,
    read,
    read_head,
    write,
)
from orchestrator.records import StoredCheckpoint, StoredPosition

GOLDEN = Path(__file__).parent / "golden"

HEAD = CheckpointHead(
    cluster="sea",
    cluster_id="5ea",
    query="q",
    fragment="f",
    program="0123456789abcdef",
    vivace="0.1.0",
    wire=13,
    stored=StoredCheckpoint(
        name="7-1000-n1.checkpoint",
        at_us=1_000_000,
        generation=7,
        inputs={"s": (3, StoredPosition(next_seq=5, watermark_ms=1000))},
        log_base=StoredPosition(next_seq=1, watermark_ms=900),
        output=StoredPosition(next_seq=2, watermark_ms=1000),
    ),
)
PIECES = [b"first", b"", b"third piece"]


def content() -> bytes:
    return b"".join(write(HEAD, PIECES))


def test_what_was_written_is_read_again() -> None:
    assert read(content()) == (HEAD, PIECES)
    assert read_head(content()) == HEAD


@pytest.mark.parametrize("length", range(0, len(b"".join(write(HEAD, PIECES))), 7))
def test_a_file_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(CheckpointRefused, match="is damaged"):
        read(content()[:length])


@pytest.mark.parametrize("at", range(6, len(b"".join(write(HEAD, PIECES))), 5))
def test_a_flipped_bit_is_noticed(at: int) -> None:
    damaged = bytearray(content())
    damaged[at] ^= 0x10
    with pytest.raises(CheckpointRefused, match="is damaged"):
        read(bytes(damaged))


def test_what_follows_the_end_is_damage() -> None:
    with pytest.raises(CheckpointRefused, match="other pieces than were written"):
        read(content() + b"x")


def test_a_format_of_the_future_says_what_to_start() -> None:
    future = content()[:4] + (FORMAT + 1).to_bytes(2, "big") + content()[6:]
    with pytest.raises(CheckpointRefused, match=r"reads up to .*: a newer version"):
        read(future)


def test_every_format_so_far_can_be_read() -> None:
    for version in range(1, FORMAT + 1):
        kept = (GOLDEN / f"format-{version}.checkpoint").read_bytes()
        assert read(kept) == (HEAD, PIECES)
