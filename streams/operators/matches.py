"""Which rows of a relation have a partner in another one: outer joins and sub-queries rest on it.

The result has the rows of the left, each with a column that is true if some row of the right
fulfils the conditions. It follows from the number of partners of each row, and that from the
changes of the join: a row changes its match where its number leaves 0, or comes back to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from foundation.arrays import BoolArray, IntArray
from streams.expressions.typed import Typed
from streams.operators.join import Join
from streams.operators.relation import Relation
from streams.vectors.state import (
    Pieces,
    SnapshotError,
    State,
    piece_rows,
    read_frame,
    row_slices,
    write_frame,
)
from streams.vectors.vector import Delta, Frame, Vector, timestamp_groups


class Matches:
    """Maintains the matches. The caller steps the relations of both sides.

    Parameters
    ----------
    widths
        Number of columns of each side.
    conjuncts
        Conditions over the columns of both sides.
    most
        Pairs that a change may have; None: any number.
    """

    def __init__(
        self, widths: Sequence[int], conjuncts: Sequence[Typed], most: int | None = None
    ) -> None:
        self._join = Join(widths, conjuncts, most)
        self._partners: dict[int, int] = {}
        """Identity of each row of the left → the number of its partners; identities rise."""

    def step(self, deltas: Sequence[Delta | None], relations: Sequence[Relation]) -> Delta | None:
        """The change of the matched rows. At each timestamp, rows are removed before others enter.

        Parameters
        ----------
        deltas, relations
            The changes of both sides, and their rows after these.
        """
        left, rows = deltas[0], relations[0]
        places: list[IntArray] = []
        signs: list[IntArray] = []
        times: list[IntArray] = []
        if left is not None:
            places.append(rows.changed)
            signs.append(np.where(left.inserted, 1, -1))
            times.append(left.times_ms)
        own = 0 if left is None else len(left.times_ms)
        pairs = self._join.step(deltas, relations)
        if pairs is not None:
            places.append(Join.places(pairs, 0))
            signs.append(np.where(pairs.inserted, 1, -1))
            times.append(pairs.times_ms)
        if not places:
            return None
        times_ms = np.concatenate(times)
        order = times_ms.argsort(kind="stable")
        moved, sign = np.concatenate(places)[order], np.concatenate(signs)[order]
        return self._moved(rows, moved, sign, order < own, times_ms[order])

    def _moved(
        self,
        rows: Relation,
        places: IntArray,
        signs: IntArray,
        of_rows: BoolArray,
        times_ms: IntArray,
    ) -> Delta | None:
        """The change, from those of rows and those of their numbers of partners, by time.

        Parameters
        ----------
        of_rows
            Whether it is the row itself that comes (sign 1) or goes, not a partner.
        """
        partners = self._partners
        events = list(
            zip(
                rows.ids[places].tolist(),
                places.tolist(),
                signs.tolist(),
                of_rows.tolist(),
                strict=True,
            )
        )
        moved: list[tuple[int, bool, bool, int]] = []
        for start, stop in timestamp_groups(times_ms):
            before: dict[int, bool | None] = {}
            place_of: dict[int, int] = {}
            gone: list[int] = []
            for identity, place, sign, is_row in events[start:stop]:
                if identity not in before:
                    count = partners.get(identity)
                    before[identity] = None if count is None else count > 0
                    place_of[identity] = place
                if not is_row:
                    partners[identity] += sign
                elif sign > 0:
                    partners[identity] = 0
                else:
                    gone.append(identity)
            for identity in gone:
                del partners[identity]
            at_ms = int(times_ms[start])
            entering: list[tuple[int, bool, bool, int]] = []
            for identity, was in before.items():
                count = partners.get(identity)
                now = None if count is None else count > 0
                if now is was:
                    continue
                if was is not None:
                    moved.append((place_of[identity], was, False, at_ms))
                if now is not None:
                    entering.append((place_of[identity], now, True, at_ms))
            moved += entering
        if not moved:
            return None
        where, matches, inserted, at = zip(*moved, strict=True)
        frame = rows.rows.take(np.array(where, dtype=np.intp))
        match = Vector(np.array(matches, dtype=np.bool_), None)
        return Delta(
            Frame((*frame.columns, match), frame.length),
            np.array(inserted, dtype=np.bool_),
            np.array(at, dtype=np.int64),
        )

    def held(self) -> int:
        """Number of rows of the left."""
        return len(self._partners)

    def save(self) -> Pieces:
        """The number of partners of each row."""
        saved = Frame(
            tuple(
                Vector(np.array([*numbers], dtype=np.int64), None)
                for numbers in (self._partners, self._partners.values())
            ),
            len(self._partners),
        )

        def pieces() -> Iterator[State]:
            if saved.length:
                for piece in row_slices(saved.length, piece_rows(saved)):
                    part = saved.slice(piece.start, piece.stop)
                    yield State(frames={"partners": write_frame(part, ("int", "int"))})

        return pieces

    def load(self, state: State) -> None:
        """Add saved numbers.

        Raises
        ------
        SnapshotError
            They are not those of rows in order.
        """
        saved = read_frame(state.frames["partners"], ("int", "int"))
        ids: list[int] = saved[0].values.tolist()
        if self._partners and ids and ids[0] <= next(reversed(self._partners)):
            raise SnapshotError("numbers of partners are not in order")
        self._partners.update(zip(ids, saved[1].values.tolist(), strict=True))

    def loaded(self) -> None:
        """Note that all numbers have been added: nothing is left to do."""
