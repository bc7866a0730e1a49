"""Latency tables in files: every format, and what is none."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import pytest

from bench.networks import matrix_files
from bench.networks.latency_graph import TooManyNodes, Unreachable
from bench.networks.matrix_files import read_matrix
from topology.latency import LatencyMatrixError

TRIANGLE = [[0.0, 10.0, 20.0], [10.0, 0.0, 15.0], [20.0, 15.0, 0.0]]


def npy(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def rtt_ms(content: bytes | str, name: str) -> list[list[float]]:
    content = content.encode() if isinstance(content, str) else content
    return read_matrix(content, name).rtt_ms.tolist()


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int32, np.uint16, ">f4"])
def test_an_array_of_any_kind_of_number(kind: Any):
    matrix = read_matrix(npy(np.array(TRIANGLE, dtype=kind)), "rtt.npy")
    assert matrix.names == ("0", "1", "2")
    assert matrix.rtt_ms.tolist() == TRIANGLE


def test_an_array_in_columns_order():
    assert rtt_ms(npy(np.asfortranarray(TRIANGLE)), "RTT.NPY") == TRIANGLE


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("0 10 20\n10 0 15\n20 15 0\n", "rtt.txt"),
        ("# ms\n 0\t10 20\n\n10 0 15 # second\n20 15 0", "matrix"),
        ("0,10,20\n10,0,15\n20,15,0\n", "rtt.csv"),
        ("\ufeff,10, 20\r\n10,,15\r\n20,15,0\r\n", "rtt.csv"),
        ("0 1 10\n0 2 20\n1 2 15\n", "pairs.txt"),
        ("0 1 10\n0 2 20\n1 2 15\n1 0 10\n", "pairs.txt"),
        ("2,1,15\n1,0,10\n0,2,20\n1,2,15\n", "pairs.csv"),
        ("source,target,rtt_ms\n2,1,15\n1,0,10\n0,2,20\n", "pairs.csv"),
    ],
)
def test_the_same_table_in_many_formats(text: str, name: str):
    matrix = read_matrix(text.encode(), name)
    assert matrix.names == ("0", "1", "2")
    assert np.array_equal(np.nan_to_num(matrix.rtt_ms), TRIANGLE)


def test_a_named_table_keeps_its_names():
    matrix = read_matrix(b"from,Oslo,Rome\nOslo,0,40\nRome,-1,0\n", "rtt.csv")
    assert matrix.names == ("Oslo", "Rome")
    assert matrix.one_way_ms("Rome", "Oslo") == 20
    assert read_matrix(b",1,2\n1,,5\n2,5,\n", "t.csv").one_way_ms("1", "2") == 2.5
    assert read_matrix(b"x a b c\na 0 1 2\nb 1 0 3\nc 2 3 0", "t").names == ("a", "b", "c")


def test_pairs_are_ordered_by_number_or_alphabet():
    assert read_matrix(b"10 9 1\n9 2 1\n", "t").names == ("2", "9", "10")
    assert read_matrix(b"b 10 1\n10 a 1\n", "t").names == ("10", "a", "b")


@pytest.mark.parametrize("unknown", ["nan", "NaN", "-1", "-1.0", "na", "N/A", "0", ""])
def test_what_stands_for_unknown(unknown: str):
    # Known in neither direction; the fourth node makes it no list of pairs.
    text = f"0,{unknown},2,3\n{unknown},0,4,5\n2,4,0,6\n3,5,6,0\n"
    assert np.isnan(rtt_ms(text, "rtt.csv")[0][1])
    named = f"x,a,b,c\na,0,{unknown},2\nb,{unknown},0,4\nc,2,4,0\n"
    assert np.isnan(rtt_ms(named, "rtt.csv")[0][1])


def test_one_known_direction_stands_for_both():
    assert rtt_ms("0 -1 2\n7 0 3\n2 3 0", "t")[0][1] == 7
    assert rtt_ms(npy(np.array([[0, 8.0], [np.nan, 0]])), "t.npy")[1][0] == 8


def test_three_lines_of_three_cells_are_a_table_only_with_an_empty_diagonal():
    assert len(read_matrix(b"0 1 2\n1 0 3\n2 3 0", "t").names) == 3
    assert len(read_matrix(b"0 1 2\n1 2 3\n2 3 5", "t").names) == 4
    assert read_matrix(b"x,a,b\na,0,3\nb,4,0", "t.csv").names == ("a", "b")
    assert read_matrix(b"i,j,ms\na,b,3\nb,c,4", "t.csv").names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "t", "t: holds no latencies"),
        ("# nothing\n", "t", "t: holds no latencies"),
        ("0 1\n1 0\n2 2\n", "t", "t: row 0 has 2 values, and there are 3 rows"),
        ("0 1 2 3\n1 0 2 3\n2 2 0\n3 3 3 0\n", "t", "t: row 2 has 3 values, and there are 4 rows"),
        ("0 1 2\n1 0 fast\n2 3 0\n", "t", "t: row 1, column 2: 'fast' is no round-trip time in ms"),
        ("0,1,nan\n1,0,?\n2,3,0\n", "t.csv", r"t.csv: row 1, column 2: '\?' is no round-trip time"),
        ("0 1 2 5\n1 0 2 5\n2 2 0 -3\n5 5 -3 0\n", "t", "t: row '2', column '3': -3 is no round"),
        ("0 inf\n1 0\n", "t", "t: row '0', column '1': inf is no round-trip time in ms"),
        ("0 -1\n-1 0\n", "t", "t: all 2 round trips are unknown"),
        ("5\n", "t", "t: a table of 1 node has no pair"),
        ("a b 3\nb c slow\n", "t", "t: pair 'b' 'c': 'slow' is no round-trip time in ms"),
        ("a b slow\nb c 3\n", "t", "t: pair 'a' 'b': 'slow' is no round-trip time in ms"),
        ("0 slow\n1 0\n", "t", "t: row 0, column 1: 'slow' is no round-trip time in ms"),
        ("a b 3\nb c -2\n", "t", "t: row 'b', column 'c': -2 is no round-trip time in ms"),
        ("a b 3\na b 4\n", "t", "t: pair 'a' 'b' occurs twice"),
        ("x,a,b,c\na,0,1,2\nb,1,0,soon\nc,2,3,0\n", "t.csv", "row 'b', column 'c': 'soon' is no"),
        ("x,a,b,c\na,0,1,2\nb,1,0,3\n", "t.csv", "t.csv: 2 rows and 3 columns are not square"),
    ],
)
def test_text_that_is_no_latency_table_is_refused(text: str, name: str, message: str):
    with pytest.raises(LatencyMatrixError, match=message):
        read_matrix(text.encode(), name)


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(LatencyMatrixError, match=r"rtt: byte 2 is no UTF-8 text"):
        read_matrix(b"0 \xff", "rtt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"t.npy: not a .npy file"),
        (b"0 1\n1 0\n", r"t.npy: not a .npy file"),
        (npy(np.zeros((2, 3))), r"an array of shape \(2, 3\) is not a square table"),
        (npy(np.zeros(4)), r"an array of shape \(4,\) is not a square table"),
        (npy(np.zeros((2, 2), dtype=bool)), "entries of type bool are no numbers"),
        (npy(np.array([["0", "1"], ["1", "0"]])), "entries of type <U1 are no numbers"),
        (npy(np.zeros((2, 2), dtype=complex)), "entries of type complex128 are no numbers"),
        (npy(np.array([[0, 1], [1, 0]]))[:-4], "t.npy: the array is cut off"),
        (npy(np.array([[0, np.inf], [1, 0]])), "row '0', column '1': inf is no round-trip time"),
        (npy(np.array([[0, -7], [1, 0]])), "row '0', column '1': -7 is no round-trip time"),
    ],
)
def test_an_array_that_is_no_latency_table_is_refused(content: bytes, message: str):
    with pytest.raises(LatencyMatrixError, match=message):
        read_matrix(content, "t.npy")


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return pytest.fail, ("a pickle was loaded",)


@pytest.mark.parametrize(
    "content",
    [pickle.dumps(Bomb()), npy(np.array([[Bomb()]], dtype=object), allow_pickle=True)],
)
def test_pickles_are_not_opened(content: bytes):
    with pytest.raises(LatencyMatrixError):
        read_matrix(content, "t.npy")


def test_a_header_that_promises_too_much_allocates_nothing():
    small = b"'shape': (2, 2), }        "
    huge = npy(np.zeros((2, 2))).replace(small, b"'shape': (90000, 90000), }")
    with pytest.raises(TooManyNodes, match="90000 nodes are too many"):
        read_matrix(huge, "t.npy")


def test_too_many_nodes_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(matrix_files, "DENSE_NODES", 3)
    with pytest.raises(TooManyNodes, match="t: 4 nodes are too many for a table: at most 3"):
        read_matrix(b"a b 1\nb c 1\nc d 1\na d 1\n", "t")
    with pytest.raises(TooManyNodes, match="4 nodes"):
        read_matrix(b"0 1 1 1\n1 0 1 1\n1 1 0 1\n1 1 1 0\n", "t")


def test_what_does_not_hang_together_is_refused_with_a_pair():
    with pytest.raises(Unreachable, match="no path joins 'a' and 'c'; pairs"):
        read_matrix(b"a b 1\nc d 1\n", "pairs.txt")
