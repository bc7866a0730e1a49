"""What tests ask of a platform means the same on the rig and on a cluster that kubectl reaches,
which is the rig here, too."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platform.client import Platform, RealCluster, real_cluster
from tests.platform.kinds import CONFIG_MAP, NAMESPACE, POD, name_of
from tests.platform.rig import Rig, rig
from tests.platform.tools import TOOLS, Tool

pytestmark = [pytest.mark.platform, pytest.mark.slow]

POD_THAT_TELLS = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{{name: main, image: shell, command: [sh, -c, "echo told; exec sleep 600"]}}]
"""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path / "rig", isolated=False) as found:
        yield found


@pytest.fixture(params=TOOLS, ids=[tool.name for tool in TOOLS])
def kubectl(request: pytest.FixtureRequest) -> Path:
    tool: Tool = request.param
    if tool.missing:
        pytest.skip(f"{tool.name} is not there: `make setup-platform` fetches it")
    return tool.kubectl


def use(platform: Platform, folder: Path) -> None:
    """Do everything that tests do with a platform."""
    for name in ("first", "second"):
        platform.apply(POD_THAT_TELLS, name=name)
    platform.wait(lambda: sorted(platform.ready()) == ["first", "second"])
    (first,) = platform.pods(app="first")
    platform.wait(lambda: platform.log(first) == platform.log(first, "main") == "told\n")
    assert "-- second Running" in platform.tell()
    (folder / "there").mkdir()
    (folder / "there" / "kept").write_text("rows")
    platform.copy(first, str(folder / "there"), folder / "here")
    assert (folder / "here" / "kept").read_text() == "rows"
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "page"}}
    platform.put({**data, "data": {"level": "low"}})
    platform.put({**data, "data": {"level": "high"}})
    assert platform.get(CONFIG_MAP, "page")["data"] == {"level": "high"}
    platform.delete(POD, "first")
    platform.wait(lambda: [name_of(pod) for pod in platform.pods()] == ["second"])
    platform.delete(POD, "second", grace_s=1)
    platform.wait(lambda: not platform.pods())


def test_the_rig_is_a_platform(made: Rig, tmp_path: Path) -> None:
    use(made, tmp_path)


def test_a_cluster_that_kubectl_reaches_is_a_platform(
    made: Rig, kubectl: Path, tmp_path: Path
) -> None:
    use(RealCluster(kubectl, made.kubeconfig), tmp_path)


def test_commands_run_in_pods_and_files_are_copied_there(
    made: Rig, kubectl: Path, tmp_path: Path
) -> None:
    made.apply(POD_THAT_TELLS, name="first")
    made.wait(lambda: made.ready() == ["first"])

    def asks(*words: str, told: str = "") -> subprocess.CompletedProcess[str]:
        command = (str(kubectl), "--kubeconfig", str(made.kubeconfig), *words)
        return subprocess.run(command, input=told, capture_output=True, text=True, check=False)

    done = asks(
        "exec", "-i", "first", "--", "sh", "-c", "cat; echo no >&2; exit 3", told="x" * 99999
    )
    assert done.returncode == 3
    assert done.stdout == "x" * 99999
    assert done.stderr.startswith("no\n")
    (tmp_path / "rows").write_text("1\n" * 50_000)
    done = asks("cp", str(tmp_path / "rows"), f"first:{tmp_path}/copied")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "copied").read_text() == "1\n" * 50_000


def test_a_real_cluster_is_used_in_a_namespace_of_its_own(
    made: Rig, kubectl: Path, tmp_path: Path
) -> None:
    with real_cluster(kubectl, made.kubeconfig, tmp_path) as found:
        (space,) = (name for each in made.list(NAMESPACE) if (name := name_of(each)) != "default")
        found.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "page"}})
        assert found.get(CONFIG_MAP, "page")["metadata"]["namespace"] == space
        assert not made.list(CONFIG_MAP)
        assert found.kubeconfig.stat().st_mode & 0o077 == 0
    assert [name_of(each) for each in made.list(NAMESPACE)] == ["default"]
