"""A support bundle has what helps, and neither secrets nor the content of streams."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import msgspec
import pytest

from orchestrator.api.connection import Cluster
from orchestrator.cli.main import run
from orchestrator.clock import now_us
from orchestrator.records import HistoryEvent, InputStatus, SourceStatus, TokenRecord
from orchestrator.store.protocol import TOKENS
from tests.obedient_cluster import ObedientCluster, aircraft
from tests.printed_verbs import listening
from tests.served_cluster import TOKEN, reach, served
from vivace import contexts

pytestmark = pytest.mark.slow

PLANTED = "geheim-0123456789"


def plant(cluster: ObedientCluster, logs: Path) -> None:
    """Put a secret, and the content of streams, wherever they may be."""
    quoted = f'last at 5 ms, bad; tuples 1 of north: [{{"id": "{PLANTED}"}}]'
    told = HistoryEvent(
        at_us=now_us(), kind="tuples rejected", subject="q.f", detail=f"2 more, 2 in all; {quoted}"
    )
    cluster.store.append_history(told)
    digest = TokenRecord(sha256=PLANTED, role="read", created_us=0)
    cluster.store.create(TOKENS.key("t-1"), digest)
    host = cluster.hosts["north-receiver"]
    source = SourceStatus(next_seq=1, input=InputStatus(last_rejected=f"no number: {PLANTED}"))
    problem = f"f: evaluation failed: f cannot be evaluated: no number: {PLANTED}"
    host.tell(sources={"north": source}, problems=(problem,))
    logs.mkdir()
    (logs / "site-north-receiver.log").write_text(
        f"12:00 vivace.site north malformed: no number: {PLANTED}\n"
        f"12:01 vivace.site Authorization: Bearer {PLANTED}\n12:02 vivace.site all is well\n"
    )


def contents(file: Path) -> dict[str, str]:
    """The files of a bundle, without the folder."""
    found: dict[str, str] = {}
    with tarfile.open(file) as archive:
        for each in archive.getmembers():
            opened = archive.extractfile(each)
            assert opened is not None
            found[each.name.partition("/")[2]] = opened.read().decode()
    return found


def test_a_bundle_has_no_secrets_and_no_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VIVACE_HOME", str(tmp_path / "home"))
    folder = msgspec.structs.replace(reach(), folder=str(tmp_path))
    monkeypatch.setattr("tests.served_cluster.reach", lambda: folder)
    cluster = ObedientCluster()
    cluster.now_us = now_us()
    cluster.apply(aircraft())
    cluster.settle()
    plant(cluster, Path(Cluster(folder, cluster.store).reach.logs or ""))
    file = tmp_path / "bundle.tar.gz"
    with served(cluster) as opened, listening(opened.client) as address:
        contexts.add_local("air", contexts.Context(api=address), TOKEN, tmp_path / "home")
        assert run(["support-bundle", "--out", str(file), "--json"]) == 0
    bundle = json.loads(capsys.readouterr().out)
    assert file.stat().st_mode & 0o077 == 0
    texts = contents(file)
    assert {*bundle["files"]} == {*texts}
    assert {*texts} >= {
        "status.json", "records.json", "plan.json", "topology.json", "history.json", "drills.json",
        "metrics.txt", "versions.json", "logs/north-receiver.log",
    }  # fmt: skip
    for name, text in texts.items():
        assert PLANTED not in text, name
        assert TOKEN not in text, name
    assert "all is well" in texts["logs/north-receiver.log"]
    assert "fragments/proximity.alerts" in json.loads(texts["records.json"])["records"]
    assert not [path for path in json.loads(texts["records.json"])["records"] if "token" in path]
