"""A cluster's figures as Prometheus names them."""

from __future__ import annotations

from orchestrator.results.result import Result


class Sample(Result, frozen=True, kw_only=True):
    """One figure."""

    name: str
    labels: dict[str, str]
    value: int | float


class MetricsDocument(Result, frozen=True, kw_only=True):
    """Every figure of a cluster's state."""

    metrics: tuple[Sample, ...]
