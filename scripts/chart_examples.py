"""Writes `charts/vivace/examples`: the examples as values of the chart.

`python -m scripts.chart_examples` makes them from `examples`, so that both stay the same; a unit
test fails until that is done. The nodes of an example are halved into two applications. Recordings
are read from a volume.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from orchestrator.documents.document import slug
from scripts.chart_docs import CHART

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

FOLDER = CHART / "examples"

MANIFESTS: Mapping[str, Sequence[str]] = {
    "aircraft": ("streams.yaml", "query.yaml"),
    "collision-warning": ("streams.yaml", "query.yaml"),
    "nexmark": ("streams.yaml", "q5.yaml"),
}

MOUNT = "/recordings"

_data = "../../build/data"

_head = """\
# `python -m scripts.chart_examples` makes this file from examples/{name}.
#
# A claim named `recordings` must hold these files of build/data
# (docs/operations/install-kubernetes.md#examples):
{files}{more}"""

_delays = """\
#
# `--set-file cluster.latencies=build/data/latency.csv` delays links as those between its regions.
"""


def values(name: str) -> str:
    """The values of an example."""
    folder = EXAMPLES / name
    cluster: dict[str, Any] = yaml.safe_load((folder / "cluster.yaml").read_text("utf-8"))
    texts = {
        file: (folder / file).read_text("utf-8").replace(_data, MOUNT) for file in MANIFESTS[name]
    }
    files = sorted({*re.findall(rf"{MOUNT}/(\S+)", "".join(texts.values()))})
    latencies = cluster.pop("latencies", "")
    delayed = latencies.startswith(_data)
    listed = "".join(f"#     {file}\n" for file in files)
    head = _head.format(name=name, files=listed, more=_delays if delayed else "")
    given: dict[str, Any] = {"cluster": {"name": cluster.pop("name")}}
    if latencies and not delayed:
        given["cluster"]["latencies"] = (folder / latencies).read_text("utf-8")
    nodes = [_place(node) for node in cluster.pop("nodes")]
    half = (len(nodes) + 1) // 2
    given["applications"] = [
        {"name": f"application-{number}", "nodes": part}
        for number, part in enumerate((nodes[:half], nodes[half:]), 1)
    ]
    volumes = {
        "volumes": [
            {
                "name": "recordings",
                "persistentVolumeClaim": {"claimName": "recordings", "readOnly": True},
            }
        ],
        "volumeMounts": [{"name": "recordings", "mountPath": MOUNT, "readOnly": True}],
    }
    given["sites"] = [_place(site) for site in cluster.pop("sites")]
    given["siteDefaults"] = {"pod": volumes}
    if memory := cluster.pop("executorMemory", None):
        given["executors"] = {"memory": memory}
    cluster.pop("kind")
    if cluster:
        given["cluster"]["settings"] = cluster
    blocks = [f"    {file}: |\n{textwrap.indent(text, ' ' * 6)}" for file, text in texts.items()]
    shown = yaml.safe_dump(given, sort_keys=False, allow_unicode=True, width=100)
    return f"{head}{shown}queries:\n  manifests:\n{''.join(blocks)}"


def _place(given: str | dict[str, Any]) -> dict[str, Any]:
    """A node or site, written out."""
    return {"name": slug(given), "region": given} if isinstance(given, str) else given


def main() -> None:
    """Bring all of them up to date."""
    FOLDER.mkdir(exist_ok=True)
    for name in MANIFESTS:
        (FOLDER / f"{name}.yaml").write_text(values(name), "utf-8")


if __name__ == "__main__":
    main()
