"""Results that were computed again."""

from __future__ import annotations

from typing import Any

from orchestrator.results.result import Result


class OutputVerdict(Result, frozen=True, kw_only=True):
    """One output: rows archived and recomputed, within the span.

    `missing` rows were only recomputed, `unexpected` ones only archived; the first of each are
    shown. `late` rows were dropped by the sink, because they were late and the output asks for
    that; `late_recomputed` is how many rows those timestamps have when recomputed. Neither are
    among `recomputed`.
    """

    output: str
    archived: int
    recomputed: int
    missing: int
    unexpected: int
    first_missing: tuple[dict[str, Any], ...]
    first_unexpected: tuple[dict[str, Any], ...]
    late: int = 0
    late_recomputed: int = 0

    @property
    def equal(self) -> bool:
        """Whether exactly the recomputed rows were archived, or dropped because they were late."""
        return not self.missing and not self.unexpected and self.late == self.late_recomputed


class EvaluatedAgain(Result, frozen=True, kw_only=True):
    """A statement that was evaluated again by the engine.

    Attributes
    ----------
    why
        It was not computed in Spark SQL.
    by
        The columns that divided its input into parts, which were evaluated side by side; empty: it
        was evaluated in one piece.
    whole
        Why in one piece; None: it was not.
    """

    why: str
    by: tuple[str, ...] = ()
    whole: str | None = None


class VerifyDocument(Result, frozen=True, kw_only=True):
    """What a verification found.

    Attributes
    ----------
    begin_ms, until_ms
        The span that was compared, both included.
    archived_ms
        First and last timestamp that are archived of all outputs.
    last_ms
        Only the last so many were compared; None: all, or from where somebody wanted.
    read_from_ms
        Where the input was read from, because windows reach no further back; None: from its
        beginning.
    endless
        Statements whose windows have no end in time, so that all of the input was needed.
    kept_ms
        From where on the input is kept; None: from its beginning. Results are compared from where
        windows hold nothing from before.
    joined_ms
        Where the query joined its input, which had begun before; None: it has had all of it.
        Results are compared from where its windows hold nothing from before.
    inputs
        Stream → tuples that were read again.
    not_in_sql
        The statements that were not computed in Spark SQL, but evaluated again.
    """

    query: str
    begin_ms: int
    until_ms: int
    archived_ms: tuple[int, int]
    last_ms: int | None = None
    inputs: dict[str, int]
    read_from_ms: int | None = None
    endless: tuple[str, ...] = ()
    outputs: tuple[OutputVerdict, ...]
    not_in_sql: dict[str, EvaluatedAgain]
    joined_ms: int | None = None
    kept_ms: int | None = None

    @property
    def equal(self) -> bool:
        """Whether exactly the recomputed rows were archived."""
        return all(each.equal for each in self.outputs)
