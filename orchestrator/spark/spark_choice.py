"""Which Spark a job is to run on; without PySpark, which takes long to import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LOCAL_SPARK = "local[*]"
"""All cores of this machine, in one process of Java."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkChoice:
    """The Spark that a bulk job runs on.

    Attributes
    ----------
    master
        Spark's master URL.
    executors
        How many, of one core each; of no effect on a local master.
    memory_mb
        Java heap of the driver, and of each executor.
    settings
        Further settings of Spark, which win over all others.
    """

    master: str = LOCAL_SPARK
    executors: int = 2
    memory_mb: int = 1536
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
