"""How a host is told from outside its process that it is to leave: by a file.

A platform that takes a machine away runs a program beside the host first, such as a pod's `preStop`
hook. That program (`vivace-container leave`) makes the file `leave` in the folder that
`VIVACE_RUN` names, with the seconds that there are, and waits for the file `left`, which the host
writes once it has left, or for the end of the process that `host.pid` names.

A host that finds the file when it starts leaves at once: whatever it runs on is about to end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

RUN_VARIABLE = "VIVACE_RUN"

LEAVE, LEFT, PID = "leave", "left", "host.pid"

LOOK_EVERY_S = 0.1

DEFAULT_WITHIN_S = 30.0
"""For a file that holds no number: what Kubernetes grants by default."""

MOST_WITHIN_S = 86_400.0


class LeaveOrder:
    """What somebody outside says in a folder.

    Parameters
    ----------
    folder
        None: nobody does.
    now_s
        A clock that never goes back.
    wall_s
        The clock of files.
    """

    def __init__(
        self,
        folder: Path | None,
        now_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._now_s, self._wall_s = now_s, wall_s
        self._look_s = -1.0
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / LEFT).unlink(missing_ok=True)
            (folder / PID).write_text(f"{os.getpid()}\n", encoding="ascii")

    @staticmethod
    def of_environment(environment: Mapping[str, str] = os.environ) -> LeaveOrder:
        """The one of this process."""
        folder = environment.get(RUN_VARIABLE)
        return LeaveOrder(Path(folder) if folder else None)

    def within_s(self) -> float | None:
        """In how many seconds the host must have left, when it is found to be told; else None.

        Cheap enough for every turn.
        """
        now_s = self._now_s()
        if self._folder is None or now_s < self._look_s:
            return None
        self._look_s = now_s + LOOK_EVERY_S
        file = self._folder / LEAVE
        try:
            told_s, text = file.stat().st_mtime, file.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            return None
        return max(min(_seconds(text), MOST_WITHIN_S) - max(self._wall_s() - told_s, 0.0), 0.0)

    def done(self, stayed: Iterable[str]) -> None:
        """Say that the host has left, and what ended with it."""
        if self._folder is not None:
            with suppress(OSError):
                # Whole at once, for whoever waits for it.
                draft = self._folder / f".{LEFT}"
                draft.write_text("".join(f"{each}\n" for each in stayed), encoding="utf-8")
                draft.replace(self._folder / LEFT)


def _seconds(text: str) -> float:
    text = text.strip().removesuffix("s")
    return float(text) if text.isdecimal() and len(text) < 10 else DEFAULT_WITHIN_S
