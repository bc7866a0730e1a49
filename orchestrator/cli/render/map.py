"""The coordinate map: nodes where their latencies put them, and where queries run among them.

Coordinates have more dimensions than paper. They are projected onto their two principal axes,
those along which the nodes lie furthest apart, so that distances on the map are latencies as far
as two dimensions can show them.

Colours are Okabe and Ito's, which people with any of the common colour deficiencies tell apart;
shapes and line styles say the same once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator import api

ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = (
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
Points = NDArray[np.float64]
"""Coordinates, ms: of one host or, a row each, of several."""

GREY = "#6B6B6B"

LINK_COLOURS = (BLUE, GREEN, PURPLE, VERMILION, SKY, ORANGE)
"""A colour a query."""


def project(positions_ms: Points) -> Points:
    """Coordinates on their two principal axes (Pearson 1901), centred on their mean.

    Parameters
    ----------
    positions_ms
        Shape (n, d), ms.

    Returns
    -------
    Shape (n, 2), ms. Each axis points so that its furthest coordinate is positive: the map of the
    same coordinates is always the same.
    """
    centred = positions_ms - positions_ms.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((len(positions_ms), 2))
    shown = centred @ axes[:2].T
    plane[:, : shown.shape[1]] = shown
    furthest = plane[np.abs(plane).argmax(axis=0), [0, 1]]
    return plane * np.where(furthest < 0, -1.0, 1.0)


def draw(drawn: api.CoordinateMap, file: Path) -> None:
    """Draw the map into a file; its suffix says the format (`.png`, `.svg`, `.pdf`)."""
    # Importing matplotlib takes longer than most commands.
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(9, 6.5), dpi=150, layout="constrained")
    axes: Any = figure.add_subplot()
    plane = project(np.array([place.position_ms for place in drawn.places]))
    spots = {place.name: plane[i] for i, place in enumerate(drawn.places)}
    _draw_flows(axes, drawn, spots)
    _draw_places(axes, drawn, spots)
    axes.set_title(drawn.title, loc="left", fontsize=12)
    axes.set_xlabel("first principal axis, ms of round trip", color=GREY)
    axes.set_ylabel("second principal axis, ms", color=GREY)
    # A millisecond is as long in each direction.
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.18)
    axes.grid(color="#E5E5E5", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=GREY, labelsize=8)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=4, frameon=False, fontsize=8)
    figure.savefig(file)


def _draw_flows(axes: Any, drawn: api.CoordinateMap, spots: Mapping[str, Points]) -> None:
    queries = sorted({flow.query for flow in drawn.flows})
    colours = {query: LINK_COLOURS[i % len(LINK_COLOURS)] for i, query in enumerate(queries)}
    seen: set[tuple[str, str, str, bool]] = set()
    for flow in drawn.flows:
        key = (flow.query, flow.source, flow.target, flow.standby)
        if flow.source == flow.target or key in seen:
            continue
        seen.add(key)
        axes.annotate(
            "",
            xy=tuple(spots[flow.target]),
            xytext=tuple(spots[flow.source]),
            arrowprops={
                "arrowstyle": "-|>",
                "color": colours[flow.query],
                "linewidth": 1.0 if flow.standby else 2.0,
                "linestyle": (0, (4, 3)) if flow.standby else "solid",
                "alpha": 0.55 if flow.standby else 0.9,
                "shrinkA": 9,
                "shrinkB": 9,
                "connectionstyle": f"arc3,rad={0.22 if flow.standby else 0.1}",
            },
        )
    for query in queries:
        axes.plot([], [], color=colours[query], linewidth=2.0, label=f"{query}")
    if any(flow.standby for flow in drawn.flows):
        axes.plot([], [], color=GREY, linestyle=(0, (4, 3)), linewidth=1.0, label="to a standby")


def _draw_places(axes: Any, drawn: api.CoordinateMap, spots: Mapping[str, Points]) -> None:
    groups: dict[str, list[str]] = {"site": [], "primary": [], "secondary": [], "idle node": []}
    for place in drawn.places:
        if place.is_site:
            groups["site"].append(place.name)
        elif drawn.primaries.get(place.name):
            groups["primary"].append(place.name)
        elif drawn.secondaries.get(place.name):
            groups["secondary"].append(place.name)
        else:
            groups["idle node"].append(place.name)
    looks = {
        "site": ("s", ORANGE, ORANGE),
        "primary": ("o", BLUE, BLUE),
        "secondary": ("o", "white", BLUE),
        "idle node": ("o", "#DDDDDD", GREY),
    }
    for group, names in groups.items():
        if not names:
            continue
        marker, face, edge = looks[group]
        where = np.array([spots[name] for name in names])
        label = "primary (filled)" if group == "primary" else group
        axes.scatter(
            where[:, 0],
            where[:, 1],
            marker=marker,
            s=130,
            facecolors=face,
            edgecolors=edge,
            linewidths=1.8,
            zorder=3,
            label=label,
        )
    for i, place in enumerate(sorted(drawn.places, key=lambda p: (spots[p.name][0], p.name))):
        _label(axes, drawn, place.name, spots[place.name], above=i % 2 == 0)


def _label(axes: Any, drawn: api.CoordinateMap, name: str, spot: Points, *, above: bool) -> None:
    lines = [name]
    if primaries := drawn.primaries.get(name):
        lines.append("● " + ", ".join(primaries))
    if secondaries := drawn.secondaries.get(name):
        lines.append("○ " + ", ".join(secondaries))
    axes.annotate(
        "\n".join(lines),
        xy=tuple(spot),
        # Neighbours on the first axis put their labels on different sides.
        xytext=(0, 11 if above else -11),
        textcoords="offset points",
        ha="center",
        va="bottom" if above else "top",
        fontsize=8,
        zorder=4,
        bbox={
            "boxstyle": "round,pad=0.15",
            "facecolor": "white",
            "edgecolor": "none",
            "alpha": 0.8,
        },
    )
