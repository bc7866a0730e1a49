"""Reads latency tables from files: `.npy`, `.csv` or plain text; square tables or lists of pairs.

The ending of a file's name and its content tell the format:

- `.npy`: a square array of numbers. Pickled objects are refused, since loading them runs code.
- `.csv`, or any other ending with cells separated by white space and comments after `#`:

  - *pairs*: three cells per line, `i j ms`, where i and j are any names. A first line whose words
    are none of these names is a header. A pair may be missing; if it occurs in both directions,
    the two are averaged.
  - *named table*: a header with the names of the columns, and a name before each row. The cell
    above the row names is a word, or blank before words.
  - *bare table*: numbers only; the nodes are named 0, 1, 2, …

All values are round trips in ms. Published tables denote unknown round trips by a blank cell,
`nan`, `-1`, or 0 for a pair of different nodes (no round trip takes no time). All of these are read
as unknown; any other negative value is an error. Three lines of three cells are a table if their
diagonal is zero or unknown, otherwise pairs.

The known round trips must connect all nodes: no distance can be told between two groups of nodes
without a known round trip between them.
"""

from __future__ import annotations

import csv
import io
import math

import numpy as np
from numpy.lib import format as npy_format
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from bench.networks.latency_graph import DENSE_NODES, TooManyNodes, Unreachable
from foundation.arrays import FloatArray
from topology.latency import LatencyMatrix, LatencyMatrixError, read_table

Rows = list[list[str]]

UNKNOWN_MS = -1.0
"""The value of several published tables for a pair that was not measured."""

UNKNOWN_WORDS = frozenset({"", "nan", "na", "n/a"})
"""Words with the same meaning, in upper or lower case."""


def read_matrix(content: bytes, name: str) -> LatencyMatrix:
    r"""Read a latency table in any of the module's formats.

    Parameters
    ----------
    content
        The file's content.
    name
        Its name: the ending tells the format, and errors mention it.

    Raises
    ------
    LatencyMatrixError
        Naming the file, and the row, column and value that are wrong.
    TooManyNodes
        Above `DENSE_NODES` nodes.
    Unreachable
        If the known round trips do not connect all nodes.

    Examples
    --------
    >>> read_matrix(b"a b 30\nb c 12\n", "pairs.txt").one_way_ms("c", "b")
    6.0
    """
    if name.lower().endswith(".npy"):
        rtt_ms = _read_npy(content, name)
        names = _numbers(len(rtt_ms))
    else:
        names, rtt_ms = _read_text(content, name)
    try:
        matrix = LatencyMatrix(names, _unknown_as_nan(rtt_ms))
    except LatencyMatrixError as error:
        raise LatencyMatrixError(f"{name}: {error}") from None
    _check_known(matrix, name)
    return matrix


def _read_npy(content: bytes, name: str) -> FloatArray:
    stream = io.BytesIO(content)
    try:
        # The header comes first, since it tells the size of the array to allocate.
        version = npy_format.read_magic(stream)
        header = (
            npy_format.read_array_header_1_0
            if version == (1, 0)
            else (npy_format.read_array_header_2_0)
        )
        shape, _, dtype = header(stream)
    except (ValueError, EOFError) as error:
        raise LatencyMatrixError(f"{name}: not a .npy file: {error}") from None
    if dtype.kind not in "fiu":
        raise LatencyMatrixError(
            f"{name}: entries of type {dtype} are no numbers; save an array of floats"
        )
    if len(shape) != 2 or shape[0] != shape[1]:
        raise LatencyMatrixError(f"{name}: an array of shape {shape} is not a square table")
    _check_size(shape[0], name)
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise LatencyMatrixError(f"{name}: the array is cut off: {error}") from None
    return array.astype(np.float64)


def _read_text(content: bytes, name: str) -> tuple[tuple[str, ...], FloatArray]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LatencyMatrixError(
            f"{name}: byte {error.start} is no UTF-8 text; give numbers as text, or a .npy file"
        ) from None
    try:
        rows = _rows(text, comma=name.lower().endswith(".csv"))
    except csv.Error as error:
        raise LatencyMatrixError(f"{name}: not CSV: {error}") from None
    if not rows:
        raise LatencyMatrixError(f"{name}: holds no latencies")
    width = len(rows[0])
    _check_size(width, name)
    if width == 3 and _are_pairs(rows):
        return _read_pairs(rows, name)
    if _has_header(rows):
        table = _read_named(rows, name)
        return table.names, table.rtt_ms
    return _numbers(len(rows)), _read_bare(rows, name)


def _rows(text: str, comma: bool) -> Rows:
    if comma:
        rows = [[cell.strip() for cell in line] for line in csv.reader(io.StringIO(text))]
    else:
        rows = [line.partition("#")[0].split() for line in text.splitlines()]
    return [row for row in rows if any(row)]


def _has_header(rows: Rows) -> bool:
    """Whether the first row names the columns, as the module describes."""
    corner, *names = rows[0]
    return not any(_is_value(cell) for cell in names) if corner == "" else not _is_value(corner)


def _are_pairs(rows: Rows) -> bool:
    """Whether rows of three cells are pairs, as the module describes."""
    if any(len(row) != 3 for row in rows):
        return False
    if len(rows) != 3:
        return True
    if not _is_value(rows[0][2]):  # A header, of pairs or of two named columns, or an error.
        return {rows[1][0], rows[2][0]} != set(rows[0][1:])
    diagonal = [_value(rows[i][i]) for i in range(3)]
    return not all(value is not None and not value > 0 for value in diagonal)


def _read_pairs(rows: Rows, name: str) -> tuple[tuple[str, ...], FloatArray]:
    # The words of a header are no nodes; a first pair with an invalid value is no header.
    nodes = {node for row in rows[1:] for node in row[:2]}
    header = not _is_value(rows[0][2]) and nodes.isdisjoint(rows[0][:2])
    pairs = rows[1:] if header else rows
    names = _ordered({node for pair in pairs for node in pair[:2]})
    _check_size(len(names), name)
    index = {node: i for i, node in enumerate(names)}
    rtt_ms = np.full((len(names), len(names)), np.nan)
    seen = np.zeros(rtt_ms.shape, dtype=bool)
    np.fill_diagonal(rtt_ms, 0)
    for source, target, cell in pairs:
        value = _rtt_ms(name, f"pair {source!r} {target!r}", cell)
        i, j = index[source], index[target]
        if seen[i, j]:
            raise LatencyMatrixError(f"{name}: pair {source!r} {target!r} occurs twice")
        seen[i, j] = True
        rtt_ms[i, j] = value
    return names, rtt_ms


def _ordered(names: set[str]) -> tuple[str, ...]:
    """By number if all are numbers, otherwise alphabetically."""
    if all(name.isdecimal() for name in names):
        return tuple(sorted(names, key=int))
    return tuple(sorted(names))


def _read_named(rows: Rows, name: str) -> LatencyMatrix:
    known = [[row[0], *("" if _is_unknown(cell) else cell for cell in row[1:])] for row in rows[1:]]
    return read_table([rows[0], *known], name)


def _read_bare(rows: Rows, name: str) -> FloatArray:
    for i, row in enumerate(rows):
        if len(row) != len(rows):
            raise LatencyMatrixError(
                f"{name}: row {i} has {len(row)} values, and there are {len(rows)} rows; "
                "a table must be square"
            )
    try:
        return np.array([[cell or "nan" for cell in row] for row in rows], float)
    except ValueError:
        pass  # A word for an unknown value, or an error: read cell by cell.
    return np.array(
        [
            [_rtt_ms(name, f"row {i}, column {j}", cell) for j, cell in enumerate(row)]
            for i, row in enumerate(rows)
        ]
    )


def _value(cell: str) -> float | None:
    """The number in a cell, NaN for a word that means unknown, None for anything else."""
    if cell.lower() in UNKNOWN_WORDS:
        return math.nan
    try:
        return float(cell)
    except ValueError:
        return None


def _is_value(cell: str) -> bool:
    return _value(cell) is not None


def _is_unknown(cell: str) -> bool:
    value = _value(cell)
    return value is not None and (math.isnan(value) or value == UNKNOWN_MS)


def _rtt_ms(name: str, place: str, cell: str) -> float:
    value = _value(cell)
    if value is None:
        raise LatencyMatrixError(
            f"{name}: {place}: {cell!r} is no round-trip time in ms (a number ≥ 0; blank, nan, -1 "
            "or 0 if unknown)"
        )
    return value


def _numbers(count: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(count))


def _unknown_as_nan(rtt_ms: FloatArray) -> FloatArray:
    between = ~np.eye(len(rtt_ms), dtype=bool)
    unknown = (rtt_ms == UNKNOWN_MS) | ((rtt_ms == 0) & between)
    return np.where(unknown, np.nan, rtt_ms)


def _check_size(count: int, name: str) -> None:
    if count > DENSE_NODES:
        raise TooManyNodes(f"{name}: {count} nodes are too many for a table: at most {DENSE_NODES}")


def _check_known(matrix: LatencyMatrix, name: str) -> None:
    count = len(matrix.names)
    if count < 2:
        raise LatencyMatrixError(f"{name}: a table of {count} node has no pair")
    known = np.isfinite(matrix.rtt_ms) & ~np.eye(count, dtype=bool)
    if not known.any():
        raise LatencyMatrixError(f"{name}: all {count * (count - 1)} round trips are unknown")
    parts, part = connected_components(csr_array(known.astype(float)), directed=False)
    if parts > 1:
        other = matrix.names[int(np.argmax(part != part[0]))]
        remedy = f"{name} knows no round trip between their parts"
        raise Unreachable(matrix.names[0], other, remedy)
