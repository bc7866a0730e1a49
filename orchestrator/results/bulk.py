"""What bulk planning comes to: the figures of its jobs."""

from __future__ import annotations

from orchestrator.results.result import Result


class BulkEmbedding(Result, frozen=True, kw_only=True):
    """Coordinates found from latency samples.

    Attributes
    ----------
    out
        The folder that was written.
    rejected
        Samples that say nothing: of 0 ms, of more than any link takes, or of a node with itself.
    held_out
        Samples that no coordinate was fitted to, to measure the error on.
    median_relative_error, p90_relative_error
        On these samples; None if there are none.
    seconds
        Duration, the start of Spark not counted.
    driver_peak_mb, executor_peak_mb
        Peak memory of the driver, and of the executor that took most.
    """

    out: str
    nodes: int
    samples: int
    rejected: int
    held_out: int
    median_relative_error: float | None
    p90_relative_error: float | None
    iterations: int
    seconds: float
    driver_peak_mb: float
    executor_peak_mb: float


class SequentialComparison(Result, frozen=True, kw_only=True):
    """A sample of the queries, placed by the sequential planner around those before each of them.

    Attributes
    ----------
    queries
        In the sample.
    bulk_cost_bytes, sequential_cost_bytes
        Network usage and load price of them all as the bulk planner has placed them, and as the
        sequential planner would.
    difference
        The first over the second, less 1.
    refused_otherwise
        Queries of the sample that one of both refuses and the other does not.
    """

    queries: int
    bulk_cost_bytes: float
    sequential_cost_bytes: float
    difference: float
    refused_otherwise: tuple[str, ...]


class BulkPlacement(Result, frozen=True, kw_only=True):
    """Queries placed on nodes.

    Attributes
    ----------
    out
        The folder that was written.
    refused
        Queries that cannot be placed; the table of queries says why.
    rounds, placings
        Rounds, and queries placed in them, those included that were put back to a later round.
    network_usage_bytes
        Of all placed queries, standby traffic included.
    most_replicas
        On the node with most of them.
    seconds, driver_peak_mb, executor_peak_mb
        As of `BulkEmbedding`.
    check
        The comparison with the sequential planner; None if it was not asked for.
    """

    out: str
    nodes: int
    queries: int
    placed: int
    refused: int
    rounds: int
    placings: int
    network_usage_bytes: float
    most_replicas: int
    seconds: float
    driver_peak_mb: float
    executor_peak_mb: float
    check: SequentialComparison | None
