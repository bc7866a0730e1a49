"""helm installs, upgrades and takes back a small chart on the rig, as on any platform."""

from __future__ import annotations

import base64
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from orchestrator.embedded.packages import source_root
from tests.platform.helm import Helm
from tests.platform.kinds import CLAIM, DEPLOYMENT, POD, STATEFUL_SET, Object, name_of
from tests.platform.rig import Rig, rig
from tests.platform.tools import TOOLS, Tool

pytestmark = [pytest.mark.platform, pytest.mark.slow, pytest.mark.timeout(600)]

CHART = Path(__file__).parent / "chart"

VIVACE = source_root() / "charts" / "vivace"

COORDINATOR = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: r-vivace-coordinator}
spec:
  replicas: 0
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers: [{name: c, image: i}]
      volumes: [{name: secret, secret: {secretName: mine, items: [{key: word, path: secret}]}}]
"""

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
    # What it replaces may still be ending.
    platform.wait(lambda: len(platform.ready(app="r")) == 3, "three pods are left")
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


OWNED: Object = {
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
    "annotations": {
        "meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "default"
    },
}  # fmt: skip
"""What helm writes into what it makes."""


def put_secret(platform: Rig, name: str, **data: str) -> None:
    given = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    platform.put({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **OWNED}, "data": given
    })  # fmt: skip


@pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])
def test_a_release_keeps_the_secret_that_its_store_opens_with(
    tool: Tool, platform: Rig, tmp_path: Path
) -> None:
    helm = Helm(tool, platform, tmp_path)

    def rendered(*given: str) -> subprocess.CompletedProcess[str]:
        options = [option for each in given for option in ("--set", each)]
        return helm.run("install", "r", str(VIVACE), "--dry-run=server", *options)

    def drawn(*given: str) -> dict[str, str]:
        done = rendered(*given)
        assert done.returncode == 0, done.stderr
        documents = yaml.safe_load_all(done.stdout.partition("MANIFEST:")[2].partition("NOTES:")[0])
        secrets = [each for each in documents if each and each["kind"] == "Secret"]
        (found,) = (each for each in secrets if name_of(each) == "r-vivace-secret")
        return {key: base64.b64decode(text).decode() for key, text in found["data"].items()}

    def refused(*given: str) -> str:
        done = rendered(*given)
        assert done.returncode != 0
        return done.stderr

    put_secret(platform, "r-vivace-secret", secret="first")
    assert drawn() == {"secret": "first"}
    assert drawn("secret.key=other") == {"other": "first"}
    put_secret(platform, "yours", secret="another")
    assert '"yours" holds another secret than the one in "r-vi' in refused("secret.existing=yours")
    assert '"nowhere" holds another secret' in refused("secret.existing=nowhere")

    put_secret(platform, "mine", word="second")
    coordinator = yaml.safe_load(COORDINATOR)
    coordinator["metadata"].update(OWNED)
    platform.put(coordinator)
    assert 'runs with the secret in "mine", and another one would be drawn' in refused()
    assert '"yours" holds another secret than the one in "mine"' in refused("secret.existing=yours")
    put_secret(platform, "copied", secret="second")
    for given in (("mine", "word"), ("copied", "secret")):
        done = rendered(f"secret.existing={given[0]}", f"secret.key={given[1]}")
        assert done.returncode == 0, done.stderr
