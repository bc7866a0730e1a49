"""A host goes over to compiled kernels when a statement asks for them, and not before."""

from __future__ import annotations

import ctypes
import fcntl
import subprocess
import sys
import threading
import time
from unittest.mock import Mock

import pytest

from orchestrator.host.shell.kernels import LOOK_S, SWITCH_S, KernelLoader, open_llvm
from orchestrator.host.shell.own_process import process_cpu_s
from streams.evaluate.engine import FragmentEngine
from streams.kernels import kernels, reference
from streams.language import parse
from streams.plan.compiler import compile_statement
from tests.conftest import PATIENCE_S
from tests.unit.streams.running import catalogue, program

LOOP = "REGISTER QUERY l ISTREAM(SELECT i FROM s [NOW] UNION ALL SELECT i FROM l [NOW])<NOW>"

OPENED_BEFORE = """
import sys
from pathlib import Path
from orchestrator.host.shell.kernels import open_llvm

def is_open():
    return "open" if "libllvmlite" in Path("/proc/self/maps").read_text() else "not open"

before = is_open()
open_llvm()
imported = "imported" if "llvmlite.binding" in sys.modules else "not imported"
print(before, is_open(), imported, sep=", ")
"""


@pytest.fixture(autouse=True)
def before_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels.in_use, "module", reference)
    monkeypatch.setattr(kernels.in_use, "loops", None)
    monkeypatch.setattr(kernels.in_use, "wanted", False)
    monkeypatch.setattr(kernels.in_use, "loops_wanted", False)


def test_kernels_are_loaded_when_a_statement_needs_them() -> None:
    loader = KernelLoader()
    FragmentEngine(program("RSTREAM(SELECT k FROM s [NOW])"))
    loader.attend()
    loader.wait(PATIENCE_S)
    assert kernels.current() is reference
    FragmentEngine(program("RSTREAM(SELECT count(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND])"))
    loader.attend()
    loader.wait(PATIENCE_S)
    assert kernels.current().__name__ == "streams.kernels.compiled"
    assert not kernels.missing()
    assert not kernels.loops_loaded()


def test_those_of_the_loop_machine_are_loaded_when_a_loop_needs_them() -> None:
    loader = KernelLoader()
    kernels.want()
    loader.attend()
    loader.wait(PATIENCE_S)
    before_s = loader.used_s()
    (loop,) = parse(f"REGISTER LOOP l OF l STEPS 9 ERROR ({LOOP});")
    FragmentEngine(compile_statement(loop, catalogue))
    assert kernels.missing()
    loader.attend()
    loader.wait(PATIENCE_S)
    assert kernels.loops_loaded()
    assert not kernels.missing()
    assert loader.used_s() >= before_s


def test_what_loading_takes_is_known_while_it_lasts_and_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has_begun, goes_on = threading.Event(), threading.Event()

    def work_until(used_s: float) -> None:
        while time.thread_time() < used_s:
            pass

    def load() -> None:
        work_until(0.1)
        has_begun.set()
        goes_on.wait(PATIENCE_S)
        work_until(0.2)

    monkeypatch.setattr(kernels, "load", load)
    kernels.want()
    loader = KernelLoader()
    assert loader.used_s() == 0.0
    loader.attend()
    assert has_begun.wait(PATIENCE_S)
    # The kernel counts in hundredths of a second.
    assert loader.used_s() >= 0.08
    goes_on.set()
    loader.wait(PATIENCE_S)
    assert 0.2 <= loader.used_s() <= process_cpu_s()


def test_hosts_of_a_machine_load_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Mock()
    monkeypatch.setattr(kernels, "load", load)
    kernels.want()
    loader = KernelLoader()
    with open(kernels.__file__, "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        loader.attend()
        loader.wait(10 * LOOK_S)
        load.assert_not_called()
    loader.wait(PATIENCE_S)
    load.assert_called_once()


def test_the_loop_gets_the_interpreter_soon_while_kernels_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    while_loading_s: list[float] = []
    monkeypatch.setattr(kernels, "load", lambda: while_loading_s.append(sys.getswitchinterval()))
    usual_s = sys.getswitchinterval()
    kernels.want()
    loader = KernelLoader()
    loader.attend()
    loader.wait(PATIENCE_S)
    assert while_loading_s == [pytest.approx(SWITCH_S)]
    assert usual_s > SWITCH_S
    assert sys.getswitchinterval() == usual_s


def test_a_process_that_keeps_its_turn_does_not_keep_others_from_loading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load = Mock()
    monkeypatch.setattr(kernels, "load", load)
    monkeypatch.setattr("orchestrator.host.shell.kernels.TURN_S", 2 * LOOK_S)
    kernels.want()
    loader = KernelLoader()
    with open(kernels.__file__, "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        loader.attend()
        loader.wait(PATIENCE_S)
        load.assert_called_once()


def test_kernels_are_loaded_where_files_cannot_be_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Mock()
    monkeypatch.setattr(kernels, "load", load)
    monkeypatch.setattr(kernels, "__file__", "/in/an.archive/kernels.py")
    kernels.want()
    loader = KernelLoader()
    loader.attend()
    loader.wait(PATIENCE_S)
    load.assert_called_once()


def test_the_library_of_the_compiler_is_open_before_it_is_imported() -> None:
    """An import holds up other threads."""
    done = subprocess.run([sys.executable, "-c", OPENED_BEFORE], check=True, capture_output=True)
    assert done.stdout == b"not open, open, not imported\n"


def test_the_library_is_opened_by_a_call_that_lets_other_threads_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Foreign calls of `CDLL` release the interpreter's lock; those of `PyDLL` keep it."""
    libraries = Mock()
    monkeypatch.setattr(ctypes, "CDLL", libraries)
    open_llvm()
    ((path, _),) = (call.args for call in libraries.return_value.dlopen.call_args_list)
    assert b"libllvmlite" in path


def test_without_numba_the_reference_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(kernels.importlib, "import_module", absent)
    kernels.want()
    assert kernels.missing()
    assert not kernels.load()
    assert kernels.current() is reference
    assert not kernels.missing()
