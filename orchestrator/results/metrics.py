"""A cluster's figures as Prometheus names them."""

from __future__ import annotations

import msgspec


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One figure."""

    name: str
    labels: dict[str, str]
    value: float


class MetricsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Every figure of a cluster's state."""

    metrics: tuple[Sample, ...]
