"""A view that is drawn again and again, and changes with keys."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rich.console import RenderableType
from rich.live import Live

from orchestrator.cli.invocation import output


class Watched(Protocol):
    """What a view shows."""

    @property
    def is_paused(self) -> bool:
        """Whether nothing is asked anew."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether it is to end."""
        ...


S = TypeVar("S", bound=Watched)


def live(
    shown: S, frame: Callable[[S], RenderableType], after: Callable[[S, str], S], every_s: float
) -> None:
    """Draw frames until keys, or Ctrl-C, say that it is over.

    Parameters
    ----------
    frame
        What is drawn now.
    after
        What is shown after a key.
    """
    with (
        _keys() as key_of,
        Live(frame(shown), console=output(), auto_refresh=False, screen=True) as screen,
    ):
        while not shown.has_ended:
            key = key_of(every_s)
            if key is not None:
                shown = after(shown, key)
            if not shown.is_paused or key is not None:
                screen.update(frame(shown), refresh=True)


@contextmanager
def _keys() -> Generator[Callable[[float], str | None]]:
    """Keys as they are pressed; the terminal is as before afterwards."""
    number = sys.stdin.fileno()
    if not os.isatty(number):
        # Nobody can press any: it goes on until Ctrl-C.
        yield lambda wait_s: time.sleep(wait_s)
        return
    before = termios.tcgetattr(number)

    def key_of(wait_s: float) -> str | None:
        ready, _, _ = select.select([number], [], [], wait_s)
        # A key that has a name comes as several bytes at once.
        return os.read(number, 8).decode("utf-8", "replace") if ready else None

    try:
        tty.setcbreak(number)
        yield key_of
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
