"""The manifests of part `site` of `failover`: the workload of our half at two sites."""

from __future__ import annotations

from pathlib import Path

from bench import site_failover
from bench.ours_failover import write_input
from orchestrator.manifest import load


def test_both_kinds_of_source_may_enter_at_two_sites(tmp_path: Path) -> None:
    file = site_failover.at_two_sites(write_input(tmp_path, 2, "exit"))
    text = site_failover.from_kafka(file.read_text(), "here:1")
    (tmp_path / "kafka.yaml").write_text(text)
    for path, driver in ((file, "replay"), (tmp_path / "kafka.yaml", "kafka")):
        manifests = load([path])
        (stream,) = manifests.streams
        assert stream.record.sites == ("edge", "spare")
        assert stream.record.source is not None
        assert stream.record.source.driver == driver
        assert manifests.cluster is not None
        assert [site.name for site in manifests.cluster.sites] == ["edge", "spare", "exit"]
