"""Where a manifest says that columns come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.documents.document import documents
from orchestrator.edges.sources import restore
from orchestrator.edges.sources.formats.form_options import WithForm, row_form
from orchestrator.edges.sources.formats.row_form import RowForm, Unknown
from orchestrator.errors import InvalidInput
from orchestrator.manifest.kinds import StreamManifest, read_manifest

STREAM = """
kind: Stream
name: visits
site: here
columns:
  user_id: {type: int, from: user.id}
  "user-agent": string
  group: {type: string, from: ["geo.region"]}
  case: float
rate: 10 KB/s
from: {tcp: {timestamp: {column: "@timestamp", format: s}, nulls: ["", NULL, NaN], unknown: reject}}
"""
REPLAY = """
from:
  replay:
    path: a.csv
    begin: "1970-01-01T00:00:00Z"
    end: "1970-01-01T01:00:00Z"
    timestamp: {column: [a, b]}
    nulls: [x]
"""


def form_of(folder: Path, text: str) -> RowForm:
    file = folder / "stream.yaml"
    file.write_text(text)
    manifest = read_manifest(documents(file)[0])
    assert isinstance(manifest, StreamManifest)
    record = manifest.record
    assert record.source is not None
    source = restore(record.source)
    assert isinstance(source, WithForm)
    return row_form(source, record.columns, record.fields)


def test_a_column_may_come_from_a_field_of_any_name(tmp_path: Path) -> None:
    form = form_of(tmp_path, STREAM)
    assert form.columns == {
        "user_id": "int", "user-agent": "string", "group": "string", "case": "float",
    }  # fmt: skip
    assert form.paths == {
        "@timestamp": ("@timestamp",),
        "user_id": ("user", "id"),
        "user-agent": ("user-agent",),
        "group": ("geo.region",),
        "case": ("case",),
    }
    assert (form.nulls, form.unknown) == (("", "NULL", "NaN"), Unknown.REJECT)


def test_unless_it_says_otherwise_nothing_but_an_empty_field_is_null(tmp_path: Path) -> None:
    form = form_of(tmp_path, STREAM.partition("from: {tcp")[0] + "from: {folder: {path: /}}\n")
    assert (form.nulls, form.unknown) == (("",), Unknown.IGNORE)


def test_a_recording_is_read_by_the_same_rules(tmp_path: Path) -> None:
    form = form_of(tmp_path, STREAM.partition("from: {tcp")[0] + REPLAY)
    assert form.paths["a.b"] == ("a", "b")
    assert form.fields["user_id"] == ("user", "id")
    assert form.nulls == ("x",)


@pytest.mark.parametrize(
    ("written", "instead", "problem"),
    [
        ("user.id", "user..id", "has a dot without a name beside it.*write a list"),
        ("user.id", "[]", "names no field"),
        ("user.id", "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a", "more than 16 names"),
        ("user.id", "1", "put it in quotes"),
        ('["geo.region"]', "user", "two columns, group and user_id, that come from the field user"),
        ('["geo.region"]', "user.id", "two columns, user_id and group, .* the field user.id"),
        ('"@timestamp"', "user.id", r"timestamp: \{column: user_id\}"),
        ('"@timestamp"', "_ts", "is the name of the stream's own timestamp"),
        ("type: int, from", "type: int, form", "Did you mean from"),
        ("unknown: reject", "unknown: drop", "unknown: 'drop' is unknown"),
        ("NULL, NaN]", "{a: b}]", "is not text"),
    ],
)
def test_a_path_that_names_no_field_of_its_own_is_refused(
    tmp_path: Path, written: str, instead: str, problem: str
) -> None:
    assert written in STREAM
    with pytest.raises(InvalidInput, match=problem):
        form_of(tmp_path, STREAM.replace(written, instead))
