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

RESOURCES = {
    "driver": "drivers",
    "site": "siteDefaults",
    "coordinator": "coordinators",
    "web": "web",
    "zookeeper": "zookeeper",
}
"""Process → where the chart's values have the resources of its container."""

MIB = 2**20


@pytest.mark.parametrize("name", MANIFESTS)
def test_values_are_up_to_date(name: str) -> None:
    found = (FOLDER / f"{name}.yaml").read_text("utf-8")
    assert found == values(name), "run `python -m scripts.chart_examples`"


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_chart_requests_and_limits_no_less_than_vivace_size_tells(name: str) -> None:
    defaults: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    files = ("cluster.yaml", *MANIFESTS[name])
    document = cluster_sizes(load([EXAMPLES / name / file for file in files]))
    sizes = {each.process: each for each in document.processes}
    overhead = defaults["executors"]["overhead"].removesuffix("m")
    assert int(overhead) >= sizes["executor"].overhead_mib
    assert amount(defaults["executors"]["cpu"]["request"]) == sizes["executor"].cores
    for process, where in RESOURCES.items():
        requests, limits = (defaults[where]["resources"][each] for each in ("requests", "limits"))
        size = sizes[process]
        assert amount(requests["cpu"]) == size.cores, process
        assert amount(limits["memory"]) >= amount(requests["memory"]), process
        assert amount(requests["memory"]) >= size.limit_mib * MIB, process
    # The chart gives a server a heap of its own.
    heap = int(defaults["zookeeper"]["heap"].removesuffix("m"))
    needed = (heap + sizes["zookeeper"].overhead_mib) * MIB
    assert amount(defaults["zookeeper"]["resources"]["requests"]["memory"]) >= needed
