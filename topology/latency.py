"""Round-trip times between regions, as published or measured.

The links of a local cluster imitate such a table. Published tables are square, name their rows and
columns, leave unknown pairs blank, and differ a little between the two directions of a pair. A
round trip takes the same path whoever starts it, so both entries are samples of one quantity: the
table is made symmetric by their mean, or by the one entry that is known. Half a round trip stands
for the one-way delay.

Some published tables have as many rows as columns, but one region has only a row and another only a
column. Both regions are read; the missing entries are taken from the other direction, or unknown.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foundation.arrays import FloatArray
from foundation.suggestions import hint

WITHIN_REGION_ONE_WAY_MS = 0.5
"""One-way delay, ms, between two nodes of one region if the table leaves its diagonal blank: zones
of one cloud region publish round trips of about 1 ms."""


class LatencyMatrixError(ValueError):
    """An invalid table, or a question about a region or pair that it does not contain."""


class UnknownRegion(LatencyMatrixError):
    """A region that the table does not contain."""

    def __init__(self, region: str, known: Sequence[str]) -> None:
        super().__init__(f"no region {region!r} in the latency matrix{hint(region, known)}")
        self.region = region


class UnknownLatency(LatencyMatrixError):
    """A pair of regions with unknown latency."""

    def __init__(self, source: str, target: str) -> None:
        super().__init__(
            f"the latency matrix has no round trip between {source!r} and {target!r}; "
            "fill in one of the two entries or choose other regions"
        )
        self.source = source
        self.target = target


@dataclass(frozen=True, slots=True, eq=False)
class LatencyMatrix:
    """Symmetric round-trip times between named regions.

    Parameters
    ----------
    names
        The regions, distinct.
    rtt_ms
        Round trips, ms, shape (n, n), ≥ 0, NaN = unknown. The two directions of a pair may
        differ; the attribute holds the symmetric table (see the module).

    Raises
    ------
    LatencyMatrixError
        Naming the row, column and value that are wrong.
    """

    names: tuple[str, ...]
    rtt_ms: FloatArray

    def __post_init__(self) -> None:
        size = len(self.names)
        if len(set(self.names)) < size:
            repeated = next(name for name in self.names if self.names.count(name) > 1)
            raise LatencyMatrixError(f"region {repeated!r} occurs twice")
        if self.rtt_ms.shape != (size, size):
            raise LatencyMatrixError(
                f"{size} regions need a {size} × {size} matrix, not one of shape "
                f"{self.rtt_ms.shape}"
            )
        for i, j in np.argwhere((self.rtt_ms < 0) | np.isinf(self.rtt_ms)):
            raise LatencyMatrixError(
                f"row {self.names[i]!r}, column {self.names[j]!r}: "
                f"{self.rtt_ms[i, j]:g} is no round-trip time in ms"
            )
        object.__setattr__(self, "rtt_ms", _symmetric(self.rtt_ms))

    def index(self, region: str) -> int:
        """Row and column of a region.

        Raises
        ------
        UnknownRegion
            With the nearest names.
        """
        try:
            return self.names.index(region)
        except ValueError:
            raise UnknownRegion(region, self.names) from None

    def one_way_ms(self, source: str, target: str) -> float:
        """One-way delay between two nodes in the given regions, ms.

        Raises
        ------
        UnknownRegion, UnknownLatency
            If the table does not contain it.
        """
        i, j = self.index(source), self.index(target)
        rtt_ms = float(self.rtt_ms[i, j])
        if not math.isnan(rtt_ms):
            return rtt_ms / 2
        if i == j:
            return WITHIN_REGION_ONE_WAY_MS
        raise UnknownLatency(source, target)


def read_csv(text: str, name: str) -> LatencyMatrix:
    """Read a table from CSV; see `read_table`."""
    return read_table(list(csv.reader(io.StringIO(text))), name)


def read_table(rows: Sequence[Sequence[str]], name: str) -> LatencyMatrix:
    """Read a header row `<anything>,<region>,…` and one such row for each region.

    Rows may come in any order. A blank cell is unknown, and so is the row or column that a region
    lacks if the table is square (see the module).

    Parameters
    ----------
    rows
        Cells: round trips in ms.
    name
        Named in errors, usually the file's path.

    Raises
    ------
    LatencyMatrixError
        Naming the table and the row, column and value that are wrong.
    """
    lines = [line for line in rows if any(cell.strip() for cell in line)]
    if not lines or len(lines[0]) < 2:
        raise LatencyMatrixError(f"{name}: no header row with region names")
    columns = tuple(cell.strip() for cell in lines[0][1:])
    rtts_ms: dict[str, list[float]] = {}
    for line in lines[1:]:
        row, cells = line[0].strip(), line[1:]
        if row in rtts_ms:
            raise LatencyMatrixError(f"{name}: row {row!r} occurs twice")
        if len(cells) != len(columns):
            raise LatencyMatrixError(
                f"{name}: row {row!r} has {len(cells)} values for {len(columns)} columns"
            )
        rtts_ms[row] = [
            _cell(name, row, column, cell) for column, cell in zip(columns, cells, strict=True)
        ]
    _check_square(name, columns, tuple(rtts_ms))
    names = (*columns, *(row for row in rtts_ms if row not in columns))
    rtt_ms = np.full((len(names), len(names)), np.nan)
    for row, values in rtts_ms.items():
        rtt_ms[names.index(row), : len(columns)] = values
    return LatencyMatrix(names, rtt_ms)


def _check_square(name: str, columns: tuple[str, ...], rows: tuple[str, ...]) -> None:
    for i, column in enumerate(columns):
        if column in columns[:i]:
            raise LatencyMatrixError(f"{name}: column {column!r} occurs twice")
    if len(rows) == len(columns):
        return
    without_row = [f"column {column!r} has no row" for column in columns if column not in rows]
    without_column = [
        f"row {row!r} has no column{hint(row, columns)}" for row in rows if row not in columns
    ]
    raise LatencyMatrixError(
        f"{name}: {len(rows)} rows and {len(columns)} columns are not square: "
        + "; ".join((*without_row, *without_column)[:5])
    )


def _cell(name: str, row: str, column: str, text: str) -> float:
    text = text.strip()
    if not text:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise LatencyMatrixError(
            f"{name}: row {row!r}, column {column!r}: {text!r} is no round-trip time in ms "
            "(a number ≥ 0, or blank if unknown)"
        )
    return value


def _symmetric(rtt_ms: FloatArray) -> FloatArray:
    """Mean of both directions, or the one that is known."""
    back = rtt_ms.T
    mean = (rtt_ms + back) / 2
    symmetric = np.where(np.isnan(rtt_ms), back, np.where(np.isnan(back), rtt_ms, mean))
    symmetric.setflags(write=False)
    return symmetric
