"""What if: the product's own leader decides on a copy of the store until nothing is left to do.

The cluster is only read. What is assumed is written into the copy as hosts and people would write
it: reports of hosts with more load or longer round trips, a host more, manifests that a client asks
the leader for. What is lost ends last, as killed processes do. The plan of the leader then says
what every query is promised.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.api.playing import play
from orchestrator.control.observe.clocks import read_cluster_us
from orchestrator.errors import InvalidInput, VivaceError
from orchestrator.manifest import Manifests, load_texts
from orchestrator.operations.parameters import WhatIfParameters
from orchestrator.progress import Progress, silent
from orchestrator.results.whatif import LossOutlook, RefusedQuery, WhatIfDocument
from orchestrator.simulation.paper.alternatives import Place, alternative_places
from orchestrator.simulation.paper.assumptions import Assumptions, assumed
from orchestrator.simulation.paper.cluster import PaperCluster
from orchestrator.simulation.paper.losses import named_loss, possible_losses
from orchestrator.simulation.paper.outlook import (
    PaperReading,
    broken_promises,
    fragments,
    loads,
    loss_outlook,
    queries,
)
from orchestrator.store.copied import copy_of

STEP = "on paper"


def what_if(
    cluster: Cluster, asked: WhatIfParameters, on_progress: Progress = silent
) -> WhatIfDocument:
    """What would be so; see `WhatIfParameters`.

    Raises
    ------
    InvalidInput
        What is assumed cannot be read, or names nothing that runs.
    Refused
        The leader has no plan of what runs.
    PaperStuck
        Its decisions do not come to an end.
    """
    _check_choice(asked)
    manifests = load_texts(asked.manifests, Path(asked.folder)) if asked.manifests else None
    on_progress(STEP, "the cluster as it is")
    paper = PaperCluster(copy_of(cluster.store), read_cluster_us(cluster.store))
    paper.settle()
    before = PaperReading.of(paper)
    otherwise = assumed(before.view, asked.load, asked.latency, asked.add_node)
    paper, refused = _otherwise(paper, otherwise, manifests, on_progress)
    base = PaperReading.of(paper) if otherwise.told or manifests else before
    lost = tuple(named_loss(base.view, text) for text in asked.without)
    hosts = tuple(sorted({host for each in lost for host in each.hosts}))
    told = (
        *otherwise.told,
        *(f"{file.file} applied" for source in asked.manifests for file in source.files),
        *(f"{each} lost" for each in lost),
    )
    if asked.each:
        return WhatIfDocument(assumed=told, refused=refused, losses=_each(paper, base, on_progress))
    after, now_us = base, paper.now_us
    others: dict[str, tuple[Place, ...]] = {}
    if hosts:
        on_progress(STEP, f"without {', '.join(hosts)}")
        copy = paper.copy()
        paper.lose(hosts)
        after = PaperReading.of(paper)
        others = alternative_places(copy, now_us, hosts, paper.places())
    return WhatIfDocument(
        assumed=told,
        lost=hosts,
        fragments=tuple(
            msgspec.structs.replace(each, alternatives=others.get(each.key, ()))
            for each in fragments(before, after, hosts)
        ),
        queries=tuple(queries(before, after)),
        loads=tuple(loads(before, after)),
        refused=refused,
        problems=tuple(each for each in after.problems if each not in before.problems),
        breaks=tuple(broken_promises(before, after)),
        losses=tuple(loss_outlook(each, base, after, hosts) for each in lost),
        played=None
        if asked.play_s is None
        else play(base.view, otherwise, hosts, asked.play_s, on_progress),
    )


def _check_choice(asked: WhatIfParameters) -> None:
    for field, given in (("without", asked.without), ("play_s", asked.play_s)):
        if asked.each and given:
            raise InvalidInput(
                "", "each", None, f"is given, and {field} as well",
                "Leave one of them out: `each` loses everything, one after the other.",
            )  # fmt: skip


def _otherwise(
    paper: PaperCluster, otherwise: Assumptions, manifests: Manifests | None, on_progress: Progress
) -> tuple[PaperCluster, tuple[RefusedQuery, ...]]:
    """The cluster on paper with everything that is otherwise, and what the leader refuses."""
    if otherwise.told:
        on_progress(STEP, str(otherwise))
        paper = PaperCluster(otherwise.written_into(paper.copy()), paper.now_us)
        paper.settle()
    if manifests is None:
        return paper, ()
    on_progress(STEP, "what is applied")
    refused = paper.apply(manifests)
    paper.settle()
    return paper, tuple(
        RefusedQuery(query=name, why=str(each.error)) for name, each in refused.items()
    )


def _each(
    paper: PaperCluster, base: PaperReading, on_progress: Progress
) -> tuple[LossOutlook, ...]:
    """The N−1 table; a loss on which the leader comes to no end is a row that says so."""
    copy, losses = paper.copy(), possible_losses(base.view)
    found: list[LossOutlook] = []
    for number, loss in enumerate(losses, start=1):
        on_progress(STEP, f"without {loss}, {number} of {len(losses)}")
        struck = PaperCluster(copy, paper.now_us)
        try:
            struck.settle()
            struck.lose(loss.hosts)
            found.append(loss_outlook(loss, base, PaperReading.of(struck)))
        except VivaceError as error:
            # The other rows are known all the same.
            found.append(
                LossOutlook(
                    kind=loss.kind,
                    name=loss.name,
                    hosts=loss.hosts,
                    unprotected_s=None,
                    unknown=str(error),
                )
            )
    return tuple(found)
