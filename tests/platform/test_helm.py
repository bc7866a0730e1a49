"""helm installs, upgrades and takes back a small chart on the rig, as on any platform."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.platform.helm import Helm
from tests.platform.kinds import CLAIM, DEPLOYMENT, POD, STATEFUL_SET, name_of
from tests.platform.rig import Rig, rig
from tests.platform.tools import TOOLS, Tool

pytestmark = [pytest.mark.platform, pytest.mark.slow, pytest.mark.timeout(600)]

CHART = Path(__file__).parent / "chart"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path / "rig") as made:
        yield made


@pytest.fixture(params=TOOLS, ids=[tool.name for tool in TOOLS])
def helm(request: pytest.FixtureRequest, platform: Rig, tmp_path: Path) -> Run:
    tool: Tool = request.param
    made = Helm(tool, platform, tmp_path)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        waits = ("--wait", "--timeout", "90s") if arguments[0] != "history" else ()
        return made.run(*arguments, *waits)

    return run


def page(platform: Rig) -> str:
    """What some web server of the release serves."""
    pod = platform.objects.get(POD, "default", platform.ready(app="r")[0])
    with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8000/") as response:
        return response.read().decode()


def test_a_chart_is_installed_upgraded_refused_and_taken_back(platform: Rig, helm: Run) -> None:
    done = helm("install", "r", str(CHART))
    assert done.returncode == 0, done.stderr + platform.tell()
    assert len(platform.ready(app="r")) == 2
    assert page(platform) == "first"
    assert "applied first" in platform.log(platform.pods(**{"job-name": "r-after"})[0])

    done = helm("upgrade", "r", str(CHART), "--set", "text=second,replicas=3")
    assert done.returncode == 0, done.stderr + platform.tell()
    assert len(platform.ready(app="r")) == 3
    assert page(platform) == "second"

    done = helm("upgrade", "r", str(CHART), "--set", "wrong=true")
    assert done.returncode != 0
    assert "'hostNetwrk' was unexpected" in done.stderr
    done = helm("upgrade", "r", str(CHART), "--set", "replicas=0")
    assert done.returncode != 0
    assert "replicas" in done.stderr
    done = helm("upgrade", "r", str(CHART), "--set", "fails=true")
    assert done.returncode != 0

    done = helm("rollback", "r", "2")
    assert done.returncode == 0, done.stderr + platform.tell()
    platform.wait(lambda: len(platform.ready(app="r")) == 3 and page(platform) == "second")
    told = helm("history", "r").stdout
    assert told.count("failed") >= 2
    assert "deployed" in told

    done = helm("uninstall", "r")
    assert done.returncode == 0, done.stderr
    assert not platform.objects.list(DEPLOYMENT)
    assert not platform.objects.list(STATEFUL_SET)
    platform.wait(lambda: not platform.pods(app="r"), "all pods of the release are gone")
    # Volumes are not a release's to remove.
    names = {name_of(claim) for claim in platform.objects.list(CLAIM)}
    assert names == {"data-r-member-0", "data-r-member-1"}
