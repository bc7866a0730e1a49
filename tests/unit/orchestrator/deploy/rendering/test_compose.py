"""What `vivace render compose` writes: one container, which may do little."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from orchestrator.deploy.rendering.compose import render_compose
from orchestrator.errors import InvalidInput
from orchestrator.manifest import load
from tests.unit.orchestrator.deploy.rendering.test_standalone import manifest


def test_one_container_runs_the_whole_cluster(tmp_path: Path) -> None:
    out = tmp_path / "out"
    document = render_compose(manifest(tmp_path), out)
    assert [each.path for each in document.files] == [
        "cluster.yaml",
        "compose.yaml",
        "latencies.csv",
    ]
    found = yaml.safe_load((out / "compose.yaml").read_text())
    (service,) = found["services"].values()
    assert service["command"][:3] == ["vivace", "up", "--foreground"]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    mounted = [each.split(":")[0] for each in service["volumes"]]
    assert mounted[0] in found["volumes"]
    assert all((out / each).is_file() for each in mounted[1:])
    copied = load([out / "cluster.yaml"]).cluster
    assert copied is not None
    assert (copied.name, copied.latencies) == ("demo", (out / "latencies.csv").absolute())


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    found = manifest(tmp_path)
    with pytest.raises(InvalidInput, match="is not empty"):
        render_compose(found, tmp_path)
    render_compose(found, tmp_path, image="other:1", overwrite=True)
    assert "image: other:1\n" in (tmp_path / "compose.yaml").read_text()
    with pytest.raises(InvalidInput, match="cannot be used"):
        render_compose(found, tmp_path / "table.csv")
