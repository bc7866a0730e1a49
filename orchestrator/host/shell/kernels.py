"""Loads the compiled kernels of a host's engines without holding up its loop.

    python -m orchestrator.host.shell.kernels

compiles them, and keeps the machine code beside the sources, where hosts find it: for images, whose
processes cannot write there. It is code for this processor, or for the one that `NUMBA_CPU_NAME`
names: then processes must have that variable, too.

Loading takes seconds of processor time (`streams.kernels.kernels`). A host begins with kernels that
give the same bits without being compiled, and goes over to the compiled ones once a thread of its
own has loaded them. A host without a statement that needs kernels never loads any.

The hosts of a machine load one after the other. A statement usually reaches all of them at once;
together they would take all of its processors for seconds, just when its streams begin.

The interpreter lets no other thread run while it opens a shared library, and LLVM's has 170 MB:
from a disk, a third of a second. So that one is opened beforehand, by a foreign call, during which
other threads run; whoever opens it again has it at once.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

from orchestrator.clock import thread_us
from streams.kernels import kernels

TURN_S = 60.0
"""How long a host waits for its turn: a process that was stopped may keep it for ever."""

LOOK_S = 0.05

SWITCH_S = 0.0001
"""How long the thread that loads may keep the interpreter while the loop waits for it. A turn of
the loop gives the interpreter away in many system calls, and waited up to 5 ms after each."""


class KernelLoader:
    """Loads them when the first statement asks for them, and those of loops when a loop does."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._before_s = self._used_s = 0.0

    def attend(self) -> None:
        """Begin to load if it is time to; returns at once."""
        if (self._thread is None or not self._thread.is_alive()) and kernels.missing():
            self._before_s = self._used_s
            self._thread = threading.Thread(target=self._load, name="kernels", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until a load that has begun is done."""
        if self._thread is not None:
            self._thread.join(seconds)

    def used_s(self) -> float:
        """Processor time that loading has taken so far, s. It is no load that stays."""
        thread = self._thread
        if thread is not None and thread.is_alive():
            for each in psutil.Process().threads():
                if each.id == thread.native_id:
                    self._note(each.user_time + each.system_time)
        return self._used_s

    def _load(self) -> None:
        with _turn(), _switching():
            open_llvm()
            kernels.load()
        self._note(thread_us() / 1e6)

    def _note(self, used_s: float) -> None:
        self._used_s = max(self._used_s, self._before_s + used_s)


def open_llvm() -> None:
    """Open LLVM's library while other threads run; where that cannot be done, numba opens it."""
    llvmlite = importlib.util.find_spec("llvmlite")
    if llvmlite is None:
        return
    with suppress(AttributeError, OSError):
        dlopen = ctypes.CDLL(None).dlopen
        dlopen.argtypes, dlopen.restype = [ctypes.c_char_p, ctypes.c_int], ctypes.c_void_p
        for folder in llvmlite.submodule_search_locations or ():
            for library in Path(folder, "binding").glob("libllvmlite.*"):
                dlopen(os.fsencode(library), os.RTLD_NOW)


@contextmanager
def _switching() -> Generator[None]:
    """While threads take turns quickly."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(usual_s)


@contextmanager
def _turn() -> Generator[None]:
    """While no other process of this machine loads the same kernels, as far as can be told."""
    with ExitStack() as held:
        with suppress(OSError):
            _lock(held.enter_context(open(kernels.__file__, "rb")))
        yield


def _lock(file: IO[bytes]) -> None:
    """Lock a file until it is closed, but for no longer than a turn."""
    give_up = time.monotonic() + TURN_S
    while time.monotonic() < give_up:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOOK_S)
        else:
            break


def main() -> int:
    """Compile all kernels; the exit status."""
    folder = Path(kernels.__file__).with_name("__pycache__")
    try:
        folder.mkdir(exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        sys.stderr.write(f"{folder} cannot be written to: kernels are compiled at each start.\n")
        return 1
    if not kernels.load(loops=True):
        sys.stderr.write("numba cannot be imported: kernels stay as they are in numpy.\n")
        return 1
    sys.stdout.write(f"The kernels' machine code is in {folder}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
