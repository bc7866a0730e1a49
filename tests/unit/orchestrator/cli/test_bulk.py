"""What `vivace bulk` prints of the figures of its jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import api
from orchestrator.cli.main import run
from orchestrator.results.bulk import SequentialComparison
from tests.json_schema import wrong

PLACED = api.BulkPlacement(
    out="plan", nodes=10_000, queries=10_000, placed=9_998, refused=2, rounds=124,
    placings=12_203, network_usage_bytes=1.5e9, most_replicas=18, seconds=615.2,
    driver_peak_mb=839.4, executor_peak_mb=404.9,
    check=SequentialComparison(
        queries=1_000, bulk_cost_bytes=1.0172e8, sequential_cost_bytes=1e8, difference=0.0172,
        refused_otherwise=("q7",),
    ),
)  # fmt: skip

FOUND = api.BulkEmbedding(
    out="nodes", nodes=1_000_000, samples=8_000_000, rejected=12, held_out=0,
    median_relative_error=None, p90_relative_error=None, iterations=40, seconds=99.9,
    driver_peak_mb=900.0, executor_peak_mb=1_500.0,
)  # fmt: skip

PLACE = ("bulk", "place", "--nodes", "nodes", "--queries", "queries", "--out", "plan")
EMBED = ("bulk", "coordinates", "latencies.csv", "--out", "nodes")


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Jobs that are done at once, and what they were asked."""
    monkeypatch.setenv("COLUMNS", "150")
    found: list[dict[str, Any]] = []

    def place(*_paths: Path, **given: Any) -> api.BulkPlacement:
        found.append(given)
        return PLACED

    def coordinates(*_paths: Path, **given: Any) -> api.BulkEmbedding:
        found.append(given)
        return FOUND

    monkeypatch.setattr(api, "bulk_place", place)
    monkeypatch.setattr(api, "bulk_coordinates", coordinates)
    return found


def test_a_plan_is_told_with_seconds_memory_and_the_comparison(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(PLACE) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "nodes    10,000, at most 18 replicas on one",
        "queries  10,000, 2 of them refused",
        "rounds   124, 1.22 placings a query",
        "usage    1,500,000,000 bytes",
        "took     615.2 s, 839 MB in the driver, 405 MB in an executor, 61.5 ms a query",
        "check    +1.72% cost beside the sequential planner, on 1,000 queries; 1 refused otherwise",
        "The plan is in plan.",
    ]


def test_coordinates_whose_error_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(EMBED) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "nodes    1,000,000",
        "samples  8,000,000, 12 of them left out",
        "error    not known: no sample was held out",
        "took     99.9 s, 900 MB in the driver, 1,500 MB in an executor",
        "Coordinates are in nodes.",
    ]


@pytest.mark.parametrize("words", [PLACE, EMBED])
def test_documents_are_as_their_schemas_say(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--json"]) == 0
    assert not wrong(json.loads(capsys.readouterr().out), f"bulk-{words[1]}")


@pytest.mark.parametrize(
    ("options", "sample"), [((), 0), (("--check",), 100), (("--check", "--sample", "5"), 5)]
)
def test_only_a_check_compares_a_sample(
    options: tuple[str, ...], sample: int, asked: list[dict[str, Any]]
) -> None:
    assert run([*PLACE, *options, "--json"]) == 0
    assert [each["sample"] for each in asked] == [sample]
