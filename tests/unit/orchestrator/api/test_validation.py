"""What can be said of manifests without a cluster."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orchestrator.api.validation import check, validate
from orchestrator.control.observe.dataflow import sound_dataflow
from orchestrator.errors import EXIT_REFUSED, InvalidInput
from orchestrator.manifest import load

TEXT = """\
kind: Cluster
name: aircraft
nodes: [paris, lyon]
sites: [receiver]
---
kind: Stream
name: north
site: receiver
columns: {z: string, a: float}
rate: 150 KB/s
---
kind: Query
name: proximity
deadline: 300 ms
recovery: 0.5 s
outputs: {alerts: {site: receiver, deadline: 100 ms}}
estimates: {alerts: {selectivity: 0.5}}
primaries: {alerts: [lyon]}
statements: |
  REGISTER QUERY alerts RSTREAM(SELECT * FROM north [NOW]);
"""


def write(folder: Path, old: str, new: str) -> None:
    assert old in TEXT
    (folder / "all.yaml").write_text(TEXT.replace(old, new, 1))


def test_what_is_right_is_compiled(tmp_path: Path) -> None:
    write(tmp_path, "", "")
    assert list(check(load([tmp_path])).fragments) == ["alerts"]


@pytest.mark.parametrize(
    ("stream", "told"),
    [("south", "Name the manifest of south too, with another -f."), ("nort", "")],
)
def test_a_stream_whose_manifest_was_not_named_is_told_from_a_slip(
    tmp_path: Path, stream: str, told: str
) -> None:
    write(tmp_path, "FROM north", f"FROM {stream}")
    with pytest.raises(InvalidInput, match=f"there is no stream {stream}") as raised:
        validate(load([tmp_path]))
    assert raised.value.remedy == told


@pytest.mark.parametrize(
    ("nodes", "remarks"),
    [
        ("[paris, lyon]", ()),
        ("[lyon]", ("Cluster aircraft has one node: it can run no query, which needs two.",)),
    ],
)
def test_a_cluster_of_one_node_is_remarked_on(
    tmp_path: Path, nodes: str, remarks: tuple[str, ...]
) -> None:
    write(tmp_path, "[paris, lyon]", nodes)
    assert validate(load([tmp_path])).remarks == remarks


def test_a_statement_that_reads_itself_is_said_to(tmp_path: Path) -> None:
    write(tmp_path, "FROM north [NOW]", "FROM alerts [NOW]")
    with pytest.raises(InvalidInput, match="alerts reads its own output at the same instant"):
        check(load([tmp_path]))


@pytest.mark.parametrize(
    ("window", "way", "reasons"),
    [
        ("[NOW]", "compiled loop", {}),
        (
            "[RANGE 2 SECONDS SLIDE 1 SECOND]",
            "loop",
            {"proximity": {"alerts": "alerts has a window that slides"}},
        ),
    ],
)
def test_why_a_loop_is_not_compiled_is_told(
    tmp_path: Path, window: str, way: str, reasons: dict[str, dict[str, str]]
) -> None:
    both = f"ISTREAM(SELECT z FROM north {window} UNION ALL SELECT z FROM alerts [NOW])<NOW>"
    write(tmp_path, "RSTREAM(SELECT * FROM north [NOW])", both)
    found = validate(load([tmp_path]))
    assert found.evaluations == {"proximity": {"alerts": way}}
    assert found.stepwise_loops == reasons


@pytest.mark.parametrize(
    ("old", "new", "field", "value", "remedy"),
    [
        ("[lyon]", "[paris, lyno]", "primaries.alerts", "lyno", "Did you mean lyon?"),
        ("[lyon]", "[receiver]", "primaries.alerts", "receiver", "Known: lyon, paris."),
        (
            "primaries: {alerts",
            "primaries: {alert",
            "primaries",
            "alert",
            "Did you mean alerts?",
        ),
        (
            "estimates: {alerts",
            "estimates: {alert",
            "estimates",
            "alert",
            "Did you mean alerts?",
        ),
        ("outputs: {alerts", "outputs: {alert", "outputs", "alert", "Did you mean alerts?"),
        ("{site: receiver", "{site: reciever", "outputs.alerts", "reciever", "Did you mean"),
        ("recovery: 0.5 s", "recovery: 150 ms", "recovery", "150 ms", "Write a longer bound"),
    ],
)
def test_what_cannot_be_is_refused_with_line_field_and_value(
    tmp_path: Path, old: str, new: str, field: str, value: str, remedy: str
) -> None:
    write(tmp_path, old, new)
    with pytest.raises(InvalidInput) as caught:
        check(load([tmp_path]))
    error = caught.value
    line = TEXT[: TEXT.index(old)].count("\n") + 1
    assert error.file == f"{tmp_path}/all.yaml:{line}"
    assert (error.field, error.value) == (f"Query proximity: {field}", value)
    assert error.remedy.startswith(remedy)
    assert error.exit_status == EXIT_REFUSED


def test_an_unknown_site_of_a_stream_is_refused_with_its_line(tmp_path: Path) -> None:
    write(tmp_path, "site: receiver\ncolumns", "site: reciever\ncolumns")
    with pytest.raises(InvalidInput) as caught:
        check(load([tmp_path]))
    assert (caught.value.file, caught.value.value) == (f"{tmp_path}/all.yaml:8", "reciever")


def test_nodes_are_not_looked_for_without_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(TEXT.partition("---\n")[2].replace("[lyon]", "[anywhere]"))
    assert list(check(load([tmp_path])).fragments) == ["alerts"]


@pytest.mark.parametrize(
    ("sink", "selected", "told"),
    [
        (
            "parquet: {path: /data}",
            "a AS vivace_date, z",
            "vivace_date is reserved: vivace_date is",
        ),
        ("parquet: {path: /data}", "a AS Vivace_Hour, z", "column Vivace_Hour is reserved"),
        ("parquet: {path: /data}", "a AS z, z AS Z", "columns z and Z differ in case only"),
        ("http: {}", "a AS z, z AS Z", "columns z and Z differ in case only"),
        ("http: {}", "a AS vivace_date, z", ""),
        ("archive: {}", "a AS z, z AS Z", ""),
        ("parquet: {path: /data}", "a AS date, z AS hour", ""),
        ("archive: {}", "a AS _seq, z", "_seq is reserved: _seq is the number of a tuple"),
    ],
)
def test_columns_that_readers_of_a_sink_would_mix_up_are_refused(
    tmp_path: Path, sink: str, selected: str, told: str
) -> None:
    text = TEXT.replace("deadline: 100 ms}", f"to: {{{sink}}}}}").replace(
        "SELECT *", f"SELECT {selected}"
    )
    (tmp_path / "all.yaml").write_text(text)
    if not told:
        check(load([tmp_path]))
        return
    with pytest.raises(InvalidInput, match=told) as caught:
        check(load([tmp_path]))
    assert "all.yaml:" in caught.value.file
    assert " AS" in str(caught.value)


def test_streams_that_differ_in_case_only_are_refused(tmp_path: Path) -> None:
    write(
        tmp_path,
        "alerts RSTREAM(SELECT * FROM north [NOW]);",
        """alerts RSTREAM(SELECT * FROM north [NOW]);
  REGISTER QUERY North RSTREAM(SELECT * FROM north [NOW]);""",
    )
    with pytest.raises(InvalidInput, match="differs from stream"):
        check(load([tmp_path]))


def test_a_stored_query_whose_names_collide_is_a_problem_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, "", "")
    manifests = load([tmp_path])
    north = manifests.streams[0].record
    sound = manifests.queries[0].record
    text = "REGISTER QUERY numbered RSTREAM(SELECT z AS _seq FROM north [NOW]);"
    named = msgspec.structs.replace(
        sound,
        name="numbered",
        statements=text,
        outputs={"numbered": "receiver"},
        estimates={},
        deadlines_ms={},
        primaries={},
    )
    reads = "REGISTER QUERY reads RSTREAM(SELECT z FROM stamped [NOW]);"
    reading = msgspec.structs.replace(
        named, name="reads", statements=reads, outputs={"reads": "receiver"}
    )
    stamped = msgspec.structs.replace(north, name="stamped", columns={"_ts": "int", "z": "string"})
    flow, problems = sound_dataflow(
        {"north": north, "stamped": stamped},
        {each.name: each for each in (sound, named, reading)},
    )
    assert list(flow.fragments) == ["alerts"]
    told = {problem.query: str(problem) for problem in problems}
    assert "_seq is reserved: _seq is the number of a tuple" in told["numbered"]
    assert "stamped has a column _ts, which is reserved" in told["reads"]
