"""Trying breakages: which test notices one, and what a run adds to the list."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from scripts import mutate
from scripts.mutate import QUICK, ROOT, Mutation


def test_there_are_enough_breakages_and_their_tests_exist() -> None:
    assert len([m for m in Mutation.load() if m.harmless is None]) >= 60
    assert all((ROOT / path).exists() for paths in QUICK.values() for path in paths)


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

    def noticed(
        mutation: Mutation, _: Path, __: mutate.Processes, ___: mutate.Unbroken
    ) -> str | None:
        tried.append(mutation)
        return "test_it" if len(tried) != 2 else None

    def copied(_: Path) -> None: ...

    def run(*_: object) -> tuple[int, str]:
        return pytest.ExitCode.OK, ""

    monkeypatch.setattr(mutate, "copy", copied)
    monkeypatch.setattr(mutate.Processes, "run", run)
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


SOUND, BROKEN = "SOUND = True\n", "SOUND = False\n"


class Runs(mutate.Processes):
    """Runs of tests whose ends are made up: by what is broken, and by the first test asked for."""

    def __init__(self, folder: Path, ends: Mapping[tuple[str, str], tuple[int, str]]) -> None:
        self._part, self._ends = folder / "part.py", ends
        self.asked: list[tuple[str, Sequence[str]]] = []
        self._part.write_text(SOUND, encoding="utf-8")

    def run(self, folder: Path, arguments: Sequence[str]) -> tuple[int, str]:
        text = self._part.read_text(encoding="utf-8")
        self.asked.append((text, arguments))
        for (state, test), end in self._ends.items():
            left_out = f"--deselect={test}" in arguments or f"--ignore={test}" in arguments
            if state == text and test.startswith(arguments[arguments[0] == "-x"]) and not left_out:
                return end
        return pytest.ExitCode.OK, ""


def found(folder: Path, runs: Runs, tests: Sequence[str] = ("t.py",)) -> str | None:
    """The failure that counts."""
    breakage = Mutation("part.py", "True", "False")
    return mutate.first_failure(breakage, tests, folder, runs, mutate.Unbroken(runs))


FAILED = int(pytest.ExitCode.TESTS_FAILED)


def test_a_test_notices_a_breakage_if_it_passes_without_it(tmp_path: Path) -> None:
    runs = Runs(tmp_path, {(BROKEN, "t.py::test_a"): (FAILED, "FAILED t.py::test_a[x y] - bad")})
    assert found(tmp_path, runs) == "FAILED t.py::test_a[x y]"
    assert runs.asked == [(BROKEN, ["-x", "t.py"]), (SOUND, ["t.py::test_a"])]


def test_a_test_that_fails_without_the_breakage_does_not_notice_it(tmp_path: Path) -> None:
    ends = {
        (BROKEN, "t.py::test_a"): (FAILED, "FAILED t.py::test_a - bad"),
        (SOUND, "t.py::test_a"): (FAILED, "FAILED t.py::test_a - bad"),
    }
    assert found(tmp_path, Runs(tmp_path, ends)) is None
    # Another one may still.
    ends[BROKEN, "t.py::test_b"] = (FAILED, "FAILED t.py::test_b - bad")
    assert found(tmp_path, Runs(tmp_path, ends)) == "FAILED t.py::test_b"


def test_a_module_that_can_no_longer_be_imported_is_noticed(tmp_path: Path) -> None:
    interrupted = (int(pytest.ExitCode.INTERRUPTED), "ERROR t.py - ImportError: no part")
    assert found(tmp_path, Runs(tmp_path, {(BROKEN, "t.py"): interrupted})) == "ERROR t.py"
    anyway = {(BROKEN, "t.py"): interrupted, (SOUND, "t.py"): interrupted}
    assert found(tmp_path, Runs(tmp_path, anyway)) is None


@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGXCPU, signal.SIGSEGV])
def test_a_run_that_was_killed_says_nothing(tmp_path: Path, ended_by: signal.Signals) -> None:
    assert found(tmp_path, Runs(tmp_path, {(BROKEN, "t.py"): (-ended_by, "")})) is None


def test_the_tests_that_a_file_s_breakages_name_run_unbroken_in_one_run(tmp_path: Path) -> None:
    bad = (FAILED, "FAILED t.py::test_a - bad\nERROR t.py::test_c - bad")
    runs = Runs(tmp_path, {(SOUND, "t.py::test_a"): bad})
    unbroken = mutate.Unbroken(runs)
    for _ in range(2):
        tests = [f"t.py::test_{name}" for name in "abcb"]
        unbroken.look("part.py", tests, tmp_path)
        assert [unbroken.passes(test, tmp_path) for test in tests] == [False, True, False, True]
    assert runs.asked == [(SOUND, ["t.py::test_a", "t.py::test_b", "t.py::test_c"])]


@pytest.mark.slow
def test_a_test_that_runs_on_fails(tmp_path: Path) -> None:
    code = "import signal\n\n\ndef test_on():\n    signal.raise_signal(signal.SIGXCPU)\n"
    (tmp_path / "test_on.py").write_text(code, encoding="utf-8")
    status, said = mutate.Processes().run(tmp_path, ["test_on.py"])
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "FAILED test_on.py::test_on" in said


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
