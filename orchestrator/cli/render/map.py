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

from orchestrator import api
from orchestrator.cli.render.labels import Box, Points, place_labels

ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = (
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
GREY = "#6B6B6B"

LINK_COLOURS = (BLUE, GREEN, PURPLE, VERMILION, SKY, ORANGE)
"""A colour a query."""


MARKER_RADIUS_PT = 6.5

FAR_PT = 14.0
"""Distance from which on a line joins a label and its marker."""


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
    _draw_labels(figure, axes, drawn, spots)
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
                "connectionstyle": f"arc3,rad={_bend(flow)}",
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


def _draw_labels(
    figure: Any, axes: Any, drawn: api.CoordinateMap, spots: Mapping[str, Points]
) -> None:
    """Label the places, once everything else is where it will be."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = {name: axes.transData.transform(spot) for name, spot in spots.items()}
    labels = [_label(axes, drawn, place.name, spots[place.name]) for place in drawn.places]
    extents = [label.get_window_extent(canvas.get_renderer()) for label in labels]
    boxes = place_labels(
        np.array([pixels[place.name] for place in drawn.places]),
        [(extent.width + 4, extent.height + 4) for extent in extents],
        MARKER_RADIUS_PT * figure.dpi / 72,
        _samples(drawn, pixels),
        Box(*axes.get_window_extent().extents),
    )
    for place, label, extent, box in zip(drawn.places, labels, extents, boxes, strict=True):
        at = np.array([(box.left + box.right) / 2, (box.bottom + box.top) / 2])
        centre = np.array([(extent.x0 + extent.x1) / 2, (extent.y0 + extent.y1) / 2])
        label.set_position(tuple((at - centre) * 72 / figure.dpi))
        edge = np.clip(pixels[place.name], (box.left, box.bottom), (box.right, box.top))
        if np.hypot(*(edge - pixels[place.name])) > FAR_PT * figure.dpi / 72:
            axes.annotate(
                "",
                xy=tuple(spots[place.name]),
                xytext=tuple((edge - pixels[place.name]) * 72 / figure.dpi),
                textcoords="offset points",
                arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.6, "shrinkA": 0},
                zorder=2,
                annotation_clip=False,
            ).set_in_layout(False)


def _samples(drawn: api.CoordinateMap, pixels: Mapping[str, Points]) -> Points:
    """Points on the curves of the flows, as matplotlib draws `arc3`, shape (m, 2)."""
    part = np.linspace(0, 1, 25)[:, None]
    curves = [np.empty((0, 2))]
    for flow in drawn.flows:
        begin, end = pixels[flow.source], pixels[flow.target]
        across = (end - begin)[::-1] * (1, -1)
        bend = (begin + end) / 2 + _bend(flow) * across
        curves.append((1 - part) ** 2 * begin + 2 * part * (1 - part) * bend + part**2 * end)
    return np.concatenate(curves)


def _bend(flow: api.Flow) -> float:
    """How far a flow's curve bends, as a share of its length."""
    return 0.22 if flow.standby else 0.1


def _label(axes: Any, drawn: api.CoordinateMap, name: str, spot: Points) -> Any:
    """A place's label, still on top of it."""
    lines = [name]
    if primaries := drawn.primaries.get(name):
        lines.append("● " + ", ".join(primaries))
    if secondaries := drawn.secondaries.get(name):
        lines.append("○ " + ", ".join(secondaries))
    label = axes.annotate(
        "\n".join(lines),
        xy=tuple(spot),
        xytext=(0, 0),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=8,
        zorder=4,
        annotation_clip=False,
        bbox={
            "boxstyle": "round,pad=0.15",
            "facecolor": "white",
            "edgecolor": "none",
            "alpha": 0.8,
        },
    )
    # Labels take the room there is; they do not move the axes again.
    label.set_in_layout(False)
    return label
