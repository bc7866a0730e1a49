"""Streams that lines are sent to, and their tokens."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orchestrator import api
from orchestrator.api.sending import _token  # pyright: ignore[reportPrivateUsage]
from orchestrator.api.stream_entries import stream_entry
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.http import Http
from orchestrator.edges.sources.replay import Replay
from tests.obedient_cluster import ObedientCluster, aircraft
from tests.unit.orchestrator.api.test_operations import connected


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
        stream_entry(connected(cluster), "north")
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
        _token(cluster.view().stream_records["north"])
    assert refused.value.exit_status == 2
    assert str(refused.value) == (
        f"stream north: the token file {tmp_path / 'token'} cannot be read (No such file or "
        "directory). Send from where it can be read, or set VIVACE_TOKEN to the token"
    )
    monkeypatch.setenv("VIVACE_TOKEN", "a-token-of-a-person")
    assert _token(cluster.view().stream_records["north"]) == "a-token-of-a-person"
