"""Latency tables: what is read, made symmetric and refused."""

from __future__ import annotations

import numpy as np
import pytest

from topology.latency import (
    WITHIN_REGION_ONE_WAY_MS,
    LatencyMatrix,
    LatencyMatrixError,
    UnknownLatency,
    UnknownRegion,
    read_csv,
)

EUROPE = """\
Source,France Central,France South,Germany West Central,Switzerland North,UK South,West Europe
France Central,,15,12,17,11,13
France South,15,,20,14,20,25
Germany West Central,12,19,,9,17,12
Switzerland North,17,14,9,,23,18
UK South,11,20,17,23,,12
West Europe,15,24,13,19,12,
"""


def test_reads_a_published_table():
    matrix = read_csv(EUROPE, "latency.csv")
    assert len(matrix.names) == 6
    assert matrix.one_way_ms("France Central", "UK South") == 5.5


def test_the_directions_of_a_pair_are_averaged():
    matrix = read_csv(EUROPE, "latency.csv")
    assert matrix.one_way_ms("France Central", "West Europe") == 7.0
    assert matrix.one_way_ms("West Europe", "France Central") == 7.0
    assert np.array_equal(matrix.rtt_ms, matrix.rtt_ms.T, equal_nan=True)


def test_one_known_direction_stands_for_both():
    matrix = read_csv("x,a,b\na,,8\nb,,\n", "t")
    assert matrix.one_way_ms("b", "a") == 4.0


def test_a_blank_diagonal_is_a_region_of_its_own_delay():
    matrix = read_csv("x,a,b\na,,8\nb,8,3\n", "t")
    assert matrix.one_way_ms("a", "a") == WITHIN_REGION_ONE_WAY_MS
    assert matrix.one_way_ms("b", "b") == 1.5


def test_rows_come_in_any_order_and_blank_lines_do_not_count():
    matrix = read_csv("x,a,b\nb,6,\n\na,,8\n", "t")
    assert matrix.names == ("a", "b")
    assert matrix.one_way_ms("a", "b") == 3.5


def test_a_region_with_only_a_row_is_known_from_it():
    # As in the published Azure table: as many rows as columns, one name differs.
    matrix = read_csv("x,a,b\na,,8\nc,5,6\n", "t")
    assert matrix.names == ("a", "b", "c")
    assert matrix.one_way_ms("b", "c") == 3.0
    assert matrix.one_way_ms("b", "a") == 4.0


def test_an_unknown_region_is_answered_with_the_nearest_name():
    with pytest.raises(UnknownRegion, match=r"no region 'west europ'.*did you mean West Europe"):
        read_csv(EUROPE, "latency.csv").one_way_ms("west europ", "UK South")


def test_an_unknown_pair_names_both():
    with pytest.raises(UnknownLatency, match="between 'a' and 'b'"):
        read_csv("x,a,b\na,,\nb,,\n", "t").one_way_ms("a", "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,a,b\na,,fast\nb,1,\n", "t: row 'a', column 'b': 'fast' is no round-trip time"),
        ("x,a,b\na,,-3\nb,1,\n", "t: row 'a', column 'b': '-3' is no round-trip time"),
        ("x,a,b\na,,inf\nb,1,\n", "t: row 'a', column 'b': 'inf' is no round-trip time"),
        ("x,a,b\na,,nan\nb,1,\n", "t: row 'a', column 'b': 'nan' is no round-trip time"),
        ("x,a,b\na,,3\n", "t: 1 rows and 2 columns are not square: column 'b' has no row"),
        ("x,west\nwest,\nwets,1\n", "row 'wets' has no column; did you mean west"),
        ("x,a,b\na,,3\nb,1\n", "t: row 'b' has 1 values for 2 columns"),
        ("x,a,a\na,,3\nb,1,\n", "t: column 'a' occurs twice"),
        ("x,a,b\na,,3\na,1,\n", "t: row 'a' occurs twice"),
        ("", "t: no header row"),
    ],
)
def test_what_is_no_latency_table_is_refused(text: str, message: str):
    with pytest.raises(LatencyMatrixError, match=message):
        read_csv(text, "t")


def test_a_matrix_checks_its_shape_names_and_values():
    with pytest.raises(LatencyMatrixError, match="2 regions need a 2 × 2 matrix"):
        LatencyMatrix(("a", "b"), np.zeros((2, 3)))
    with pytest.raises(LatencyMatrixError, match="'a' occurs twice"):
        LatencyMatrix(("a", "a"), np.zeros((2, 2)))
    with pytest.raises(LatencyMatrixError, match="row 'a', column 'b': -1"):
        LatencyMatrix(("a", "b"), np.array([[0.0, -1.0], [1.0, 0.0]]))
