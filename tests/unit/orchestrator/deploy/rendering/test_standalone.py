"""What `vivace render standalone` writes: files that go together, and one place for secrets."""

from __future__ import annotations

import configparser
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.deploy.config import read_config
from orchestrator.deploy.rendering.machine_files import MachinePaths
from orchestrator.deploy.rendering.machines import WEB, Address, laid_out
from orchestrator.deploy.rendering.standalone import render_standalone
from orchestrator.errors import InvalidInput
from orchestrator.manifest import ClusterManifest, load
from orchestrator.results.rendering import RenderDocument

CLUSTER = """\
# Nobody needs this comment there.
kind: Cluster
name: demo
nodes: [{name: one, region: north}, {name: two, region: south}, {name: three, region: north}]
sites: [{name: desk, region: south}]
latencies: table.csv
coordinators: 2
zookeeper: {servers: 3}
applications: [{name: east, nodes: [one, two]}, {name: west, nodes: [three]}]
"""

TABLE = ",north,south\nnorth,1,20\nsouth,20,1\n"

MACHINES = ("a=10.0.0.1", "b=10.0.0.2", "c=10.0.0.3")

GOLDEN = Path(__file__).with_name("golden") / "machine-a.txt"

SHOWN = ("start", "vivace.yaml", "zoo.cfg", "spark/spark-defaults.conf", "systemd/vivace.target",
         "systemd/vivace-driver-east.service")  # fmt: skip


def manifest(folder: Path, text: str = CLUSTER) -> ClusterManifest:
    (folder / "table.csv").write_text(TABLE)
    (folder / "cluster.yaml").write_text(text)
    found = load([folder / "cluster.yaml"]).cluster
    assert found is not None
    return found


def rendered(folder: Path, name: str = "out") -> tuple[Path, RenderDocument]:
    out = folder / name
    return out, render_standalone(manifest(folder), MACHINES, out)


def texts(machine: Path) -> dict[str, str]:
    """The files of a machine."""
    found = (each for each in sorted(machine.rglob("*")) if each.is_file())
    return {each.relative_to(machine).as_posix(): each.read_text() for each in found}


def test_files_of_a_machine(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    out, _ = rendered(tmp_path)
    found = texts(out / "a")
    shown = "".join(f"── {name}\n{found[name]}" for name in SHOWN)
    if pytestconfig.getoption("--refresh-golden"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(shown)
    assert shown == GOLDEN.read_text()


def test_pages_of_spark_are_served_to_their_own_machine_alone(tmp_path: Path) -> None:
    out, _ = rendered(tmp_path)
    script = texts(out / "a")["start"]
    for process in ("master", "worker"):
        (steps,) = re.findall(
            rf"^        {process}\)$(.*?)^ *;;$", script, re.MULTILINE | re.DOTALL
        )
        assert "export SPARK_LOCAL_IP=127.0.0.1" in steps, process


def test_scripts_are_valid_and_refuse_what_the_machine_does_not_have(tmp_path: Path) -> None:
    out, document = rendered(tmp_path)
    for machine in document.machines:
        script = out / machine / "start"
        assert script.stat().st_mode & 0o111
        for file in (script, out / machine / "spark" / "spark-env.sh"):
            subprocess.run(["sh", "-n", str(file)], check=True)


class UnitFile(configparser.ConfigParser):
    """Names of options are told apart by case, as systemd does."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def test_units_start_what_the_script_knows(tmp_path: Path) -> None:
    out, document = rendered(tmp_path)
    for machine, processes in document.machines.items():
        found = texts(out / machine)
        units = {name: text for name, text in found.items() if name.endswith(".service")}
        assert sorted(units) == sorted(f"systemd/vivace-{name}.service" for name in processes)
        for text in (*units.values(), found["systemd/vivace.target"]):
            unit = UnitFile(interpolation=None)
            unit.read_string(text)
            if "Service" in unit:
                script, process = unit["Service"]["ExecStart"].split()
                assert (script, f"        {process})\n" in found["start"]) == (
                    "/etc/vivace/start",
                    True,
                )
            else:
                wanted = {f"systemd/{name}" for name in unit["Unit"]["Wants"].split()}
                assert wanted == units.keys()


def test_only_secret_files_have_secrets_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    out, document = rendered(tmp_path)
    secret = {each.path for each in document.files if each.mode == "0600"}
    assert secret == {each.path for each in document.files if "/secrets/" in each.path}
    known = {
        word for path in secret for word in re.findall(r"[\w-]{40,}", (out / path).read_text())
    }
    assert len(known) == 4
    for each in document.files:
        file = out / each.path
        assert f"{file.stat().st_mode & 0o777:04o}" == each.mode
        if each.path not in secret:
            assert not [word for word in known if word in file.read_text()], each.path


def test_every_file_that_is_named_is_there(tmp_path: Path) -> None:
    out, document = rendered(tmp_path)
    for machine in document.machines:
        found = texts(out / machine)
        for name, text in found.items():
            named = re.findall(r"(?:/etc/vivace|\$here)/([\w./-]*[\w])", text)
            missing = {each for each in named if each not in found and each != "spark"}
            assert not missing, (machine, name)


def test_processes_read_their_configuration(tmp_path: Path) -> None:
    out, document = rendered(tmp_path)
    for machine, processes in document.machines.items():
        for process in processes:
            kind, _, name = process.partition("-")
            variables = {"VIVACE_APPLICATION" if kind == "driver" else "VIVACE_SITE": name}
            config = read_config(out / machine / "vivace.yaml", variables if name else {})
            assert config.zookeeper == "10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181"
            assert config.executors_read_secret
            if kind == "driver":
                assert config.own_application().name == name
            if kind == "site":
                assert config.site_spec().region == "south"


def test_rendered_again_everything_is_the_same_and_secrets_stay(tmp_path: Path) -> None:
    out, first = rendered(tmp_path)
    before = texts(out)
    with pytest.raises(InvalidInput, match="is not empty"):
        rendered(tmp_path)
    (out / "a" / "notes").write_text("mine")
    again = render_standalone(manifest(tmp_path), MACHINES, out, overwrite=True)
    assert texts(out) == {**before, "a/notes": "mine"}
    assert (again.files, "a/notes" in again.remarks[-1]) == (first.files, True)
    elsewhere = texts(rendered(tmp_path, "elsewhere")[0])
    differing = {name for name, text in before.items() if elsewhere[name] != text}
    assert differing == {name for name in before if "/secrets/" in name}


@pytest.mark.parametrize(
    ("machines", "placed", "problem"),
    [
        ((), (), "--machine: is missing"),
        (("10.0.0.1",), (), "names no machine"),
        (("A=10.0.0.1",), (), "names no machine"),
        (("a=10.0.0.1/8",), (), "names no machine"),
        (("a=10.0.0.1", "b=10.0.0.1"), (), "is there already"),
        (("a=10.0.0.1", "b=10.0.0.2"), (), "is more than there are machines"),
        (MACHINES, ("site-desks=b",), "is no process"),
        (MACHINES, ("site-desk=d",), "is on no machine"),
        (MACHINES, ("web=a", "web=b"), "is placed twice"),
        (MACHINES, ("worker=a",), "is no process that can be placed"),
    ],
)
def test_what_cannot_be_used_is_refused_and_nothing_is_written(
    machines: tuple[str, ...], placed: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(InvalidInput, match=problem):
        render_standalone(manifest(tmp_path), machines, out, placed=placed)
    assert not out.exists()


@pytest.mark.parametrize(
    "paths",
    [MachinePaths(folder="etc"), MachinePaths(data="/var/my data"), MachinePaths(user="me; rm")],
)
def test_scripts_and_units_can_name_all_places(paths: MachinePaths, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"is no path|cannot be a user"):
        render_standalone(manifest(tmp_path), MACHINES, tmp_path / "out", paths=paths)


def test_a_zookeeper_that_there_is_is_used(tmp_path: Path) -> None:
    text = CLUSTER.replace("{servers: 3}", "zk:2181")
    document = render_standalone(manifest(tmp_path, text), ("a=one.example",), tmp_path / "out")
    assert document.machines["a"][0] == "master"
    assert "zookeeper: zk:2181\n" in (tmp_path / "out" / "a" / "vivace.yaml").read_text()
    assert not (tmp_path / "out" / "a" / "zoo.cfg").exists()


@given(st.integers(3, 9), st.integers(0, 3), st.integers(0, 8))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None
)
def test_each_process_has_one_machine_and_the_others_have_room_for_one_that_is_lost(
    tmp_path: Path, count: int, more_nodes: int, wish: int
) -> None:
    nodes = "".join(f", {{name: n{number}, region: north}}" for number in range(more_nodes))
    text = CLUSTER.replace("region: north}]", f"region: north}}{nodes}]")
    text = text.replace(
        "nodes: [three]", f"nodes: [three{''.join(f', n{i}' for i in range(more_nodes))}]"
    )
    machines = [Address(f"m{number}", f"10.0.0.{number + 1}") for number in range(count)]
    wished = machines[wish % count]
    layout = laid_out(manifest(tmp_path, text), machines, [f"site-desk={wished.name}"])
    assert layout.sites == {"site-desk": wished}
    assert layout.coordinators.keys() == {"coordinator-1", "coordinator-2"}
    assert layout.applications.keys() == {"driver-east", "driver-west"}
    assert layout.web.keys() == {WEB}
    assert len({*layout.servers}) == 3
    assert layout.cores * (count - 1) >= 3 + more_nodes > layout.cores * (count - 1) - (count - 1)
