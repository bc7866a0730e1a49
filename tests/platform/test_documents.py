"""The pages on installing, block by block as a reader would type them: that on Kubernetes on rigs,
that on several machines on such with systemd."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from orchestrator.embedded.java import Java
from orchestrator.embedded.packages import source_root
from scripts.run_docs import Run, run_page
from tests.platform.booted_machines import booted_machines, lacking
from tests.platform.network import may_isolate, network
from tests.platform.released import CHART
from tests.platform.rig import restricted_rig
from tests.platform.tools import TOOLS
from tests.round_trip.conftest import Say

pytestmark = [
    pytest.mark.platform,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(not may_isolate(), reason="no namespaces can be made here: takes root"),
]

PAGES = source_root() / "docs" / "operations"

ADDRESSES = {"one": "10.0.0.1", "two": "10.0.0.2", "three": "10.0.0.3"}
"""As the page has them."""

PATIENCE_S = 1500


def shell(folder: Path, say: Say, **variables: str) -> Run:
    """The reader's own machine: a folder with what the repository holds."""
    for each in ("charts", "examples", "build"):
        link = folder / each
        if not link.exists():
            link.symlink_to(source_root() / each)
    environment = {**os.environ, **variables}

    def run(text: str) -> None:
        done = subprocess.run(
            ["bash", "-eu", "-c", text],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
            timeout=PATIENCE_S,
        )  # fmt: skip
        say("printed", f"{done.stdout}{done.stderr}")
        assert done.returncode == 0, f"{text}{done.stdout}{done.stderr}"

    return run


@contextmanager
def reader(java: Java, folder: Path, say: Say) -> Generator[Run]:
    """Somebody who has a platform of his own, kubectl and helm."""
    tool = TOOLS[-1]
    with restricted_rig(folder, java) as rig:
        path = f"{tool.helm.parent}:{tool.kubectl.parent}:{os.environ['PATH']}"
        own = {"KUBECONFIG": str(rig.kubeconfig), "HOME": str(folder), "PATH": path}
        run = shell(folder, say, **own)

        def runs(text: str) -> None:
            try:
                run(text)
            except AssertionError as failed:
                raise AssertionError(f"{failed}\n{rig.tell()}") from failed

        yield runs


def test_the_page_on_kubernetes(java: Java, tmp_path: Path, say: Say) -> None:
    numbers = iter(range(100))

    def on_another(text: str, *before: str) -> None:
        """What a reader types instead of what comes before."""
        folder = tmp_path / f"other-{next(numbers)}"
        folder.mkdir()
        with reader(java, folder, say) as run:
            for each in (*before, text):
                run(each)

    def beside(text: str) -> None:
        """What a reader types where the namespace is there."""
        on_another(text, "kubectl create namespace vivace")

    with reader(java, tmp_path, say) as run:
        places = {"here": run, "another": on_another, "beside": beside}
        run_page(PAGES / "install-kubernetes.md", places)


def test_the_charts_own_page(java: Java, tmp_path: Path, say: Say) -> None:
    with reader(java, tmp_path, say) as run:
        run_page(CHART / "README.md", {"here": run})
        run("helm status plant --namespace vivace | grep 'STATUS: deployed'")


@pytest.mark.skipif(bool(lacking()), reason=f"not on this machine: {lacking()}")
def test_the_page_on_several_machines(tmp_path: Path, say: Say) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    config = tmp_path / "ssh_config"
    hosts = "".join(f"Host {name}\n HostName {where}\n" for name, where in ADDRESSES.items())
    config.write_text(
        f"{hosts}Host *\n IdentityFile {key}\n StrictHostKeyChecking no\n"
        " UserKnownHostsFile /dev/null\n"
    )
    work = tmp_path / "work"
    work.mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATH": path, "RSYNC_RSH": f"ssh -F {config}", "VIVACE_HOME": str(tmp_path / "home")}
    with ExitStack() as stack:
        net = stack.enter_context(network(isolated=True, number=0))
        machines = stack.enter_context(booted_machines(net, tmp_path, ADDRESSES, key))

        def on(name: str) -> Run:
            def run(text: str) -> None:
                done = machines[name].run(text)
                say(name, f"{done.stdout}{done.stderr}")
                assert done.returncode == 0, f"{text}{done.stdout}{done.stderr}\n{tell(name)}"

            return run

        def tell(name: str) -> str:
            return machines[name].run("journalctl --no-pager --lines 200").stdout

        def each(text: str) -> None:
            for name in machines:
                on(name)(text)

        places = {"here": shell(work, say, **own), "each": each, **{n: on(n) for n in machines}}
        run_page(PAGES / "install-standalone.md", places)
