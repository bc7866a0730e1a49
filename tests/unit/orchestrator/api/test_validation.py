"""What can be said of manifests without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.api.validation import check, validate
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
    with pytest.raises(InvalidInput, match="'alerts' reads its own output") as caught:
        check(load([tmp_path]))
    assert caught.value.remedy == "Read another stream."


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
