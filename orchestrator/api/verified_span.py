"""The span of timestamps that a verification compares, and how much input that takes.

Results are compared where windows are whole: a window reaches back, and what it held before is
needed, too. A cluster may run for months, so unless somebody asks for more, only the last minutes
are compared: ten, or more while these are of few tuples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foundation.timestamps import timestamp_text
from orchestrator.api.verified_input import KeptInput, Unverifiable
from orchestrator.control.observe.view import ClusterView
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.errors import InvalidInput
from streams.language import parse
from streams.plan.compiler import compile_statement

LAST_MS = 600_000
"""What is compared by default: seconds of work, and more than most windows reach."""

AMPLE_TUPLES = 50_000
"""The default span is doubled while its input has no more tuples than that: these take seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSpan:
    """Timestamps, both included."""

    begin_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSpan:
    """What somebody asks to be compared: from a timestamp on, the last ms, or everything."""

    begin_ms: int | None = None
    until_ms: int | None = None
    last_ms: int | None = None
    everything: bool = False

    def check(self) -> None:
        """Refuse what contradicts itself.

        Raises
        ------
        InvalidInput
            It does.
        """
        given = {
            "begin_ms": self.begin_ms is not None,
            "last_ms": self.last_ms is not None,
            "everything": self.everything,
        }
        one, *others = [option for option, is_given in given.items() if is_given] or [""]
        if others:
            raise InvalidInput(
                "", one, None, f"is given, and {others[0]} as well",
                "Leave one of them out.",
            )  # fmt: skip
        begin_ms, until_ms = self.begin_ms, self.until_ms
        if begin_ms is not None and until_ms is not None and until_ms < begin_ms:
            begin, until = timestamp_text(begin_ms), timestamp_text(until_ms)
            problem = f"is before begin_ms {begin}"
            raise InvalidInput("", "until_ms", until, problem, "Swap them.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSpan:
    """What is compared, and why no more.

    Attributes
    ----------
    archived
        What could be, of all outputs.
    last_ms
        It is the last so many; None: all of it, or what somebody wanted.
    read_from_ms
        Where the input is read from, because windows reach no further back; None: from its
        beginning.
    endless
        Statements whose windows have no end in time, so that all of the input is needed.
    joined_ms
        Where the query joined its input, which had begun before; None: it has had all of it.
    kept_ms
        From where on all inputs are still kept; None: from their beginnings.
    """

    span: VerifiedSpan
    archived: VerifiedSpan
    last_ms: int | None = None
    read_from_ms: int | None = None
    endless: tuple[str, ...] = ()
    joined_ms: int | None = None
    kept_ms: int | None = None


def archived_span(delivered: Mapping[str, Delivered]) -> VerifiedSpan:
    """What is archived of all outputs."""
    ends = [int(one.completed_column("watermark_ms").max()) for one in delivered.values()]
    begins = [int(one.completed_column("watermark_ms").min()) for one in delivered.values()]
    return VerifiedSpan(begin_ms=min(begins), until_ms=min(ends))


def chosen_span(
    view: ClusterView,
    query: str,
    asked: AskedSpan,
    archived: VerifiedSpan,
    inputs: Sequence[KeptInput],
) -> ChosenSpan:
    """The span that is asked for, as far as windows are whole there.

    Raises
    ------
    InvalidInput
        Nothing is archived of it.
    Unverifiable
        No window is whole there.
    """
    _check_archived(asked, archived)
    until_ms = archived.until_ms if asked.until_ms is None else asked.until_ms
    reaches = _reaches(view, query)
    endless = tuple(name for name, reach_ms in reaches.items() if reach_ms is None)
    reach_ms = None if endless else _reach_ms(view, query, reaches)
    joined_ms = _joined_ms(archived, inputs)
    kept_ms = max((i.retained.watermark_ms + 1 for i in inputs if not i.is_whole), default=None)
    first_ms = archived.begin_ms
    if joined_ms is not None and asked.begin_ms is None:
        first_ms = whole_from(view, query, joined_ms, until_ms)
    if kept_ms is not None:
        first_ms = max(first_ms, _kept_from(kept_ms, reach_ms, endless, asked, until_ms))
    last_ms = None
    if asked.begin_ms is not None:
        begin_ms = asked.begin_ms
    elif asked.everything:
        begin_ms = first_ms
    else:
        last_ms = _last_ms(inputs, first_ms, until_ms) if asked.last_ms is None else asked.last_ms
        begin_ms = max(first_ms, until_ms - last_ms)
    return ChosenSpan(
        span=VerifiedSpan(begin_ms=begin_ms, until_ms=until_ms),
        archived=archived,
        last_ms=last_ms if begin_ms > first_ms else None,
        read_from_ms=_read_from_ms(begin_ms, reach_ms, inputs),
        endless=endless,
        joined_ms=joined_ms,
        kept_ms=kept_ms,
    )


def _check_archived(asked: AskedSpan, archived: VerifiedSpan) -> None:
    for option, given_ms in (("begin_ms", asked.begin_ms), ("until_ms", asked.until_ms)):
        # With `begin_ms`, results of before the first watermark may be asked for.
        early = asked.begin_ms is None and given_ms is not None and given_ms < archived.begin_ms
        if given_ms is not None and (early or given_ms > archived.until_ms):
            begin, until = map(timestamp_text, (archived.begin_ms, archived.until_ms))
            raise InvalidInput(
                "", option, timestamp_text(given_ms), "is outside of what is archived",
                f"That is from {begin} to {until}.",
            )  # fmt: skip


def _reaches(view: ClusterView, query: str) -> dict[str, int | None]:
    """Each statement that leads to the query's outputs, producers first → its own reach, ms."""
    found: dict[str, int | None] = {}
    for fragment in view.dataflow.upstream(query):
        (statement,) = parse(fragment.statement)
        found[fragment.name] = compile_statement(statement, fragment.inputs).reach_ms
    return found


def _reach_ms(view: ClusterView, query: str, reaches: Mapping[str, int | None]) -> int:
    """How much older than a result of the query a tuple may be on which it depends."""
    found: dict[str, int] = {}
    for name, own_ms in reaches.items():
        inputs = view.dataflow.fragments[name].inputs
        before_ms = max((found.get(stream, 0) for stream in inputs), default=0)
        found[name] = before_ms + (own_ms or 0)
    return max(found[output] for output in view.query_records[query].outputs)


def _joined_ms(archived: VerifiedSpan, inputs: Sequence[KeptInput]) -> int | None:
    """Where the query joined its input; None: where that begins, as far as is known."""
    begins = [i.begin_ms if i.is_whole else i.retained.watermark_ms for i in inputs]
    first_ms = min((each for each in begins if each is not None), default=archived.begin_ms)
    return archived.begin_ms if archived.begin_ms > first_ms else None


def whole_from(view: ClusterView, query: str, joined_ms: int, until_ms: int) -> int:
    """From where on the windows of a query hold nothing from before it joined its input, ms.

    Of queries that it reads from, what they may have missed counts as far as it is bounded.

    Raises
    ------
    Unverifiable
        From nowhere on, or later than what is archived.
    """
    reaches = _reaches(view, query)
    for name, reach_ms in reaches.items():
        if reach_ms is None and view.dataflow.fragments[name].query == query:
            raise Unverifiable(
                f"{query} was applied when its input had begun, and joined it at "
                f"{timestamp_text(joined_ms)}: windows of {name} may lack tuples from before "
                "that at any later time. Compare with --from from where that does not matter"
            )
    from_ms = joined_ms + _reach_ms(view, query, reaches)
    if from_ms > until_ms:
        raise Unverifiable(
            f"{query} was applied when its input had begun, and joined it at "
            f"{timestamp_text(joined_ms)}: its windows hold nothing from before from "
            f"{timestamp_text(from_ms)} on, which is not archived yet"
        )
    return from_ms


def _kept_from(
    kept_ms: int, reach_ms: int | None, endless: Sequence[str], asked: AskedSpan, until_ms: int
) -> int:
    """From where on windows hold nothing that is no longer kept."""
    problem = f"its input is kept from {timestamp_text(kept_ms)} on"
    if reach_ms is None:
        raise Unverifiable(
            f"{problem}, and windows of {', '.join(endless)} have no end in time: raise `retain`"
        )
    from_ms = kept_ms + reach_ms
    if from_ms > (until_ms if asked.begin_ms is None else asked.begin_ms):
        raise Unverifiable(
            f"{problem}, and windows hold nothing from before from {timestamp_text(from_ms)} on: "
            "compare later results, or raise `retain`"
        )
    return from_ms


def _last_ms(inputs: Sequence[KeptInput], first_ms: int, until_ms: int) -> int:
    """How much is compared by default."""
    last_ms = LAST_MS
    while until_ms - last_ms > first_ms:
        twice_ms = max(until_ms - 2 * last_ms, first_ms)
        if sum(each.tuples(twice_ms, until_ms) for each in inputs) > AMPLE_TUPLES:
            break
        last_ms *= 2
    return last_ms


def _read_from_ms(begin_ms: int, reach_ms: int | None, inputs: Sequence[KeptInput]) -> int | None:
    """Where input must be read from; None: from its beginning."""
    if reach_ms is None:
        return None
    from_ms = begin_ms - reach_ms
    begins = [each.begin_ms for each in inputs if each.is_whole]
    is_late = any(each is not None and each < from_ms for each in begins)
    return from_ms if is_late or len(begins) < len(inputs) else None
