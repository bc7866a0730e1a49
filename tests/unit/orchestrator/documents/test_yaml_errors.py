from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import InvalidInput
from orchestrator.manifest import load


@pytest.mark.parametrize(
    ("text", "place", "problem", "remedy"),
    [
        ("kind: Q\nname: a\n  deadline: 3\n", "3:11", "indented deeper than the one above", "Ind"),
        ("kind: Q\noutputs:\n  a: b\n c: d\n", "4:2", "does not begin where those above", "Indent"),
        ("nodes:\n  - a\n - b\n", "3:2", "does not begin where those above it do", "Indent"),
        ("statements: |\n  REGISTER\n SELECT\nname: a\n", "3:2", "does not begin where", "Indent"),
        ("kind: Q\n\tname: a\n", "2:1", "a tab where spaces indent", "Indent with spaces only."),
        ("kind: Q\noutputs:\n\ta: b\n", "3:1", "a tab where spaces indent", "Indent with spaces"),
        ("kind: Q\nname a\ndeadline: 3\n", "2:1", "has no colon", 'Write "field: value"'),
        ("kind: Q\nname:a\ndeadline: 3\n", "2:1", "no colon with a space after it", "Write"),
        ("kind Q\nname: a\n", "2:5", "a line above has no colon", 'Write "field: value"'),
        ("kind: Q\nname: a: b\n", "2:8", "a second colon in the line", "Put the value in quotes"),
        ("kind: Q\nname: 'a\ndeadline: 3\n", "2:7", "the quote that opens here is not", "Close"),
        ('kind: Q\nname: "a\ndeadline: 3\n', "2:7", "the quote that opens here is not", "Close"),
        ("kind: Q\noutputs: {a: b\ndeadline: 3\n", "3:9", "the } for line 2, is missing", "Close"),
        ("nodes: [a, b\nname: 3\n", "2:5", "a comma, or the ] for line 1, is missing", "Close"),
        ("outputs: {a: b c: d}\n", "1:17", "a comma, or the } for line 1, is missing", "Close"),
        ("nodes: [a: [,\n", "1:13", "a value is missing here", "Write one"),
        ("name: @a\n", "1:7", "a value cannot begin with @", "Put the value in quotes"),
        ("name: *a\n", "1:7", "begins with * refers to another", "Put the value in quotes"),
        ('name: "a\\q"\n', "1:10", "unknown escape character 'q'", "Look at indentation"),
    ],
)
def test_mistake_is_said_in_words_and_with_its_place(
    tmp_path: Path, text: str, place: str, problem: str, remedy: str
) -> None:
    (tmp_path / "q.yaml").write_text(text)
    with pytest.raises(InvalidInput) as caught:
        load([tmp_path])
    error = caught.value
    assert error.file == f"{tmp_path}/q.yaml:{place}"
    assert error.problem.startswith("is not YAML: ")
    assert problem in error.problem
    assert error.remedy.startswith(remedy)
    assert not {"<", "block", "token", "scalar"} & set(error.problem.split())


def test_control_characters_are_named(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text("name: \x01\n")
    with pytest.raises(InvalidInput, match=r"q\.yaml: is not YAML: .*#x0001.* Remove such"):
        load([tmp_path])
