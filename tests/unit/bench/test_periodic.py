"""What benchmark `periodic` counts."""

from __future__ import annotations

from pathlib import Path

from bench.periodic import TIGHT_MS, late, workload


def test_without_a_release_nothing_is_late(tmp_path: Path) -> None:
    manifests = workload(tmp_path, [], 3)
    assert late(manifests, {}) == {"releases": 0, "miss_pct": 0, "latency_ms_max": 0}
    assert workload(tmp_path, [TIGHT_MS], 3).queries[0].record.deadline_of("report_0") == TIGHT_MS
