"""What the secondaries of a query are sent, and why its owner's scheme comes to that.

A link between two hosts carries a stream once, however many replicas at its end need it. So of all
fragments whose replicas need a whole stream on one node, of whatever queries, one pays for it: a
primary before secondaries, and the first by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from orchestrator.control.planning.feeding import fed, payload_share
from orchestrator.control.planning.task import QueryTask, RunningFragment
from orchestrator.records import Scheme
from placement.records import QueryFigures, Secondary, StandbyChoice
from placement.standby_schemes import NEVER, NO_CHECKPOINTS, Fed, Feeding


@dataclass(frozen=True, slots=True)
class Payers:
    """Who pays for a stream on a node.

    Attributes
    ----------
    running
        Fragments of all queries.
    task
        Any of their problems, for what fragments read.
    """

    task: QueryTask
    running: Mapping[str, RunningFragment]

    def is_free(self, stream: str, node: str, fragment: str, *, is_secondary: bool) -> bool:
        """Whether a stream flows to a node for another replica than the given one.

        Parameters
        ----------
        fragment, is_secondary
            The replica that would pay.
        """
        producer = self.running.get(stream)
        if producer is not None and producer.primary == node:
            return True
        for name, other in self.running.items():
            work = self.task.work.fragments.get(name)
            if name == fragment or work is None or stream not in work.fragment.inputs:
                continue
            if other.primary == node and (is_secondary or name < fragment):
                return True
            takes_all = other.secondary == node and other.timing.batch == 1
            if is_secondary and takes_all and name < fragment:
                return True
        return False


def standby_choices(
    task: QueryTask,
    primaries: Mapping[str, str],
    standbys: Mapping[str, Secondary],
    running: Mapping[str, RunningFragment],
) -> dict[str, StandbyChoice]:
    """What each secondary of a query is sent, and why.

    Parameters
    ----------
    primaries
        Of all fragments of the query.
    standbys
        With their recovery under Active Standby.
    running
        The query's fragments as they are timed.
    """
    everywhere = {**task.running, **running}
    payers, places = Payers(task, everywhere), task.pinned | dict(primaries)
    found: dict[str, StandbyChoice] = {}
    for name, standby in standbys.items():
        streams = list(task.work.fragments[name].fragment.inputs)
        model = fed(replace(task, running=everywhere), name, standby)
        paid = [
            replace(each, is_free=payers.is_free(stream, standby.node, name, is_secondary=True))
            for each, stream in zip(model.inputs, streams, strict=True)
        ]
        timing = running[name].timing
        # The scheme is chosen by what others need; who pays for that is another question.
        feeding = model.with_batch(timing.batch, timing.checkpoint_ms)
        pays = replace(model, inputs=paid)
        sent = pays.sent_bytes_s(feeding)
        flows = [*zip((places[each] for each in streams), sent, strict=True)]
        own = max(feeding.bytes_s - sum(model.sent_bytes_s(feeding)), 0.0)
        flows.append((places[name], own))
        found[name] = StandbyChoice(
            batch=feeding.batch,
            checkpoint_ms=feeding.checkpoint_ms,
            bytes_s=sum(sent) + own,
            active_bytes_s=sum(each.bytes_s for each in model.inputs),
            usage=payload_share(task, name) * _usage(task, flows, standby.node),
            why=_why(task, model, feeding, standby.node),
        )
    return found


def with_choices(
    task: QueryTask,
    figures: QueryFigures,
    primaries: Mapping[str, str],
    choices: Iterable[StandbyChoice],
    running: Mapping[str, RunningFragment],
) -> QueryFigures:
    """A query's figures with the traffic that it really adds to that of all others."""
    payers = Payers(task, {**task.running, **running})
    places = task.pinned | dict(primaries)
    primary_usage = 0.0
    for link in task.graph.links:
        node = places[link.target]
        is_fragment = link.target in primaries
        if is_fragment and payers.is_free(link.source, node, link.target, is_secondary=False):
            continue
        primary_usage += _usage(task, [(places[link.source], link.rate_bytes_s)], node)
    standby_usage = sum(each.usage for each in choices)
    return replace(
        figures, network_usage=primary_usage + standby_usage, standby_usage=standby_usage
    )


def _usage(task: QueryTask, flows: Iterable[tuple[str, float]], node: str) -> float:
    """Network usage (2) of streams from some nodes to one, bytes."""
    one_way_ms = task.network.one_way_ms
    return sum(bytes_s * one_way_ms(source, node) / 1e3 for source, bytes_s in flows)


def _why(task: QueryTask, model: Fed, feeding: Feeding, node: str) -> str:
    """Why a secondary is fed as it is, for people."""
    if all(each.is_free for each in model.inputs):
        return f"every tuple: all of its input is on {node} anyway"
    bound_ms, every = task.query.recovery_bound_ms, model.with_batch(1, NO_CHECKPOINTS)
    if feeding.batch > 1:
        saved = 100 * (1 - feeding.bytes_s / every.bytes_s)
        costs = f"recovery takes {feeding.recovery_ms:.0f} instead of {every.recovery_ms:.0f} ms"
        return f"{_fed_so(feeding)}: {saved:.0f} % less than every tuple; {costs} of {bound_ms:g}"
    if task.query.standby.scheme is Scheme.ACTIVE:
        return "every tuple: Active Standby, as its manifest says"
    # The other end of the choice: nothing is sent but the checkpoints that come most often.
    nothing = model.with_batch(NEVER, model.ack_interval_ms)
    if every.recovery_ms > bound_ms:
        return f"every tuple: even so recovery takes {every.recovery_ms:.0f} of {bound_ms:g} ms"
    if model.detection_ms + model.resend_ms > bound_ms:
        asked = f"{model.detection_ms + model.resend_ms:.0f}"
        return f"every tuple: to ask for tuples held back would take {asked} of {bound_ms:g} ms"
    if nothing.recovery_ms > bound_ms:
        held = f"{nothing.recovery_ms:.0f}"
        return f"every tuple: with checkpoints recovery would take {held} of {bound_ms:g} ms"
    return "every tuple: checkpoints would take more, or fragments that die with it need the time"


def _fed_so(feeding: Feeding) -> str:
    batches = f"batches of {feeding.batch}"
    if feeding.checkpoint_ms == NO_CHECKPOINTS:
        return batches
    rest = f"checkpoints every {feeding.checkpoint_ms:g} ms"
    return rest if feeding.batch == NEVER else f"{batches}, {rest}"
