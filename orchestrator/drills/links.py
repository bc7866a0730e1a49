"""Drills of links: one is cut, in one direction or both, or takes longer for a while.

The hosts stay, and no connection breaks: messages that are to cross a cut link are lost, and nobody
is told. The switch is a record in the store that states when it ends (`DisturbedLink`).

Output must resume within `CUT_LINK_MS` for each hop that crosses a cut link: the consumer notices
that the standby is ahead, and is fed by it. On a link that takes longer, what is under way comes
later, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from foundation.suggestions import nearest
from orchestrator.control.observe.view import ClusterView
from orchestrator.drills.acting import Acting, DrillFailed
from orchestrator.errors import InvalidInput, Refused
from orchestrator.records import DisturbedLink, FragmentRecord, HistoryEvent
from orchestrator.results.drill_report import TIGHTEST, Blast
from orchestrator.store.protocol import LINKS, RecordExists, RecordMissing, VersionConflict

CUT_S = 10.0
DELAY_S = 15.0

DELAY_MS = 150.0
"""Less than the recovery bounds that people state, and more than most links take."""

CUT_LINK_MS = 750.0
"""After a link is cut: how long a host takes to notice that a standby has output which it lacks,
and to be fed by it. A stream may cross the same link at each of its hops; then the times add up."""

SCHEDULING_MS = 60.0
"""Allowance for timers: acknowledgements, requests and batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkChange:
    """What is done to a link.

    Attributes
    ----------
    delay_ms
        By how much it takes longer; None: it is cut.
    """

    both_ways: bool
    lasts_s: float
    delay_ms: float | None = None

    def bound_ms(self, recovery_bound_ms: float, hops: int, batch_ms: float) -> float:
        """The longest silence that is promised, ms.

        Parameters
        ----------
        hops
            How often a stream crosses the link on its way to an output.
        batch_ms
            Time between two results without any fault.
        """
        if self.delay_ms is None:
            return hops * CUT_LINK_MS + batch_ms + SCHEDULING_MS
        return recovery_bound_ms + hops * self.delay_ms

    def bound_why(self, hops: int) -> str:
        """Why that is promised."""
        crossed = f"{hops} {'hop' if hops == 1 else 'hops'} over the link"
        if self.delay_ms is None:
            told = f"{CUT_LINK_MS:.0f} ms for each of {crossed}"
            return f"{told}, a batch, and {SCHEDULING_MS:.0f} ms for timers"
        return f"{TIGHTEST}, and {self.delay_ms:.0f} ms for each of {crossed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLink:
    """The link between two hosts, from the first to the second."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}:{self.target}"

    @property
    def ends(self) -> frozenset[str]:
        """Both hosts."""
        return frozenset((self.source, self.target))


def aimed_link(view: ClusterView, drill: str, target: str | None, node: str) -> HostLink:
    """The link as named, `SOURCE:TARGET`; else the first one on which a node's output leaves it.

    Raises
    ------
    InvalidInput
        There is no such link.
    Refused
        No output leaves the node.
    """
    hosts = sorted(view.hosts)
    if target is not None and ":" in target:
        source, _, end = target.partition(":")
        if source in hosts and end in hosts and source != end:
            return HostLink(source=source, target=end)
        unknown = [each for each in (source, end) if each not in hosts]
        raise InvalidInput(
            "", "target", target, "is not the link between two hosts",
            f"{nearest(unknown[0], hosts)} Write SOURCE:TARGET." if unknown
            else "Write SOURCE:TARGET, the names of two hosts.",
        )  # fmt: skip
    for stream, reader in _flows(view):
        producers, consumers = _hosts_of(view, stream)[:1], _hosts_of(view, reader)[:1]
        if producers == [node] and consumers and consumers != [node]:
            return HostLink(source=node, target=consumers[0])
    raise Refused(
        f"drill {drill}", "--target", target, f"no output leaves {node}",
        "Name a link as SOURCE:TARGET.", {},
    )  # fmt: skip


def blast_of_link(view: ClusterView, link: HostLink, change: LinkChange) -> Blast:
    """What a disturbed link hits: the outputs of what is sent over it, and pairs of replicas."""
    crossed: set[str] = set()
    for stream, reader in _flows(view):
        makers, readers = _hosts_of(view, stream), _hosts_of(view, reader)
        if _crosses(link, makers, readers):
            crossed.add(_query_of(view, reader))
    apart = [name for name, f in view.fragments.items() if link.ends <= _nodes(f.record)]
    crossed |= {view.fragments[name].record.query for name in apart}
    hit = sorted(crossed) or sorted(view.query_records)
    outputs = tuple(stream for query in hit for stream in view.query_records[query].outputs)
    hops = max((_crossings(view, stream, link) for stream in outputs), default=0)
    recovery_ms = min((view.query_records[q].recovery_bound_ms for q in hit), default=0.0)
    bare = set(view.unprotected)
    return Blast(
        links=(str(link), f"{link.target}:{link.source}")[: 2 if change.both_ways else 1],
        outputs=outputs,
        bound_ms=change.bound_ms(recovery_ms, max(hops, 1), view.settings.batch_ms),
        bound_why=change.bound_why(max(hops, 1)),
        unprotected=tuple(sorted({*bare, *apart})),
    )


def disturb(acting: Acting, change: LinkChange) -> None:
    """Disturb the drill's links until its time is over, or an output is silent for too long."""
    until_us = acting.now_us + round(change.lasts_s * 1e6)
    made: list[DisturbedLink] = []
    try:
        for name in acting.links:
            source, _, target = name.partition(":")
            record = DisturbedLink(
                source=source, target=target, until_us=until_us, delay_ms=change.delay_ms
            )
            try:
                acting.store.create(LINKS.key(name), record)
            except RecordExists as error:
                raise DrillFailed(f"another drill disturbs the link {name}") from error
            made.append(record)
            _note(acting, record, change)
        acting.hold(change.lasts_s)
    finally:
        for record in made:
            _restore(acting, record)


def _note(acting: Acting, record: DisturbedLink, change: LinkChange) -> None:
    what = f"{change.delay_ms:g} ms longer" if change.delay_ms is not None else "cut"
    detail = f"{what}, for {change.lasts_s:g} s"
    event = HistoryEvent(
        at_us=acting.now_us, kind="link disturbed", subject=record.name, detail=detail
    )
    acting.store.append_history(event)


def _restore(acting: Acting, record: DisturbedLink) -> None:
    """Delete the record, unless the leader has found its time to be over."""
    key = LINKS.key(record.name)
    found = acting.store.get(key)
    if found is None or found.record != record:
        return
    with suppress(RecordMissing, VersionConflict):
        acting.store.delete(key, found.version)
        event = HistoryEvent(
            at_us=acting.now_us, kind="link restored", subject=record.name, detail="by the drill"
        )
        acting.store.append_history(event)


def _flows(view: ClusterView) -> Iterator[tuple[str, str]]:
    """Streams, and who reads them: fragments by the stream that they make, outputs by `→ name`."""
    for name, fragment in view.dataflow.fragments.items():
        for stream in fragment.inputs:
            yield stream, name
    for query in view.query_records.values():
        for stream in query.outputs:
            yield stream, _sink(stream)


def _sink(stream: str) -> str:
    """The name of an output's sink among those who read streams."""
    return f"→{stream}"


def _hosts_of(view: ClusterView, name: str) -> list[str]:
    """Hosts of a fragment's replicas, a stream's source or an output's sink, primary first."""
    if (record := _record_of(view, name)) is not None:
        return [replica.node for replica in record.replicas]
    if name in view.stream_records:
        return [*view.stream_records[name].sites]
    queries = view.query_records.values()
    return [site for q in queries for stream, site in q.outputs.items() if _sink(stream) == name]


def _record_of(view: ClusterView, name: str) -> FragmentRecord | None:
    fragment = view.dataflow.fragments.get(name)
    found = None if fragment is None else view.fragments.get(fragment.key)
    return None if found is None else found.record


def _query_of(view: ClusterView, reader: str) -> str:
    if reader in view.dataflow.fragments:
        return view.dataflow.fragments[reader].query
    queries = view.query_records.items()
    return next(name for name, q in queries if reader in map(_sink, q.outputs))


def _nodes(record: FragmentRecord) -> set[str]:
    return {replica.node for replica in record.replicas}


def _crosses(link: HostLink, makers: list[str], readers: list[str]) -> bool:
    """Whether data flows over a link, or is asked for and acknowledged over it."""
    forth = link.source in makers and link.target in readers
    back = link.target in makers and link.source in readers
    return forth or back


def _crossings(view: ClusterView, stream: str, link: HostLink) -> int:
    """How many hops of the ways to an output may cross a link: the most on one way."""

    def most(name: str) -> int:
        fragment = view.dataflow.fragments.get(name)
        readers = _hosts_of(view, name)
        inputs = () if fragment is None else fragment.inputs
        return max((hop(each, readers) for each in inputs), default=0)

    def hop(made: str, readers: list[str]) -> int:
        return most(made) + _crosses(link, _hosts_of(view, made), readers)

    return hop(stream, _hosts_of(view, _sink(stream)))
