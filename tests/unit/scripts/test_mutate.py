"""The list of breakages fits the code: each text occurs once in its file, and changes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scripts import mutate
from scripts.mutate import QUICK, ROOT, Mutation


@pytest.mark.parametrize("mutation", Mutation.load(), ids=str)
def test_a_breakage_fits_the_code(mutation: Mutation) -> None:
    assert mutation.fits, "change tests/mutations.yaml with the line that it names"
    assert mutation.by != mutation.text
    sound = (ROOT / mutation.file).read_text(encoding="utf-8")
    compile(sound.replace(mutation.text, mutation.by), mutation.file, "exec")
    assert mutation.quick


def test_there_are_enough_breakages_and_their_tests_exist() -> None:
    assert len([m for m in Mutation.load() if m.harmless is None]) >= 60
    assert all((ROOT / path).exists() for paths in QUICK.values() for path in paths)


def test_the_list_names_tests_that_exist() -> None:
    for mutation in Mutation.load():
        if mutation.test is not None:
            path, *names = mutation.test.split("::")
            text = (ROOT / path).read_text(encoding="utf-8")
            assert all(f"def {name}(" in text or f"class {name}" in text for name in names)


def test_the_list_can_be_told_which_test_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = mutate.LIST.read_text(encoding="utf-8")
    monkeypatch.setattr(mutate, "LIST", copy := tmp_path / "mutations.yaml")
    copy.write_text(listed, encoding="utf-8")
    results = mutate.Results(None)
    mutate.record(results)
    assert copy.read_text(encoding="utf-8") == listed
    first, second, *_ = mutations = Mutation.load()
    results.add(first, "FAILED tests/unit/ha/test_memory.py::test_it[a b]")
    results.add(second, None)
    mutate.record(results)
    test = "tests/unit/ha/test_memory.py::test_it"
    assert Mutation.load() == [replace(first, test=test), *mutations[1:]]


def test_a_run_goes_on_where_the_last_one_ended_and_sums_up_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[Mutation] = []

    def noticed(mutation: Mutation, _: Path, __: mutate.Processes) -> str | None:
        tried.append(mutation)
        return "test_it" if len(tried) != 2 else None

    def copied(_: Path) -> None: ...

    monkeypatch.setattr(mutate, "copy", copied)
    monkeypatch.setattr(mutate, "noticed_by", noticed)
    arguments = ["ha/memory.py", "--jobs", "1", "--results", str(tmp_path / "build" / "results")]
    assert mutate.main([*arguments, "--minutes", "0"]) == 3
    assert not tried
    assert mutate.main(["LOG_SHARE", *arguments[1:]]) == 0
    assert mutate.main(arguments) == 1
    assert len(tried) == len(set(tried)) == 3
    assert mutate.main(arguments) == 1
    assert len(tried) == 3
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 of 3 breakages noticed, 1 not")


@pytest.mark.slow
def test_each_run_of_tests_has_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text("SOUND = True\n", encoding="utf-8")
    test = "import part\n\n\ndef test_part():\n    assert part.SOUND\n"
    (tmp_path / "test_part.py").write_text(test, encoding="utf-8")
    processes = mutate.Processes()
    assert processes.run(tmp_path, ["test_part.py"])[0] == pytest.ExitCode.OK
    broken = Mutation("part.py", "True", "0000")
    with mutate.applied(broken, tmp_path):
        status, said = processes.run(tmp_path, ["test_part.py"])
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "FAILED test_part.py::test_part" in said
    assert processes.run(tmp_path, ["test_part.py"])[0] == pytest.ExitCode.OK


def test_all_breakages_are_tried_on_all_processors_unless_something_else_is_asked_for() -> None:
    assert mutate.Options.of([]) == mutate.Options()
