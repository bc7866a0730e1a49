"""Plots of what placement achieves and takes.

Benchmark `reliable_placement`: the paper's Fig. 10 and 11, and Tables 1 and 2. Benchmark
`placement_scale`: time by queries and nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from bench.placement_assessment import Assessment

Assessments = Mapping[tuple[str, str], Assessment]
"""Method and scheme → figures, of one network."""

FIGURE_10 = [(method, "as") for method in ("random", "round_robin", "upstream", "paper", "ours")]
FIGURE_11 = [
    (method, scheme) for method in ("upstream", "paper", "ours") for scheme in ("as", "asas")
]

COLOURS = {
    # Okabe and Ito's, told apart by colour-blind readers.
    "random": "#999999",
    "round_robin": "#E69F00",
    "upstream": "#56B4E9",
    "paper": "#0072B2",
    "ours": "#D55E00",
}
LINES = {"as": "-", "asas": "--"}
NAMES = {"as": "AS", "asas": "A-SAS"}


def plot(trials: Sequence[Assessments], bound_ms: float, folder: Path) -> None:
    """Write `network_usage.png` and `recovery_and_load.png`: means over the networks."""
    from matplotlib.figure import Figure

    # Through Any, for matplotlib's annotations leave keyword arguments open.
    figure = cast("Any", Figure(figsize=(10, 4), layout="constrained"))
    axes = figure.subplots(1, 2)
    for axis, lines, title in zip(
        axes,
        (FIGURE_10, FIGURE_11),
        ("Methods under Active Standby (Fig. 10)", "Standby schemes (Fig. 11)"),
        strict=True,
    ):
        for method, scheme in lines:
            usage = np.array([trial[method, scheme].network_usage for trial in trials])
            total = np.cumsum(usage, axis=1).mean(axis=0) / 1e3
            axis.plot(
                np.arange(1, len(total) + 1),
                total,
                LINES[scheme],
                color=COLOURS[method],
                label=f"{method} ({NAMES[scheme]})",
            )
        axis.set_title(title)
        axis.set_xlabel("queries registered")
        axis.set_ylabel("network usage, kB")
        axis.grid(visible=True, alpha=0.3)
        axis.legend()
    figure.savefig(folder / "network_usage.png", dpi=150)
    _plot_spread(trials, bound_ms, folder / "recovery_and_load.png")


def _plot_spread(trials: Sequence[Assessments], bound_ms: float, path: Path) -> None:
    """Recovery time by query and operators by node, of all networks: what the tables sum up."""
    from matplotlib.figure import Figure

    figure = cast("Any", Figure(figsize=(10, 4), layout="constrained"))
    left, right = figure.subplots(1, 2)
    for method, scheme in FIGURE_10:
        recovery_ms = np.sort(np.concatenate([t[method, scheme].recovery_ms for t in trials]))
        share = np.arange(1, len(recovery_ms) + 1) / len(recovery_ms)
        left.plot(recovery_ms, share, color=COLOURS[method], label=method)
        operators = np.concatenate([t[method, scheme].operators for t in trials])
        counts = np.bincount(operators) / len(trials)
        right.plot(np.arange(len(counts)), counts, color=COLOURS[method], label=method)
    left.axvline(bound_ms, color="black", linewidth=1)
    left.set_title("Recovery time, Active Standby (Table 1)")
    left.set_xlabel("recovery time of a query, ms (line: bound)")
    left.set_ylabel("share of queries")
    right.set_title("Operators by node (Table 2)")
    right.set_xlabel("operators on a node")
    right.set_ylabel("nodes")
    for axis in (left, right):
        axis.grid(visible=True, alpha=0.3)
        axis.legend()
    figure.savefig(path, dpi=150)


def plot_scale(seconds: Mapping[tuple[int, int], float], path: Path) -> None:
    """Time by number of queries, a line for each number of nodes.

    Parameters
    ----------
    seconds
        By nodes and queries.
    """
    from matplotlib.figure import Figure

    figure = cast("Any", Figure(figsize=(6, 4), layout="constrained"))
    axes = figure.subplots()
    for nodes in sorted({nodes for nodes, _ in seconds}):
        counts = sorted(count for each, count in seconds if each == nodes)
        times = [seconds[nodes, count] for count in counts]
        axes.plot(counts, times, "o-", label=f"{nodes:,} nodes")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("queries")
    axes.set_ylabel("time to place them on one core, s")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)
