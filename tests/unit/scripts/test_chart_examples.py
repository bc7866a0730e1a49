"""The examples as values of the chart."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from orchestrator.api.sizing import cluster_sizes
from orchestrator.manifest import load
from scripts.chart_docs import CHART
from scripts.chart_examples import EXAMPLES, FOLDER, MANIFESTS, values
from tests.platform.quantities import amount

LIMITS = {
    "driver": ("drivers", "resources", "limits", "memory"),
    "site": ("siteDefaults", "resources", "limits", "memory"),
    "coordinator": ("coordinators", "resources", "limits", "memory"),
    "web": ("web", "resources", "limits", "memory"),
    "zookeeper": ("zookeeper", "resources", "limits", "memory"),
}
"""Process → where the chart's values have the limit of its container."""

MIB = 2**20


@pytest.mark.parametrize("name", MANIFESTS)
def test_values_are_up_to_date(name: str) -> None:
    found = (FOLDER / f"{name}.yaml").read_text("utf-8")
    assert found == values(name), "run `python -m scripts.chart_examples`"


def chosen(given: dict[str, Any], path: tuple[str, ...]) -> Any:
    for step in path:
        given = given[step]
    return given


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_charts_own_limits_are_no_less_than_what_vivace_size_tells(name: str) -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    files = ("cluster.yaml", *MANIFESTS[name])
    document = cluster_sizes(load([EXAMPLES / name / file for file in files]))
    sizes = {each.process: each for each in document.processes}
    overhead = defaults["executors"]["overhead"].removesuffix("m")
    assert int(overhead) >= sizes["executor"].overhead_mib
    for process, path in LIMITS.items():
        assert amount(chosen(defaults, path)) >= sizes[process].limit_mib * MIB, process
    # The chart gives a server a heap of its own.
    heap = int(defaults["zookeeper"]["heap"].removesuffix("m"))
    needed = (heap + sizes["zookeeper"].overhead_mib) * MIB
    assert amount(chosen(defaults, LIMITS["zookeeper"])) >= needed
