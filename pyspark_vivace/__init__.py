"""Spark looks for data sources in packages named `pyspark_…`: where this package is installed,
`format("vivace")` needs no registration."""

from __future__ import annotations

from vivace.spark import VivaceDataSource as DefaultSource

__all__ = ["DefaultSource"]
