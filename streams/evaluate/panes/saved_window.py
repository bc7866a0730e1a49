"""A window made of panes in a snapshot.

Panes are never changed, and a code keeps its key: references to what is saved suffice. In a
snapshot, groups are numbered in the order in which the panes name them, so that equal states look
alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from foundation.arrays import IntArray
from streams.aggregates.parts import read_spans, saved_spans
from streams.arithmetic.exact_sums import UNSPANNED
from streams.evaluate.panes.window import Pane, PaneWindow, no_codes
from streams.kernels.keys import encode
from streams.vectors.arrays import Codes
from streams.vectors.state import (
    PIECE_ROWS,
    Pieces,
    SnapshotError,
    State,
    read_frame,
    row_slices,
    write_frame,
)
from streams.vectors.vector import Array, Frame, Vector

HELD, PENDING, OPEN = range(3)
"""Where a pane is (`streams.evaluate.panes.window`)."""


def save_window(window: PaneWindow, values: Mapping[str, Any], shown: Codes) -> Pieces:
    """The panes with their groups, and the order of the relation.

    Parameters
    ----------
    window
        The window.
    values
        What is saved beside it, unless nothing has happened yet.
    shown
        The groups in the order of the relation.
    """
    panes = [(HELD, pane) for pane in window.held] + [(PENDING, pane) for pane in window.pending]
    if (opened := window.open_pane()) is not None:
        panes.append((OPEN, opened))
    spans = saved_spans(window.parts.parts)
    unspanned = [list(UNSPANNED)] * len(spans)
    keys, parts = window.keys, window.parts.parts
    different = [one.pairs for one in window.distincts]
    kinds = ("int", "int", *(kind for part in parts for kind in part.kinds))
    most = max(PIECE_ROWS // (len(kinds) + len(keys.kinds)), 1)

    def of_groups(pane: Pane, phase: int, number: IntArray, count: int) -> Iterator[State]:
        columns = [Vector(pane.rows, None)]
        for part, state in zip(parts, pane.states, strict=True):
            columns += part.columns(state)
        for piece in row_slices(max(len(pane.codes), 1), most):
            codes = pane.codes[piece]
            new = codes[number[codes] < 0]
            number[new] = np.arange(count, count + len(new))
            count += len(new)
            named = (Vector(number[codes], None), *(each.take(piece) for each in columns))
            yield State(
                values={"pane": [pane.end_ms, phase, piece.start]},
                frames={
                    "keys": write_frame(Frame(keys.columns(new), len(new)), keys.kinds),
                    "groups": write_frame(Frame(named, len(codes)), kinds),
                },
            )

    def of_pairs(pane: Pane, number: IntArray) -> Iterator[State]:
        for place, (coded, pairs) in enumerate(zip(different, pane.pairs, strict=True)):
            for piece in row_slices(len(pairs), PIECE_ROWS // 2):
                groups, column = coded.split(pairs[piece])
                named = Frame((Vector(number[groups], None), column), len(groups))
                yield State(
                    values={"pairs": place},
                    frames={"pairs": write_frame(named, ("int", coded.kind))},
                )

    def pieces() -> Iterator[State]:
        if values["started"] or panes or spans != unspanned:
            yield State(values={**values, "spans": spans})
        number = np.full(max(keys.count, 1), -1, dtype=np.int64)
        for phase, pane in panes:
            yield from of_groups(pane, phase, number, int(number.max()) + 1)
            yield from of_pairs(pane, number)
        for piece in row_slices(len(shown)):
            order = Frame((Vector(number[shown[piece]], None),), len(shown[piece]))
            yield State(frames={"shown": write_frame(order, ("int",))})

    return pieces


class WindowLoader:
    """Reads a window that was saved."""

    def __init__(self, window: PaneWindow) -> None:
        self._window = window
        self._panes: list[tuple[int, Pane]] = []
        self._codes: Codes = no_codes
        """Number of a group in the snapshot → its code."""

    def load(self, state: State) -> Codes | None:
        """Take the next piece; returns the groups that it shows, if it is of the relation."""
        if "shown" in state.frames:
            return self._codes[read_frame(state.frames["shown"], ("int",))[0].values]
        if "pane" in state.values:
            self._load_groups(state)
        elif "pairs" in state.values:
            self._load_pairs(state)
        else:
            read_spans(self._window.parts.parts, state.values["spans"])
            self._window.renew()
        return None

    def _load_groups(self, state: State) -> None:
        window = self._window
        parts = window.parts.parts
        end_ms, phase, start = state.values["pane"]
        keys = read_frame(state.frames["keys"], window.keys.kinds)
        self._codes = np.concatenate([self._codes, encode(window.keys, keys.columns, keys.length)])
        kinds = ("int", "int", *(kind for part in parts for kind in part.kinds))
        groups = read_frame(state.frames["groups"], kinds)
        codes = self._codes[groups[0].values]
        columns, states = list(groups.columns[2:]), list[Array]()
        for part in parts:
            width = len(part.kinds)
            states.append(part.read(columns[:width], groups.length))
            del columns[:width]
        none = tuple(no_codes for _ in window.distincts)
        pane = Pane(int(end_ms), codes, groups[1].values.copy(), tuple(states), none)
        if start:
            phase, first = self._panes.pop()
            pane = first._replace(
                codes=np.concatenate([first.codes, pane.codes]),
                rows=np.concatenate([first.rows, pane.rows]),
                states=tuple(
                    np.concatenate(both) for both in zip(first.states, pane.states, strict=True)
                ),
            )
        self._panes.append((phase, pane))

    def _load_pairs(self, state: State) -> None:
        """More pairs of the pane that came last."""
        window, place = self._window, int(state.values["pairs"])
        if not self._panes or not 0 <= place < len(window.distincts):
            raise SnapshotError("different values belong to no pane")
        one = window.distincts[place]
        groups, column = read_frame(state.frames["pairs"], ("int", one.argument.kind)).columns
        phase, pane = self._panes.pop()
        pairs = list(pane.pairs)
        made = one.recode(self._codes[groups.values], column)
        pairs[place] = np.concatenate([pairs[place], made])
        self._panes.append((phase, pane._replace(pairs=tuple(pairs))))

    def loaded(self) -> None:
        """Put the panes into the window."""
        window = self._window
        window.make_room()
        for phase, pane in self._panes:
            if phase == HELD:
                window.enter(pane)
            elif phase == PENDING:
                window.pending.append(pane)
            else:
                window.reopen(pane)
        self._panes, self._codes = [], no_codes
