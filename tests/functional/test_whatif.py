"""What `vivace whatif --without NODE` says, and what happens when that node's host is killed."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import WaitUntil
from tests.functional.conftest import Vivace
from tests.pairs import SITES, Input

NODES = ("n1", "n2", "n3", "n4")

CLUSTER = f"""kind: Cluster
name: pairs
nodes: [{", ".join(f"{{name: {node}, region: {node}}}" for node in NODES)}]
sites: [{", ".join(f"{{name: {site}, region: {site}}}" for site in SITES)}]
latencies: latency.csv
"""

LOOK_S = 0.5

KNOWN = 0.25
"""Relative error below which a node's coordinate says where it is."""

WITHIN = 1.3
"""How much longer a recovery may take than was said."""

HEALED_WITHIN = 2.0

pytestmark = [
    *(pytest.mark.spark, pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.long),
    pytest.mark.timeout(1200),
]


@pytest.fixture
def running(tmp_path: Path, vivace: Vivace) -> Iterator[None]:
    """A cluster in which everything runs."""
    recording = Input.random(seed=3, seconds=5, every_ms=20.0)
    pairs = recording.write(tmp_path, repeat=True)
    _, rest = pairs.read_text().split("---\n", 1)
    pairs.write_text(rest)
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER)
    try:
        for words in (("up", "-f", cluster, "--data", tmp_path / "data"), ("apply", "-f", pairs)):
            done = vivace(*words)
            assert done.returncode == 0, done.stdout + done.stderr
        yield
    finally:
        vivace("down")


def test_what_is_said_is_what_happens(
    running: None, vivace_here: Vivace, wait_until: WaitUntil, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[str] = []
    wait_until(lambda: settled(vivace_here, {}), every_s=LOOK_S)
    for node in NODES:
        said = foretold(vivace_here, node, wait_until)
        before = asked(vivace_here, "status")
        pids = {each["node"]: each["pid"] for each in before["nodes"]}
        seen = before["history"][-1]["sequence"]
        os.kill(pids[node], signal.SIGKILL)
        killed = {node: pids[node]}
        wait_until(lambda killed=killed: settled(vivace_here, killed), every_s=LOOK_S)
        after = asked(vivace_here, "status")
        happened = [
            each
            for each in asked(vivace_here, "history", "-n", 1000)["history"]
            if each["sequence"] > seen
        ]
        expected = places(said)
        found = {e["fragment"]: (e["primary"], e["secondary"]) for e in after["fragments"]}
        (loss,) = said["losses"]
        recovered_ms = max(recoveries_ms(happened), default=0.0)
        healed_s = max(unprotected_s(happened), default=0.0)
        rows.append(
            f"{node}: recovery said {loss['recovery_ms']}, was {recovered_ms:.0f} ms; "
            f"unprotected said {loss['unprotected_s']}, was {healed_s:.2f} s; "
            f"places {'equal' if found == expected else f'said {expected}, were {found}'}"
        )
        with capsys.disabled():
            print(rows[-1])  # noqa: T201
        assert found == expected, rows
        assert recovered_ms <= WITHIN * (loss["recovery_ms"] or 0.0), rows
        assert healed_s <= HEALED_WITHIN * loss["unprotected_s"], rows


def asked(vivace: Vivace, *words: object) -> Any:
    done = vivace(*words, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def foretold(vivace: Vivace, node: str, wait_until: WaitUntil) -> dict[str, Any]:
    """What is said once it no longer changes: a host that has just come measures where it is."""
    said = [asked(vivace, "whatif", "--without", node)]

    def same() -> bool:
        said.append(asked(vivace, "whatif", "--without", node))
        return places(said[-1]) == places(said[-2])

    wait_until(same, every_s=LOOK_S)
    return said[-1]


def places(said: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Fragment → primary and secondary, afterwards."""
    return {e["fragment"]: (e["primary"][1], e["secondary"][1]) for e in said["fragments"]}


def settled(vivace: Vivace, killed: dict[str, int]) -> bool:
    """Whether every node is there, in another process if it was killed, and all is protected."""
    status = asked(vivace, "status")
    nodes = {each["node"]: each for each in status["nodes"]}
    return (
        nodes.keys() >= {*NODES}
        and all(nodes[node]["pid"] != pid for node, pid in killed.items())
        and all((nodes[node]["error"] or 1.0) < KNOWN for node in NODES)
        and bool(status["fragments"])
        and all(each["redundant"] for each in status["fragments"])
    )


def recoveries_ms(events: list[dict[str, Any]]) -> Iterator[float]:
    """How long takeovers took, as hosts have measured it."""
    for event in events:
        if event["kind"] == "recovered":
            found = re.search(r"= (\d+) ms, ", event["detail"])
            assert found is not None, event
            yield float(found[1])


def unprotected_s(events: list[dict[str, Any]]) -> Iterator[float]:
    """How long fragments had no warm secondary."""
    for event in events:
        if event["kind"] == "redundancy restored":
            yield event["lasted_ms"] / 1000
