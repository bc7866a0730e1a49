"""How this process fails on purpose, when a drill's record asks it to (`StrikeLink`).

The kernel does not let the first process of a container kill itself: such a process exits at once
instead, with the same status.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial

import psutil

from orchestrator.embedded.process_faults import CROWDED, FULL_DISK, STOPPED, NotImposed, imposed
from orchestrator.embedded.spark_processes import (
    NoExecutor,
    executor_pids,
    kill_executor,
    kill_own_driver,
)
from orchestrator.records import StrikeKind, StrikeRecord
from orchestrator.store.protocol import STRIKES, Store, StoreError
from orchestrator.store.responding import RespondingThread
from orchestrator.store.strikes import StrikeLink, StrikeVoid

KILLED = 128 + signal.SIGKILL

LASTING: Mapping[StrikeKind, str] = {
    StrikeKind.HANG: STOPPED,
    StrikeKind.FULL_DISK: FULL_DISK,
    StrikeKind.SLOW: CROWDED,
}

COORDINATOR = frozenset({StrikeKind.KILL, StrikeKind.END})
SITE = COORDINATOR | LASTING.keys()
EXECUTOR = SITE | {StrikeKind.KILL_EXECUTOR}
DRIVER = frozenset({StrikeKind.KILL_DRIVER})
"""In which ways each kind of process can fail."""

_log = logging.getLogger("vivace.strikes")


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(KILLED)


def _end() -> None:
    # SIGTERM would have a site wait for its turn.
    os.kill(os.getpid(), signal.SIGINT)


_at_once: Mapping[StrikeKind, Callable[[], None]] = {
    StrikeKind.KILL: _kill,
    StrikeKind.END: _end,
    StrikeKind.KILL_DRIVER: kill_own_driver,
}


class StruckProcess:
    """This process.

    Attributes
    ----------
    kinds
        The ways in which it can fail.
    """

    def __init__(self, kinds: frozenset[StrikeKind]) -> None:
        self.kinds = kinds
        self._over = threading.Event()

    def strike(
        self, asked: StrikeRecord, begin: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        """Fail as asked; what lasts is prepared and ended on a thread of its own."""
        _log.warning("a drill asks for %s, by %s", asked.kind.value, asked.by)
        if (fault := LASTING.get(asked.kind)) is None:
            self._attempt(partial(self._at_once, asked.kind, begin), failed)
            return
        self._over = threading.Event()
        lasting = partial(self._for_a_while, fault, asked.lasts_us / 1e6, begin, self._over)
        threading.Thread(
            target=self._attempt, args=(lasting, failed), name="strike", daemon=True
        ).start()

    def relent(self) -> None:
        """End the fault that lasts, if there is one. A process that hangs cannot."""
        self._over.set()

    def _at_once(self, kind: StrikeKind, begin: Callable[[], None]) -> None:
        # To find the processes takes a while.
        pids = executor_pids(os.getpid()) if kind is StrikeKind.KILL_EXECUTOR else ()
        begin()
        _at_once.get(kind, lambda: kill_executor(pids))()

    def _for_a_while(
        self, fault: str, lasts_s: float, begin: Callable[[], None], over: threading.Event
    ) -> None:
        with imposed(fault, [psutil.Process()], lasts_s, begin):
            over.wait(lasts_s)

    def _attempt(self, act: Callable[[], None], failed: Callable[[str], None]) -> None:
        try:
            act()
        except StrikeVoid as void:
            _log.info("the drill's fault does not begin: %s", void)
        except (NotImposed, NoExecutor, psutil.Error, StoreError, OSError) as error:
            _log.warning("the drill's fault could not be imposed: %s", error)
            with suppress(StoreError):
                failed(str(error))


@contextmanager
def obeying_drills(
    store: Store,
    lives: Mapping[str, Callable[[], str | None]],
    now_us: Callable[[], int],
    kinds: frozenset[StrikeKind],
) -> Generator[None]:
    """While this process fails if a drill asks for that.

    Parameters
    ----------
    lives
        The names by which it may be asked, and the life that each stands for at present.
    now_us
        The cluster's clock.
    kinds
        The ways in which it can fail.
    """
    links = [
        StrikeLink(store, name, life, now_us, StruckProcess(kinds)) for name, life in lives.items()
    ]

    def look() -> None:
        for link in links:
            link.look()

    with closing(RespondingThread(store, STRIKES, look)):
        yield
