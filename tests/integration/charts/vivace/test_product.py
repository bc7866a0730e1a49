"""The product itself takes the files that the chart makes for it."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from orchestrator.api import cluster_sizes
from orchestrator.deploy.config import VARIABLES, read_config
from orchestrator.embedded.packages import source_root
from orchestrator.manifest import load
from orchestrator.spark.hosts.kubernetes import APPLICATION_LABEL, MOST_LABEL, label_value
from scripts.chart_docs import CHART
from streams.scheduling.run_queue import Policy
from tests.integration.charts.vivace.rendering import (
    COMPONENT,
    SCENARIOS,
    Rendered,
    labels_of,
    render,
)
from tests.platform.quantities import amount

pytestmark = [pytest.mark.chart, pytest.mark.slow]

EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))


@pytest.mark.parametrize("file", [*SCENARIOS, *EXAMPLES], ids=lambda file: file.stem)
def test_each_process_reads_its_configuration(file: Path, tmp_path: Path) -> None:
    found = render(tmp_path, file)
    for name, text in found.one("ConfigMap", "-cluster")["data"].items():
        (tmp_path / name).write_text(text)
    names = {"VIVACE_SECRET": "secret"}
    for owner, pod in found.pods():
        container = pod["spec"]["containers"][0]
        given = {each["name"]: each.get("value", "here") for each in container["env"]}
        known = {key: value for key, value in given.items() if key in VARIABLES.values()}
        files = {name for name in known if name.endswith(("_FILE", "CERTIFICATE", "_KEY"))}
        component = labels_of(pod)[COMPONENT]
        if component in ("zookeeper", "job", "executor"):
            continue
        assert given["VIVACE_CONFIG"] == "/etc/vivace/vivace.yaml", owner
        rest = {key: value for key, value in known.items() if key not in files}
        config = read_config(tmp_path / "vivace.yaml", {**names, **rest})
        if component == "site":
            assert config.site_spec().node == labels_of(pod)["vivace-site"]
        if component == "driver":
            assert config.on_kubernetes
            assert config.own_application().name == labels_of(pod)["vivace-application"]


def manifest_files(found: Rendered, folder: Path) -> Iterator[Path]:
    """The manifests of a release, as files."""
    for name in ("-cluster", "-queries"):
        for file, text in found.one("ConfigMap", name)["data"].items():
            (folder / file).write_text(text)
            if file.endswith(".yaml") and file != "vivace.yaml":
                yield folder / file


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_streams_and_queries_of_examples_fit_their_cluster(file: Path, tmp_path: Path) -> None:
    manifests = load([*manifest_files(render(tmp_path, file), tmp_path)])
    assert manifests.cluster is not None
    assert manifests.streams
    assert manifests.queries


def test_the_chart_has_each_setting_of_the_manifest_that_it_does_not_make_itself() -> None:
    page = (source_root() / "docs" / "manifests.md").read_text("utf-8")
    (table,) = re.findall(r"^## Cluster$(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    fields = {*re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)}
    own = {"name", "nodes", "sites", "latencies", "executorMemory", "applications"}
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    assert {*values["cluster"]["settings"]} == fields - own - {"coordinators", "zookeeper"}
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    settings = schema["properties"]["cluster"]["properties"]["settings"]["properties"]
    assert {*settings["scheduling"]["enum"]} == {None, *(policy.value for policy in Policy)}


def requests_of(found: Rendered) -> dict[str, tuple[int, float, float]]:
    """Component → how many pods it has, and what each requests: processors and MiB."""
    manifest = yaml.safe_load(found.one("ConfigMap", "-cluster")["data"]["cluster.yaml"])
    spark = yaml.safe_load(found.one("ConfigMap", "-cluster")["data"]["vivace.yaml"])
    cores = amount(spark["sparkSettings"]["spark.kubernetes.executor.request.cores"])
    # Spark writes its sizes as Java does.
    sizes = (manifest["executorMemory"], spark["sparkSettings"]["spark.executor.memoryOverhead"])
    mib = sum(int(size.removesuffix("m")) for size in sizes)
    asked = {"executor": (len(manifest["nodes"]), float(cores), float(mib))}
    for owner, pod in found.pods():
        kind, _, name = owner.partition(" ")
        if kind in ("Deployment", "StatefulSet"):
            each = found.find(kind, name)
            assert each is not None
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            component = labels_of(pod)[COMPONENT]
            before = asked.get(component, (0, 0.0, 0.0))[0]
            mib = float(amount(requests["memory"]) / 2**20)
            count = before + each["spec"]["replicas"]
            asked[component] = (count, float(amount(requests["cpu"])), mib)
    return asked


def test_the_pages_say_what_the_default_requests(tmp_path: Path) -> None:
    asked = requests_of(render(tmp_path, {})).values()
    cores = sum(count * each for count, each, _ in asked)
    memory_gib = math.ceil(sum(count * each for count, _, each in asked) / 2**10)
    folder = source_root() / "docs" / "operations"
    page = (folder / "install-kubernetes.md").read_text("utf-8")
    said = re.search(r"It requests ([0-9.]+) cores and ([0-9]+) GiB", page)
    assert said is not None
    assert (float(said[1]), int(said[2])) == (cores, memory_gib)
    other = re.search(r"request ([0-9.]+)\s+processors", (folder / "size.md").read_text("utf-8"))
    assert other is not None
    assert float(other[1]) == cores


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_each_pod_of_an_example_requests_what_vivace_size_says(file: Path, tmp_path: Path) -> None:
    found = render(tmp_path, file)
    sizes = cluster_sizes(load([*manifest_files(found, tmp_path)]))
    asked = requests_of(found)
    for each in sizes.processes:
        _, cores, mib = asked[each.process]
        assert cores == each.cores, each.process
        assert mib >= each.limit_mib, each.process


def test_the_chart_is_of_the_products_version() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    product = tomllib.loads((source_root() / "pyproject.toml").read_text("utf-8"))
    assert about["version"] == about["appVersion"] == product["project"]["version"]


def test_labels_by_which_budgets_choose_executors_are_those_that_the_host_pool_gives(
    tmp_path: Path,
) -> None:
    name = "a" * (MOST_LABEL - 1)
    applications = [{"name": name, "nodes": 2}, {"name": "b", "nodes": 2}]
    found = render(tmp_path, {"applications": applications, "cluster": {"name": "plant"}})
    chosen = {
        each["spec"]["selector"]["matchLabels"].get(APPLICATION_LABEL)
        for each in found.of("PodDisruptionBudget")
    }
    assert chosen == {None, label_value(name), "b"}
