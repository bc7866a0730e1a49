"""Removes the files of checkpoints that are needed no longer, beside the leader's steps.

The leader's lists say which are (`orchestrator.control.decide.checkpoints`). A file that is older
than all that its fragment's list names goes at once. A file that no list names may have been
written a moment ago; it goes once it has not been listed for `UNLISTED_S`. What a savepoint has yet
to copy stays until that is done.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from orchestrator.checkpoints.checkpoint_folder import CheckpointFolder
from orchestrator.records import CheckpointsRecord, SavepointState
from orchestrator.store.protocol import CHECKPOINTS, CLUSTER, SAVEPOINTS, Store, StoreError

SWEEP_EVERY_S = 20.0

UNLISTED_S = 600.0

_order = re.compile(r"(\d+)-(-?\d+)-(?:(\d+)-)?")
"""Generation, output watermark and time; names had no time before."""

_log = logging.getLogger(__name__)


class CheckpointSweep:
    """The files of one cluster's checkpoints.

    Parameters
    ----------
    store
        The cluster's, on a session that other threads use, too.
    leads
        Whether this process leads.
    clock_s
        Rises with time.
    """

    def __init__(
        self, store: Store, leads: Callable[[], bool], clock_s: Callable[[], float]
    ) -> None:
        self._store, self._leads, self._clock_s = store, leads, clock_s
        self._unlisted_s: dict[tuple[str, str], float] = {}
        """Fragment and name → since when no list has named it."""

    def sweep(self) -> None:
        """Remove what is needed no longer, if this process leads. A folder that fails is tried
        again with the next sweep."""
        if not self._leads():
            self._unlisted_s.clear()
            return
        with suppress(StoreError):
            found = self._store.get(CLUSTER)
            if found is None or (state := found.record.state) is None:
                return
            folder = CheckpointFolder(state.folder)
            listing = self._store.list(CHECKPOINTS)
            lists = {key: each.record for key, each in listing.records.items()}
            # After the lists: what these name no longer was chosen before that.
            held = _held(self._store)
            unread = {error.path.rpartition("/")[2] for error in listing.invalid}
            try:
                for key, name in self._unneeded(folder.names(), lists):
                    is_held = held is None or (key, name) in held
                    if not is_held and key not in unread and self._leads():
                        folder.discard(key, name)
                        self._unlisted_s.pop((key, name), None)
            except OSError as error:
                _log.warning("the folder of checkpoints, %s: %s", state.folder, error)

    def _unneeded(
        self, files: Mapping[str, list[str]], lists: Mapping[str, CheckpointsRecord]
    ) -> Iterator[tuple[str, str]]:
        now_s = self._clock_s()
        before, self._unlisted_s = self._unlisted_s, {}
        for key, names in files.items():
            stored = lists[key].stored if key in lists else ()
            listed = {each.name for each in stored}
            oldest = None
            if stored:
                oldest = stored[0].generation, stored[0].output.watermark_ms, stored[0].at_us
            for name in names:
                order, is_partial = _order.match(name), name.startswith(".")
                if name in listed or (order is None and not is_partial):
                    continue
                since_s = before.get((key, name), now_s)
                self._unlisted_s[key, name] = since_s
                at = None if order is None else _age(order)
                is_older = at is not None and oldest is not None and at < oldest
                if is_older or now_s - since_s > UNLISTED_S:
                    yield key, name


def _age(named: re.Match[str]) -> tuple[int, int, float]:
    return int(named[1]), int(named[2]), int(named[3]) if named[3] else math.inf


def _held(store: Store) -> set[tuple[str, str]] | None:
    """Fragment and name of each checkpoint that a savepoint has yet to copy; None: who knows."""
    listing = store.list(SAVEPOINTS)
    if listing.invalid:
        return None
    return {
        (piece.fragment, piece.checkpoint)
        for found in listing.records.values()
        if found.record.state is SavepointState.COPYING
        for piece in found.record.pieces
        if piece.crc32 is None
    }
