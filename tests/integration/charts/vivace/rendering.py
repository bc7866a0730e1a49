"""What helm makes of the chart and some values."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scripts.chart_docs import CHART
from tests.platform.kinds import NOTHING, Object, name_of, pod_template
from tests.platform.tools import TOOLS, Tool

SCENARIOS = sorted((CHART / "ci").glob("*.yaml"))

LONG_NAME = "r" * 53
"""The longest that helm takes for a release."""

INSTANCE, COMPONENT = "app.kubernetes.io/instance", "app.kubernetes.io/component"


class Refused(Exception):
    """Helm's own words."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The objects of a release."""

    objects: tuple[Object, ...]

    def of(self, kind: str) -> list[Object]:
        return [each for each in self.objects if each["kind"] == kind]

    def one(self, kind: str, end: str) -> Object:
        """The object of that kind whose name ends so."""
        (found,) = [each for each in self.of(kind) if name_of(each).endswith(end)]
        return found

    def find(self, kind: str, name: str) -> Object | None:
        return next((each for each in self.of(kind) if name_of(each) == name), None)

    def pods(self) -> Iterator[tuple[str, Object]]:
        """Every template of pods: whose it is, and the template. Those of executors are files."""
        for each in self.objects:
            if (template := pod_template(each)) is not None:
                yield f"{each['kind']} {name_of(each)}", template
            text = (each.get("data") or NOTHING).get("executor.yaml", "")
            if text and each["kind"] == "ConfigMap":
                yield f"executors of {name_of(each)}", yaml.safe_load(text)

    def masked(self) -> tuple[Object, ...]:
        """The objects without secrets that were drawn for this rendering alone."""
        found = copy.deepcopy(self.objects)
        for each in found:
            if each["kind"] == "Secret":
                each["data"] = dict.fromkeys(each["data"], "drawn")
        return found


def render(
    folder: Path, values: Mapping[str, Any] | Path, *options: str, release: str = "r",
    tool: Tool = TOOLS[-1], chart: Path = CHART, namespace: str = "streams",
) -> Rendered:  # fmt: skip
    """Render the chart.

    Raises
    ------
    Refused
        Helm does not.
    """
    if isinstance(values, Path):
        file = values
    else:
        # In YAML, helm and we would differ on texts such as `1e3`.
        file = folder / "values.json"
        file.write_text(json.dumps(dict(values)))
    command = [str(tool.helm), "template", release, str(chart), "-f", str(file), "-n", namespace]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr)
    documents = yaml.load_all(done.stdout, yaml.CSafeLoader)
    return Rendered(tuple(each for each in documents if each))


def labels_of(pod: Object) -> dict[str, str]:
    """Of a template of pods."""
    return pod["metadata"]["labels"]
