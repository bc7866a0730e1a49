"""The five papers, in the order of their numbers here."""

from __future__ import annotations

from bench.papers import (
    adaptive_batching,
    deadline_placement,
    pushdown_aggregates,
    recursive_streams,
    reliable_placement,
)
from bench.papers.entries import Paper

PAPERS: tuple[Paper, ...] = (
    reliable_placement.PAPER,
    deadline_placement.PAPER,
    pushdown_aggregates.PAPER,
    adaptive_batching.PAPER,
    recursive_streams.PAPER,
)
