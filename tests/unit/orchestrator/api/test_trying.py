"""`vivace try`: what it takes queries and files for, what it writes, and what it refuses."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.api import tried_query
from orchestrator.api.trying import AskedTry, try_query
from orchestrator.errors import InvalidInput
from tests.fragile import fragile_function
from tests.tried import tried, tried_on_pipe, written

HOT = "RSTREAM(SELECT sensor, celsius FROM readings [NOW] WHERE celsius >= 30)"
READINGS = (
    "at,sensor,celsius",
    "2026-07-01T12:00:00Z,roof,29.5",
    "2026-07-01T12:00:01Z,roof,30.1",
    "2026-07-01T12:00:03Z,cellar,31.4",
)
ROOF = {"_ts": 1782907201000, "sensor": "roof", "celsius": 30.1}
CELLAR = {"_ts": 1782907203000, "sensor": "cellar", "celsius": 31.4}
STREAM = """\
kind: Stream
name: readings
site: here
columns: {sensor: string, celsius: float}
rate: 1 KB/s
from: {http: {timestamp: {column: at, format: iso}, slack: 2 s}}
"""
QUERY = """\
kind: Query
name: heat
deadline: 2 s
recovery: 2 s
outputs: {hot: here}
statements: |
  REGISTER QUERY warm RSTREAM(SELECT sensor, celsius FROM readings [NOW] WHERE celsius > 29);
  REGISTER QUERY hot RSTREAM(SELECT * FROM warm [NOW] WHERE celsius >= 30);
"""


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    return written(tmp_path, "readings.csv", *READINGS)


@pytest.fixture
def manifests(tmp_path: Path) -> list[Path]:
    return [written(tmp_path, "stream.yaml", STREAM), written(tmp_path, "query.yaml", QUERY)]


class TestQuery:
    def test_a_statement_without_a_name(self, readings: Path) -> None:
        found = tried(HOT, f"readings={readings}")
        assert found.outputs[0].first_rows == (ROOF, CELLAR)
        assert found.inputs[0].tuples == 3

    @pytest.mark.parametrize(
        ("statement", "problem"),
        [
            ("SELECT sensor FROM readings [NOW]", r"line 1, column 1: .* RSTREAM\(…\) around it"),
            ("RSTREAM(SELECT sensor FROM readings [NOW]", "line 1, column 8: '\\(' is not closed"),
            (f"{HOT} RTSPEC PERIOD 2", "line 1, column 88: the text ends"),
        ],
    )
    def test_what_lacks_its_stream_or_its_end_is_told_so(
        self, readings: Path, statement: str, problem: str
    ) -> None:
        with pytest.raises(InvalidInput, match=problem):
            tried(statement, f"readings={readings}")

    def test_a_value_that_makes_a_column_text_is_told_with_what_fails(self, tmp_path: Path) -> None:
        lines = ("at,celsius", "2026-07-01T12:00:00Z,29.5", "2026-07-01T12:00:01Z,?")
        rows = written(tmp_path, "r.csv", *lines, "2026-07-01T12:00:03Z,31.4")
        statement = "RSTREAM(SELECT celsius + 1 AS x FROM readings [NOW])"
        with pytest.raises(InvalidInput, match=r"\+ takes numbers") as raised:
            tried(statement, f"readings={rows}")
        assert "r.csv: celsius is taken for text because of '?' in line 3" in raised.value.remedy

    @pytest.mark.parametrize("given", ["{}", "a={}", "readings={}"])
    def test_statements_that_feed_each_other_are_told_so_whatever_is_given(
        self, given: str, readings: Path, tmp_path: Path
    ) -> None:
        text = "".join(
            f"REGISTER QUERY {name} RSTREAM(SELECT x FROM {other} [NOW]);"
            for name, other in (("a", "b"), ("b", "a"))
        )
        with pytest.raises(InvalidInput, match="a, b read each other at the same"):
            tried(str(written(tmp_path, "q.cql", text)), given.format(readings))

    def test_a_file_of_statements_gives_what_none_of_them_reads(
        self, readings: Path, tmp_path: Path
    ) -> None:
        text = (
            f"-- Hot ones.\nREGISTER QUERY hot {HOT};\n"
            "REGISTER QUERY many RSTREAM(SELECT count(*) AS n FROM hot [UNBOUNDED]);"
        )
        found = tried(str(written(tmp_path, "q.cql", text)), f"readings={readings}")
        (many,) = found.outputs
        assert many.stream == "many"
        assert [row["n"] for row in many.first_rows] == [1, 2]
        assert found.evaluations["hot"] == "stateless"

    def test_the_only_query_of_manifests_gives_its_outputs(
        self, readings: Path, manifests: list[Path]
    ) -> None:
        found = tried(None, str(readings), files=manifests)
        (hot,) = found.outputs
        assert (hot.stream, hot.first_rows) == ("hot", (ROOF, CELLAR))
        assert not found.inputs[0].inferred

    def test_the_place_of_an_error_is_that_in_the_text(
        self, readings: Path, tmp_path: Path
    ) -> None:
        text = "RSTREAM(SELECT sensor\n  FROM readings [NOW]\n  WHERE celcius >= 30)"
        path = written(tmp_path, "q.cql", text)
        with pytest.raises(InvalidInput) as caught:
            tried(str(path), f"readings={readings}")
        said = str(caught.value)
        assert said.startswith(f"{path}: line 3, column 9: readings has no column celcius")
        assert "did you mean celsius?" in said

    def test_an_error_in_a_manifest_names_its_line(
        self, readings: Path, manifests: list[Path]
    ) -> None:
        manifests[1].write_text(QUERY.replace("celsius > 29", "celsius > cold"))
        with pytest.raises(InvalidInput, match=r"query.yaml:7: Query heat: statements: .*cold"):
            tried("heat", str(readings), files=manifests)

    @pytest.mark.parametrize(
        ("query", "problem"),
        [
            (None, "no query is named"),
            ("heet", "Did you mean heat?"),
            ("missing.cql", "is neither a file nor the name of a query"),
        ],
    )
    def test_no_such_query(self, query: str | None, problem: str, manifests: list[Path]) -> None:
        with pytest.raises(InvalidInput) as caught:
            tried(query, files=manifests if query == "heet" else [])
        assert problem in str(caught.value)


class TestInput:
    def test_standard_input_as_its_first_line_looks(self) -> None:
        lines = "\n".join(READINGS).encode()
        assert tried(HOT, "-", stdin=lines).outputs[0].first_rows == (ROOF, CELLAR)
        line = b'{"at": 1782907201000, "sensor": "roof", "celsius": 30.1}\n'
        found = tried(HOT, "-", stdin=line)
        assert found.outputs[0].first_rows == (ROOF,)
        assert found.inputs[0].timestamp_format == "ms"

    def test_rows_that_wait_in_a_pipe_come_out_before_it_ends(self) -> None:
        read, write = os.pipe()
        out, sink = os.pipe()
        with os.fdopen(read, "rb", 0) as stdin, os.fdopen(sink, "wb", 0) as stdout:
            asked = AskedTry(query=HOT, inputs=["-"], prints=True)
            thread = threading.Thread(target=lambda: try_query(asked, stdin, stdout))
            thread.start()
            with os.fdopen(out, "rb", 0) as results:
                os.write(write, ("\n".join(READINGS) + "\n").encode())
                assert os.read(results.fileno(), 100).startswith(b"_ts,sensor,celsius\n")
                assert os.read(results.fileno(), 100) == b"1782907201000,roof,30.1\n"
                os.close(write)
                thread.join()
                assert os.read(results.fileno(), 100) == b"1782907203000,cellar,31.4\n"

    def test_two_inputs_are_merged_by_time(self, tmp_path: Path) -> None:
        one = written(tmp_path, "a.csv", "_ts,x", "1,1", "5,2", "9,3")
        other = written(tmp_path, "b.csv", "_ts,x", "2,10", "5,20")
        text = "RSTREAM(SELECT x FROM a [NOW] UNION ALL SELECT x FROM b [NOW])"
        found = tried(text, f"a={one}", f"b={other}")
        rows = [(row["_ts"], row["x"]) for row in found.outputs[0].first_rows]
        assert rows == [(1, 1), (2, 10), (5, 2), (5, 20), (9, 3)]

    def test_time_goes_on_after_the_last_tuple(self, tmp_path: Path) -> None:
        path = written(tmp_path, "s.csv", "_ts,x", "500,1", "1500,2")
        found = tried(
            "RSTREAM(SELECT sum(x) AS t FROM s [RANGE 1 SECOND SLIDE 1 SECOND])", str(path)
        )
        rows = [(row["_ts"], row["t"]) for row in found.outputs[0].first_rows]
        assert rows == [(1000, 1), (2000, 2), (3000, None)]

    def test_a_recording_ends_where_its_manifest_says(self, tmp_path: Path) -> None:
        table = pa.table({"timestamp": [0, 500, 1500, 2500], "x": [1, 2, 3, 4]})
        parquet.write_table(table, tmp_path / "s.parquet")
        stream = written(
            tmp_path,
            "s.yaml",
            "{kind: Stream, name: s, site: here, columns: {x: int}, rate: 1 KB/s, from: {replay: "
            "{path: s.parquet, begin: '1970-01-01T00:00:00.100Z', end: '1970-01-01T00:00:02Z'}}}",
        )
        found = tried("RSTREAM(SELECT count(*) AS n FROM s [UNBOUNDED])", files=[stream])
        rows = [(row["_ts"], row["n"]) for row in found.outputs[0].first_rows]
        assert rows == [(500, 1), (1500, 2)]

    def test_lines_without_a_header_are_in_the_order_of_the_manifest(
        self, tmp_path: Path, manifests: list[Path]
    ) -> None:
        path = written(tmp_path, "r.csv", *READINGS[1:])
        found = tried(None, str(path), files=manifests)
        assert found.outputs[0].first_rows == (ROOF, CELLAR)

    def test_slack_of_a_live_stream_allows_disorder(
        self, tmp_path: Path, manifests: list[Path]
    ) -> None:
        lines = [READINGS[0], READINGS[2], READINGS[1], READINGS[3]]
        path = written(tmp_path, "r.csv", *lines)
        assert tried(None, str(path), files=manifests).outputs[0].rows == 2

    def test_rows_out_of_order_are_refused_unless_they_are_sorted(self, tmp_path: Path) -> None:
        path = written(tmp_path, "r.csv", READINGS[0], "", READINGS[3], READINGS[1], READINGS[2])
        with pytest.raises(InvalidInput) as caught:
            tried(HOT, str(path))
        said = str(caught.value)
        assert said.startswith(f"{path}:4: readings: has an earlier timestamp")
        assert "--sort" in said
        found = tried(HOT, str(path), is_sorted=True)
        assert found.outputs[0].first_rows == (ROOF, CELLAR)

    def test_a_value_that_does_not_fit_names_its_line(self, tmp_path: Path) -> None:
        path = written(tmp_path, "r.csv", *READINGS, "2026-07-01T12:00:04Z,roof,hot")
        stream = written(tmp_path, "s.yaml", STREAM)
        with pytest.raises(InvalidInput) as caught:
            tried(HOT, str(path), files=[stream])
        assert str(caught.value).startswith(f"{path}:5: column celsius: 'hot' is no float")

    def test_a_type_of_the_first_rows_that_a_later_one_breaks(self, tmp_path: Path) -> None:
        rows = [f"{at},1" for at in range(200_000)]
        path = written(tmp_path, "s.csv", "_ts,x", *rows, "200000,1.5")
        with pytest.raises(InvalidInput) as caught:
            tried("RSTREAM(SELECT x FROM s [NOW])", str(path))
        assert str(caught.value).startswith(f"{path}:200002: column x: '1.5' is no int")
        assert "a manifest of the stream (-f)" in str(caught.value)

    def test_all_kinds_of_files_give_the_same(self, tmp_path: Path, readings: Path) -> None:
        table = pa.table(
            {"at": pa.array([1782907201000, 1782907203000], pa.timestamp("ms", "UTC")),
             "sensor": ["roof", "cellar"], "celsius": [30.1, 31.4], "tags": [["a"], []]}
        )  # fmt: skip
        parquet.write_table(table, tmp_path / "r.parquet")
        found = tried(HOT, str(tmp_path / "r.parquet"))
        assert found.outputs[0].first_rows == (ROOF, CELLAR)
        assert list(found.inputs[0].left_out) == ["tags"]
        lines = [
            '{"at": "2026-07-01T12:00:01Z", "sensor": "roof", "celsius": 30.1}',
            '{"at": "2026-07-01T12:00:03Z", "sensor": "cellar", "celsius": 31.4}',
        ]
        found = tried(HOT, str(written(tmp_path, "r.jsonl", *lines)))
        assert found.outputs[0].first_rows == (ROOF, CELLAR)

    @pytest.mark.parametrize("name", ["r.csv", "r.jsonl", "r.parquet"])
    def test_files_that_hold_nothing_of_the_kind(self, tmp_path: Path, name: str) -> None:
        for content in (b"", b"\xff\xfe\x00", b"{"):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(InvalidInput, match=name):
                tried(HOT, str(tmp_path / name))

    @pytest.mark.parametrize(
        ("name", "content", "problem"),
        [
            ("r.csv", b"at,at,x\n1,1,2\n", "column at stands there twice"),
            ("r.csv", b"at,x,x\n1,1,2\n", "column x stands there twice"),
            ("r.csv", b"at,x\r1,7\r2,8\r", "lines that end with CR alone"),
            ("r.csv", "at,x\n1,é\n".encode("latin-1"), "column x holds text that is not UTF-8"),
            ("r.json", b'[{"at": 1, "x": 2}]\n', "its first line is no object of JSON"),
            ("r.jsonl", b'{"at": 1, "x": 1, "x": 2}\n', "its first line is no object of JSON"),
            ("r.jsonl", b"7\n", "its first line is no object of JSON"),
        ],
    )
    def test_files_whose_columns_nobody_can_tell(
        self, tmp_path: Path, name: str, content: bytes, problem: str
    ) -> None:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInput, match=problem) as refused:
            tried("RSTREAM(SELECT * FROM readings [NOW])", str(tmp_path / name))
        assert refused.value.file == str(tmp_path / name)
        assert refused.value.remedy

    @pytest.mark.parametrize("written", ["hours", "%Y-%"])
    def test_a_format_of_timestamps_that_is_none_is_refused_as_an_option(
        self, readings: Path, written: str
    ) -> None:
        with pytest.raises(InvalidInput) as refused:
            tried(HOT, str(readings), time_format=written)
        assert (refused.value.field, refused.value.value) == ("--time-format", written)

    @pytest.mark.parametrize(
        ("inputs", "problem"),
        [
            ([], "no input is named for it. Add --input readings=FILE, or -f with a manifest"),
            (["reading=x.csv"], "Did you mean readings?"),
            (["readings=missing.csv"], "cannot be read"),
            (["readings=x.txt"], "ends with none of .csv"),
            (["readings=a.csv", "readings=b.csv"], "is named twice"),
        ],
    )
    def test_inputs_that_are_none(self, inputs: list[str], problem: str) -> None:
        with pytest.raises(InvalidInput, match=problem):
            tried(HOT, *inputs)

    def test_no_column_is_surely_the_timestamp(self, tmp_path: Path) -> None:
        path = written(tmp_path, "r.csv", "when,sensor,celsius", "1,roof,30.5")
        with pytest.raises(InvalidInput, match="--timestamp COLUMN"):
            tried(HOT, str(path))
        found = tried(HOT, str(path), timestamp="when")
        assert found.outputs[0].first_rows == ({"_ts": 1, "sensor": "roof", "celsius": 30.5},)

    def test_a_timestamp_of_ones_own_format(self, tmp_path: Path) -> None:
        path = written(tmp_path, "r.csv", "when,sensor,celsius", "01.07.2026 12:00:01,roof,30.1")
        found = tried(HOT, str(path), timestamp="when", time_format="%d.%m.%Y %H:%M:%S")
        assert found.outputs[0].first_rows == (ROOF,)

    def test_a_wrong_format_is_said_with_a_remedy(self, tmp_path: Path) -> None:
        path = written(tmp_path, "r.csv", "at,sensor,celsius", "01.07.2026 12:00:01,roof,30.1")
        with pytest.raises(InvalidInput, match="--time-format"):
            tried(HOT, str(path))


class TestOutput:
    def test_one_output_is_csv_on_standard_output(self, readings: Path) -> None:
        _, said = tried_on_pipe(HOT, str(readings), prints=True)
        assert said == "_ts,sensor,celsius\n1782907201000,roof,30.1\n1782907203000,cellar,31.4\n"

    def test_several_outputs_are_lines_of_json(self, readings: Path, tmp_path: Path) -> None:
        text = f"REGISTER QUERY hot {HOT};\nREGISTER QUERY all {HOT.replace('30', '0')};"
        _, said = tried_on_pipe(str(written(tmp_path, "q.cql", text)), str(readings), prints=True)
        assert '{"_stream":"hot","_ts":1782907201000,"sensor":"roof","celsius":30.1}\n' in said
        assert said.count('{"_stream":"all"') == 3

    def test_a_file_is_there_as_a_whole_or_not_at_all(self, tmp_path: Path) -> None:
        out = tmp_path / "out.csv"
        path = written(tmp_path, "r.csv", *READINGS, "2026-07-01T12:00:04Z,roof,hot,1")
        with pytest.raises(InvalidInput):
            tried(HOT, str(path), outputs=[str(out)])
        assert sorted(each.name for each in tmp_path.iterdir()) == ["r.csv"]
        tried(HOT, str(written(tmp_path, "r.csv", *READINGS)), outputs=[f"query={out}"])
        assert out.read_text().count("\n") == 3
        assert sorted(each.name for each in tmp_path.iterdir()) == ["out.csv", "r.csv"]

    def test_csv_tells_the_empty_text_from_null_and_floats_from_ints(self, tmp_path: Path) -> None:
        lines = ['{"_ts": 1, "s": "", "x": 2.0}', '{"_ts": 2, "s": null, "x": null}']
        lines += ['{"_ts": 3, "s": "a \\"b\\", c", "x": 1e300}']
        path = written(tmp_path, "s.jsonl", *lines)
        _, said = tried_on_pipe("RSTREAM(SELECT s, x FROM s [NOW])", str(path), prints=True)
        assert said == '_ts,s,x\n1,"",2.0\n2,,\n3,"a ""b"", c",1e+300\n'

    def test_a_folder_that_is_missing(self, readings: Path, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="cannot be written"):
            tried(HOT, str(readings), outputs=[str(tmp_path / "no" / "out.csv")])


class TestExpectation:
    def test_rows_that_are_as_expected_in_any_order_of_a_timestamp(
        self, readings: Path, tmp_path: Path
    ) -> None:
        rows = ["sensor,_ts,celsius", "cellar,2026-07-01T12:00:03Z,31.4"]
        rows.append("roof,2026-07-01T12:00:01Z,30.1")
        found = tried(HOT, str(readings), expected=[str(written(tmp_path, "e.csv", *rows))])
        assert found.equal
        assert found.expected[0].archived == 2

    def test_rows_that_differ_are_shown(self, readings: Path, tmp_path: Path) -> None:
        rows = ["_ts,sensor,celsius", "1782907201000,roof,30.2", "1782907203000,cellar,31.4"]
        rows += ["1782907203000,cellar,31.4"]
        found = tried(HOT, str(readings), expected=[str(written(tmp_path, "e.csv", *rows))])
        (verdict,) = found.expected
        assert not found.equal
        assert (verdict.missing, verdict.unexpected) == (2, 1)
        assert verdict.first_missing == (ROOF | {"celsius": 30.2}, CELLAR)
        assert verdict.first_unexpected == (ROOF,)

    def test_no_rows_are_expected(self, readings: Path, tmp_path: Path) -> None:
        found = tried(HOT, str(readings), expected=[str(written(tmp_path, "e.jsonl"))])
        assert (found.expected[0].missing, found.expected[0].unexpected) == (0, 2)

    def test_expected_rows_of_other_columns(self, readings: Path, tmp_path: Path) -> None:
        path = written(tmp_path, "e.csv", "_ts,sensor", "1,roof")
        with pytest.raises(InvalidInput, match="column celsius is missing"):
            tried(HOT, str(readings), expected=[str(path)])

    @pytest.mark.parametrize(
        ("name", "rows"),
        [
            ("e.csv", ("_ts,sensor,celsius,room", "1782907201000,roof,30.1,attic")),
            ("e.jsonl", ('{"_ts": 1, "sensor": "roof", "celsius": 30.1, "room": "attic"}',)),
            ("e.jsonl", ('{"_ts": 1, "sensor": "roof", "celsius": 30.1, "room": [1, 2]}',)),
        ],
    )
    def test_a_column_that_the_result_lacks_is_not_expected_in_silence(
        self, readings: Path, tmp_path: Path, name: str, rows: tuple[str, ...]
    ) -> None:
        path = written(tmp_path, name, *rows)
        with pytest.raises(InvalidInput, match="the result has no column room"):
            tried(HOT, str(readings), expected=[str(path)])


def test_what_a_statement_fails_on_ends_it_or_is_left_out_if_the_query_says_so(
    tmp_path: Path,
) -> None:
    rows = written(tmp_path, "n.csv", "_ts,n", "1,12", "2,13", "3,14")
    query = QUERY.replace("celsius > 29", "fragile(n) > 0").replace("readings", "numbers")
    query = query.replace("sensor, celsius", "n").replace("celsius", "n").replace(">= 30", "> 0")
    with fragile_function():
        with pytest.raises(InvalidInput, match="13 is unlucky"):
            tried(str(written(tmp_path, "q.yaml", query)), str(rows))
        skipping = query.replace("outputs: {hot: here}", "onError: skip\noutputs: {warm: here}")
        found = tried(str(written(tmp_path, "s.yaml", skipping)), str(rows))
    (warm,) = found.outputs
    assert [row["n"] for row in warm.first_rows] == [12, 14]
    assert warm.rejected == 1


class TestPeriodic:
    COUNT = "RSTREAM(SELECT count(*) AS n FROM readings [RANGE 2 SECONDS]) RTSPEC {} SECONDS"

    @pytest.mark.parametrize(
        ("clauses", "counts"),
        [
            ("PERIOD 2", [1, 1, 1, 0, 0]),
            ("ETIME 20 SECONDS PERIOD 4", [1, 1, 0, 0, 0, 0]),
            ("STIME 20 SECONDS PERIOD 2", [0, 0, 0, 0, 0]),
        ],
    )
    def test_releases_end_after_windows_and_what_rtspec_says(
        self, readings: Path, clauses: str, counts: list[int]
    ) -> None:
        (output,) = tried(self.COUNT.format(clauses), f"readings={readings}").outputs
        assert [row["n"] for row in output.first_rows] == counts


class TestLoop:
    RING = (
        "REGISTER QUERY ring ISTREAM(SELECT x FROM s [NOW] UNION ALL "
        "SELECT ring.x FROM ring [NOW]{})<{}>;"
    )

    def test_one_that_goes_on_for_ever_is_tried_for_so_many_rounds(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tried_query, "MOST_ROUNDS", 1000)
        path = written(tmp_path, "s.csv", "_ts,x", "5,1")
        (output,) = tried(self.RING.format("", "2 MILLISECONDS"), f"s={path}").outputs
        assert output.rows == 1000

    def test_one_that_comes_to_rest_is_tried_until_it_does(self, tmp_path: Path) -> None:
        path = written(tmp_path, "s.csv", "_ts,x", "5,1", "9,2")
        ring = self.RING.format(" WHERE ring._ts < 900000000", "1 DAY")
        (output,) = tried(ring, f"s={path}").outputs
        assert output.rows == 22

    def test_an_input_that_has_ended_goes_on_with_the_others(self, tmp_path: Path) -> None:
        short = written(tmp_path, "s.csv", "_ts,x", "5,1")
        long = written(tmp_path, "t.csv", "_ts,y", *(f"{at},3" for at in range(200_000)))
        ring = self.RING.format(", t [ROWS 1] WHERE y > 3", "1 MILLISECOND")
        ring += "REGISTER QUERY newest RSTREAM(SELECT y FROM t [NOW] WHERE _ts > 199997);"
        found = tried(ring, f"s={short}", f"t={long}")
        assert {output.stream: output.rows for output in found.outputs} == {"ring": 1, "newest": 2}
