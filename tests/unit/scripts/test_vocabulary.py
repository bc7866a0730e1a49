"""Words that the glossary's terms replaced are found in names, keys and texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.vocabulary import Finding, allowed, check, in_file_name, in_page, in_python, main


def words(source: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.word) for finding in in_python(source, "streams/x.py")]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("mark_ms = 1", [(1, "mark")]),
        ("watermark_ms = 1", []),
        ("def f(twinName): ...", [(1, "twin")]),
        ("class Intake: ...", [(1, "intake")]),
        ("class Running: ...", [(1, "Running")]),
        ("running = True", []),
        ("self.closed_ms = closed = 0", [(1, "closed_ms")]),
        ("import numpy as np\nb = np.copies(a).mark()", []),
        ("from x import y as roster", [(1, "roster")]),
        ('d = {"origin_us": 1}', [(1, "origin")]),
        ('"""One.\n\nBoth copies send.\n"""', [(3, "copies")]),
        ("x = 1  # An instant later.", [(1, "instant")]),
        ('raise ValueError("no marks, only landmarks")', [(1, "marks")]),
        ('print(f"{x} of the twin\'s")', [(1, "twin")]),
    ],
)
def test_replaced_words_are_found_where_they_are_defined_or_written(
    source: str, found: list[tuple[int, str]]
) -> None:
    assert words(source) == found


def test_pages_and_file_names_are_checked() -> None:
    (finding,) = in_page("# Words\n\nThe *roster* decides.", "docs/x.md")
    assert (finding.line, finding.use) == (3, "replica manager")
    assert [one.use for one in in_file_name("placement/deadline/literal.py")] == ["paper_model"]
    assert list(in_file_name("placement/deadline/solver.py")) == []


def test_a_finding_says_where_and_what_to_use() -> None:
    finding = Finding(path="a.py", line=3, name="mark_ms", word="mark", use="watermark")
    assert str(finding) == "a.py:3: 'mark' in mark_ms: use watermark"


def test_other_meanings_are_allowed_in_their_place_only() -> None:
    finding = Finding(path="placement/spring_system.py", line=1, name="", word="springs", use="")
    assert allowed(finding)
    elsewhere = Finding(path="topology/vivaldi.py", line=1, name="", word="springs", use="")
    assert not allowed(elsewhere)


def test_a_repository_is_checked_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("Answers come in time.\n", encoding="utf-8")
    (tmp_path / "ha").mkdir()
    (tmp_path / "ha" / "twin.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "ha" / "data.bin").write_bytes(b"twin")
    assert [str(finding) for finding in check(tmp_path)] == [
        "README.md:1: 'answers': use completed timestamps, results or responses",
        "ha/twin.py:1: 'twin' in twin: use peer replica",
    ]


def test_a_folder_that_is_not_the_repository_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["vocabulary", str(tmp_path)])
    assert main() == 2
    assert "is not the repository" in capsys.readouterr().err
