"""The check that a public class name is unique in the product."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.class_names import main, public_classes, repeated


def test_public_classes_are_those_of_the_module_itself() -> None:
    source = "class A:\n    class B: ...\nclass _C: ...\ndef f():\n    class D: ...\n"
    assert list(public_classes(source)) == [("A", 1)]


def test_a_name_in_two_modules_is_found_with_its_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, source in {
        "ha/one.py": "class Offer: ...\nclass Cut: ...\n",
        "orchestrator/control/two.py": "import x\nclass Offer: ...\n",
        "vivace/three.py": "class Sent: ...\n",
        "bench/four.py": "class Cut: ...\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(source, encoding="utf-8")
    places = ["orchestrator/control/two.py:2", "ha/one.py:1"]
    assert repeated(tmp_path) == {"Offer": places}
    monkeypatch.setattr("sys.argv", ["class_names", str(tmp_path)])
    assert main() == 1
    assert capsys.readouterr().out == f"Offer: {places[0]}, {places[1]}\n"
