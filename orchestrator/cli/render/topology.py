"""Coordinates of hosts, and a matrix of their round trips."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.figures import ms
from orchestrator.cli.render.host_labels import LABEL_COLUMNS
from orchestrator.cli.render.listing import Kind, ListedColumn
from orchestrator.cli.render.loads import table

MOST_IN_MATRIX = 12
"""Hosts whose round trips are shown as a matrix; those of more are a list."""

FAR = 0.5
"""Of a measured round trip: a prediction that is off by more is marked."""


def _position(host: api.LocatedHost) -> str:
    if host.coordinate is None:
        return "–"
    return "(" + ", ".join(f"{each:.1f}" for each in host.coordinate.position_ms) + ")"


HOSTS = Kind[api.LocatedHost](
    title="Hosts",
    name=lambda host: host.node,
    columns=(
        ListedColumn(title="host", cell=lambda host: host.node),
        ListedColumn(title="kind", cell=lambda host: host.kind),
        ListedColumn(title="region", cell=lambda host: host.region),
        *LABEL_COLUMNS,
        ListedColumn(title="coordinate, ms", cell=_position),
        ListedColumn(
            title="error",
            cell=lambda host: "–" if (c := host.coordinate) is None else f"±{c.error:.0%}",
            order=lambda host: None if host.coordinate is None else host.coordinate.error,
        ),
        ListedColumn(
            title="error, ms",
            cell=lambda host: "–" if (c := host.coordinate) is None else ms(c.error_ms),
            order=lambda host: None if host.coordinate is None else host.coordinate.error_ms,
            is_wide=True,
        ),
        ListedColumn(
            title="load",
            cell=lambda host: "–" if (c := host.coordinate) is None else ms(c.cpu_ms),
            order=lambda host: None if host.coordinate is None else host.coordinate.cpu_ms,
        ),
    ),
)


def topology_view(found: api.Topology, *, wide: bool = False) -> RenderableType:
    """Hosts, and their round trips: as a matrix if they are few, else as a list."""
    as_matrix = len(found.hosts) <= MOST_IN_MATRIX and not wide
    trips = _matrix(found) if as_matrix else _list(found)
    return Group(HOSTS.table(found.hosts, wide=wide), trips)


def _matrix(found: api.Topology) -> RenderableType:
    names = [each.node for each in found.hosts]
    trips = {(each.source, each.target): each for each in found.round_trips}
    made = table("\nRound trips, ms: measured, or (by coordinates)", ("",), names[1:])
    for row, source in enumerate(names[:-1]):
        cells = [_cell(trips.get((source, target))) for target in names[row + 1 :]]
        made.add_row(source, *[""] * row, *cells)
    return made


def _cell(trip: api.RoundTrip | None) -> str:
    if trip is None or (trip.measured_ms is None and trip.predicted_ms is None):
        return "–"
    if trip.measured_ms is None:
        return f"({trip.predicted_ms:.1f})"
    return f"{trip.measured_ms:.1f}"


def _list(found: api.Topology) -> RenderableType:
    made = table("\nRound trips", ("from", "to"), ("measured", "by coordinates"))
    for trip in found.round_trips:
        measured_ms, predicted_ms = trip.measured_ms, trip.predicted_ms
        is_far = (
            measured_ms is not None
            and predicted_ms is not None
            and abs(predicted_ms - measured_ms) > FAR * measured_ms
        )
        shown = Text(ms(predicted_ms), "yellow" if is_far else "")
        made.add_row(trip.source, trip.target, ms(measured_ms), shown)
    return made
