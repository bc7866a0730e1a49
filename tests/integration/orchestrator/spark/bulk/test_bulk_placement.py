"""The same plan whether one process or Spark's executors place the rounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pyspark.sql import SparkSession

from bench.placement_methods import OURS, PAPER
from bench.placement_workload import paper_workload
from orchestrator.spark.bulk.bulk_placement import place_on_spark
from placement.bulk import BulkSettings, plan_in_rounds
from placement.records import Request
from placement.settings import Settings

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BULK = BulkSettings(round_size=7)


@pytest.mark.parametrize("settings", [OURS, PAPER], ids=["ours", "paper"])
def test_executors_place_as_one_process_does(session: SparkSession, settings: Settings) -> None:
    workload = paper_workload(5, queries=15)
    # One of them asks for the impossible and is told so, from wherever.
    hasty = replace(workload.requests[3].graph, name="hasty")
    requests = [*workload.requests[:3], Request(hasty, 1e9, 1.0, 2.0), *workload.requests[4:]]
    said: list[str] = []
    found = place_on_spark(
        session,
        requests,
        workload.view,
        bulk=BULK,
        settings=settings,
        rng=np.random.default_rng(1),
        say=said.append,
    )
    alone = plan_in_rounds(
        requests, workload.view, bulk=BULK, settings=settings, rng=np.random.default_rng(1)
    )
    assert found == alone
    assert len(found.plan.queries) == 14
    assert "hasty" in found.refused
    assert said[-1] == f"round {found.rounds}: 15 of 15 queries are placed"
