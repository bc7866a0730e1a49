"""Where a fragment that has lost its state begins to read: undelivered input enters again.

A result is *delivered* once a sink has kept it for good. Each sink says up to which event time it
has kept all results (`SinkStatus.kept_ms`). Input up to the least of these times has had its
results. A fragment that begins from nothing needs all later input. It also needs earlier input, as
far as windows reach back: those of its own statement, and those of fragments below that begin from
nothing, too. Consumers drop results that they had before. Windows of rows, sessions, and groups
that last for ever begin anew.

A site's report may be a little older than the loss. Then a fragment reads more than it needs. The
leader waits for a site that is away (`DecisionSettings.site_patience_us`). After that, the fragment
reads all that producers keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import structs

from ha.beginning import Beginning
from ha.roles import ReplicaRole
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.observe.dataflow import Fragment
from orchestrator.records import FragmentRecord, Overflow
from streams.vectors.chunk import NO_WATERMARK


def undelivered(pending: PendingDecision, record: FragmentRecord) -> Beginning | str | None:
    """Where the input of a fragment begins; or the site that has to say that first.

    None if no sink takes out anything that the input leads to. Then it reads from the present on.
    """
    flow = pending.view.dataflow.fragments
    if (fragment := flow.get(record.fragment)) is None:
        return None
    # Outputs that may be dropped count only if there are no others.
    for overflow in (Overflow.WAIT, Overflow.DROP):
        needs = _Needs(pending, overflow)
        if (found := needs.of(fragment)) is not None:
            return _once_known(pending, record, needs.awaited, _reaching_back(found, fragment))
    return None


def _once_known(
    pending: PendingDecision, record: FragmentRecord, awaited: list[str], begins: Beginning
) -> Beginning | str:
    """A beginning, or a site that may yet say more about it."""
    since_us = pending.view.orphaned_since_us.get(record.key, pending.now_us)
    is_patient = pending.now_us - since_us < pending.settings.site_patience_us
    return awaited[0] if awaited and is_patient else begins


def _least(found: Iterable[Beginning]) -> Beginning | None:
    needs = list(found)
    if not needs:
        return None
    return Beginning(
        after_ms=min(each.after_ms for each in needs),
        delivered_ms=min(each.delivered_ms for each in needs),
    )


def _reaching_back(needs: Beginning, fragment: Fragment) -> Beginning:
    """The input that a fragment must read to make the output that is needed of it."""
    return structs.replace(needs, after_ms=max(needs.after_ms - fragment.reach_ms, NO_WATERMARK))


class _Needs:
    """The event times from which on outputs need the fragments that lead to them.

    Parameters
    ----------
    overflow
        Only outputs with this `overflow` count.

    Attributes
    ----------
    awaited
        Sites that have yet to say up to where they have kept results.
    """

    def __init__(self, pending: PendingDecision, overflow: Overflow) -> None:
        self.awaited: list[str] = []
        self._pending, self._overflow = pending, overflow
        self._known: dict[str, Beginning | None] = {}

    def of(self, fragment: Fragment) -> Beginning | None:
        """From where on sinks and readers need the output of a fragment."""
        if fragment.name not in self._known:
            found = [*self._by_sinks(fragment.name), *self._by_readers(fragment.name)]
            self._known[fragment.name] = _least(found)
        return self._known[fragment.name]

    def _by_readers(self, stream: str) -> Iterator[Beginning]:
        for reader in self._pending.view.dataflow.fragments.values():
            if stream not in reader.inputs or (needs := self.of(reader)) is None:
                continue
            has_state = self._has_state(reader, needs.delivered_ms)
            yield needs if has_state else _reaching_back(needs, reader)

    def _has_state(self, fragment: Fragment, until_ms: int) -> bool:
        """Whether some replica of a fragment has processed its input up to an event time."""
        record, view = self._pending.fragments.get(fragment.key), self._pending.view
        found = () if record is None else record.replicas
        statuses = (view.status(each, fragment.name) for each in found)
        return any(
            each.role is not ReplicaRole.WARMING
            and each.output_watermark_ms is not None
            and each.output_watermark_ms >= until_ms
            for each in statuses
            if each is not None
        )

    def _by_sinks(self, stream: str) -> Iterator[Beginning]:
        for query in self._pending.view.query_records.values():
            site = query.outputs.get(stream)
            if site is None or query.overflow.get(stream, Overflow.WAIT) is not self._overflow:
                continue
            kept_ms = self._kept_ms(site, stream)
            yield Beginning(after_ms=kept_ms, delivered_ms=kept_ms)

    def _kept_ms(self, site: str, stream: str) -> int:
        found = self._pending.view.nodes.get(site)
        status = None if found is None else found.record.sinks.get(stream)
        if status is None:
            self.awaited.append(site)
        return NO_WATERMARK if status is None or status.kept_ms is None else status.kept_ms
