"""Explanations as people read them."""

from __future__ import annotations

from io import StringIO

import msgspec
from rich.console import Console, RenderableType

from orchestrator.cli.render.explain import explanation_view, refusal_view
from orchestrator.records import (
    CandidatePrice,
    FragmentExplanation,
    NeededChange,
    PullingStream,
    RefusalExplanation,
    ReplicaPlace,
)
from placement.methods import Method


def rendered(view: RenderableType) -> str:
    shown = StringIO()
    Console(width=160, file=shown).print(view)
    return " ".join(shown.getvalue().split())


def place(node: str, binding: str | None) -> ReplicaPlace:
    here = CandidatePrice(
        node=node, usage_bytes=1500, standby_bytes=200, load_bytes=30, total_bytes=1730
    )
    cheaper = CandidatePrice(
        node="b", usage_bytes=900, standby_bytes=200, load_bytes=30, total_bytes=1130,
        reason="cordoned", problem="q.f: b is cordoned",
    )  # fmt: skip
    stream = PullingStream(
        fragment="source", is_secondary=False, node="site", incoming=True,
        rate_bytes_s=100_000, latency_ms=15, cost_bytes=1500,
    )  # fmt: skip
    return ReplicaPlace(node=node, streams=(stream,), candidates=(cheaper, here), binding=binding)


def test_prices_obstacles_and_what_binds():
    document = FragmentExplanation(
        query="q",
        fragment="q.f",
        primary=place("a", "q.f: b is cordoned"),
        secondary=place("c", None),
        measured=False,
    )
    text = rendered(explanation_view(document))
    assert "q.f, primary on a" in text
    assert "from source on site 100 KB/s 15.0 ms 1.5 KB" in text
    assert "b 1.13 KB 900 B 200 B 30 B cordoned: q.f: b is cordoned" in text
    assert "a 1.73 KB 1.5 KB 200 B 30 B it is here" in text
    assert "What binds: q.f: b is cordoned." in text
    assert "Nothing keeps it from a cheaper node but the effort of moving." in text
    assert "as printed" not in text
    printed = msgspec.structs.replace(document, method=Method.PAPER)
    assert "placed by the papers' methods as printed" in rendered(explanation_view(printed))


def test_what_would_admit_a_query():
    refused = RefusalExplanation(
        problem="query q: too late",
        remedy="Raise it.",
        changes=(
            NeededChange(query="q", field="deadline", stated=(20.0,), needed=(47.5,)),
            NeededChange(query="q", field="load"),
        ),
    )
    text = rendered(refusal_view(refused))
    assert "Refused: query q: too late" in text
    assert "query q would be admitted with deadline 20.0 ms → 47.5 ms." in text
    assert "query q would be admitted if nodes and machines had room." in text
    assert rendered(refusal_view(RefusalExplanation())).strip() == "It would be admitted."
