"""Bulk placement on Spark: executors place the queries of each round of `placement.bulk`.

The driver goes from round to round as a single process does. Each round is one Spark job: its
queries are divided among the executors, which place them with the same function as a single
process. The plan is therefore the same however many executors there are. The network is broadcast
once; each round's job carries the load, a few numbers per node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from pyspark import Broadcast
from pyspark.sql import SparkSession

from placement.bulk import (
    Around,
    BulkPlan,
    BulkSettings,
    Candidate,
    Outcome,
    PlaceRound,
    place_apart,
    plan_in_rounds,
)
from placement.evaluation.load import Load
from placement.network import NetworkView
from placement.records import Request
from placement.settings import Settings

_log = logging.getLogger("vivace.bulk_placement")


def place_on_spark(
    session: SparkSession,
    requests: Sequence[Request],
    view: NetworkView,
    *,
    bulk: BulkSettings | None = None,
    settings: Settings | None = None,
    rng: np.random.Generator,
    say: Callable[[str], None] = _log.info,
) -> BulkPlan:
    """Place many queries as `plan_in_rounds` does, each round on all executors.

    Parameters
    ----------
    session
        Any; faster if Python workers are reused (`spark.python.worker.reuse`).
    requests, view, bulk, settings, rng, say
        As for `plan_in_rounds`. A round should have several queries for each executor.

    Raises
    ------
    GraphError, NetworkError, NoNode
        As `plan_in_rounds`.
    """
    settings = settings or Settings()
    network = session.sparkContext.broadcast(view)
    try:
        return plan_in_rounds(
            requests,
            view,
            bulk=bulk,
            settings=settings,
            rng=rng,
            place=_placing_on(session, network, settings),
            say=say,
        )
    finally:
        network.destroy()


def _placing_on(
    session: SparkSession, network: Broadcast[NetworkView], settings: Settings
) -> PlaceRound:
    """A function that places a round on a session's executors."""

    def place(queries: Sequence[Candidate], around: Around) -> list[Outcome]:
        # The load of `around` refers to the network, which the executors have already.
        figures, expected = around.start.figures, around.expected

        def place_part(part: Iterable[Candidate]) -> Iterable[Outcome]:
            view = network.value
            start = Load(
                view,
                operator_load=settings.operator_load,
                cpu=settings.cpu,
                figures=figures,
            )
            return place_apart(part, Around(start=start, expected=expected), view, settings)

        return session.sparkContext.parallelize(queries).mapPartitions(place_part).collect()

    return place
