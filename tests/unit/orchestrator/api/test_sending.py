"""Lines that are sent together."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orchestrator import api
from orchestrator.api.sending import (
    _address,  # pyright: ignore[reportPrivateUsage]
    _bodies,  # pyright: ignore[reportPrivateUsage]
    _token,  # pyright: ignore[reportPrivateUsage]
    opened,
)
from orchestrator.sources import spec_of
from orchestrator.sources.http import Http
from orchestrator.sources.replay import Replay
from tests.obedient_cluster import ObedientCluster, aircraft


def bodies(folder: Path, text: str) -> list[tuple[bytes, str]]:
    """What is sent of a file."""
    file = folder / "lines"
    file.write_text(text)
    with opened(file) as lines:
        return list(_bodies(lines, None))


def test_lines_of_csv_follow_their_header(tmp_path: Path) -> None:
    assert bodies(tmp_path, "at,k\n1,a\n2,b\n") == [(b"at,k\n1,a\n2,b\n", "text/csv")]


@pytest.mark.parametrize("text", ["1,a\n", "1,a"])
def test_a_single_line_is_sent_since_it_may_be_a_tuple_without_header(
    tmp_path: Path, text: str
) -> None:
    assert bodies(tmp_path, text) == [(b"1,a\n", "text/csv")]


@pytest.mark.parametrize("text", ["", "\n"])
def test_nothing_is_sent_of_an_empty_file(tmp_path: Path, text: str) -> None:
    assert bodies(tmp_path, text) == []


def test_a_stream_that_is_replayed_takes_no_lines() -> None:
    cluster = ObedientCluster()
    manifests = aircraft()
    north, south = manifests.streams
    span = Replay(path="/x.csv", begin_ms=0, end_ms=1)
    sources = spec_of("replay", span), spec_of("http", Http())
    cluster.apply(
        msgspec.structs.replace(
            manifests,
            streams=tuple(
                msgspec.structs.replace(
                    each, record=msgspec.structs.replace(each.record, source=source)
                )
                for each, source in zip((north, south), sources, strict=True)
            ),
        )
    )
    with pytest.raises(api.InvalidInput) as refused:
        _address(cluster.view(), "north")
    assert refused.value.problem == "takes no lines: its source is `replay`"
    assert refused.value.remedy.endswith("take lines; here: south.")


def test_token_file_that_is_not_here_is_named_with_its_stream_and_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ObedientCluster()
    manifests = aircraft()
    source = spec_of("http", Http(token_file=str(tmp_path / "token")))
    north, *others = manifests.streams
    north = msgspec.structs.replace(
        north, record=msgspec.structs.replace(north.record, source=source)
    )
    cluster.apply(msgspec.structs.replace(manifests, streams=(north, *others)))
    monkeypatch.delenv("VIVACE_TOKEN", raising=False)
    with pytest.raises(api.VivaceError) as refused:
        _token(cluster.view(), "north")
    assert refused.value.exit_status == 2
    assert str(refused.value) == (
        f"stream north: the token file {tmp_path / 'token'} cannot be read (No such file or "
        "directory). Send from where it can be read, or set VIVACE_TOKEN to the token"
    )
    monkeypatch.setenv("VIVACE_TOKEN", "a-token-of-a-person")
    assert _token(cluster.view(), "north") == "a-token-of-a-person"
