"""What would be, as it is shown."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from orchestrator import api
from orchestrator.cli.render.whatif import whatif_view
from orchestrator.records import QueryPlan

PLAN = QueryPlan(
    query="q", latency_ms=40.0, deadline_ms=100.0, recovery_ms=180.0, bound_ms=300.0,
    network_usage_bytes=1.0, standby_usage_bytes=0.0, path=("s", "a"),
)  # fmt: skip


def shown(document: api.WhatIfDocument) -> str:
    out = StringIO()
    Console(file=out, width=100).print(whatif_view(document))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def test_places_promises_and_what_stays_unprotected_are_shown() -> None:
    document = api.WhatIfDocument(
        assumed=("node n1 lost",),
        lost=("n1",),
        fragments=(
            api.FragmentOutlook(
                query="q", fragment="a", primary=("n1", "n2"), secondary=("n2", None),
                recovery_ms=(180.0, None), bound_ms=300.0, unprotected_s=None, why="there is no n3",
            ),
            api.FragmentOutlook(
                query="q", fragment="b", primary=("n2", "n2"), secondary=("n1", "n3"),
                recovery_ms=(180.0, 190.0), bound_ms=300.0, unprotected_s=0.9,
            ),
        ),
        queries=(api.QueryOutlook(query="q", before=PLAN, after=PLAN),),
        losses=(
            api.LossOutlook(
                kind="node", name="n1", hosts=("n1",), takeovers=("q.a",), recovery_ms=180.0,
                bound_ms=300.0, unprotected_s=None, unhealed={"q.a": "there is no n3"},
                kept_by="1 takeover, 180 of 300 ms at most",
            ),
        ),
        refused=(api.RefusedQuery(query="r", why="query r refused: deadline 1: too soon"),),
        problems=("q.a has no secondary",),
    )  # fmt: skip
    assert shown(document) == GOLDEN


def test_a_loss_of_which_nothing_is_known_is_a_row_that_says_so() -> None:
    loss = api.LossOutlook(
        kind="node", name="n1", hosts=("n1",), unprotected_s=None, unknown="it does not end"
    )
    text = shown(api.WhatIfDocument(assumed=(), losses=(loss,)))
    assert " ✗ node n1  not known" in text
    assert "until a node comes" not in text
    assert "node n1: it does not end" in text


def test_made_up_input_is_said() -> None:
    output = api.PlayedOutput(
        output="a", deadline_ms=100.0, tuples=12, timestamps=50, late=1, silent_ms=110.0,
        recovered_ms=20.0,
    )  # fmt: skip
    played = api.PlayedDocument(
        lasted_s=60.0, outputs=(output,), healed_s=0.4, synthetic=("north",)
    )
    text = shown(api.WhatIfDocument(assumed=(), played=played))
    assert "Assumed: nothing: the cluster as it is" in text
    assert "1 of 50 after 100 ms" in text
    assert "Everything was protected again after 0.4 s." in text
    assert "Synthetic input: values of north were drawn by their types." in text


GOLDEN = """\
Assumed: node n1 lost

Places
 fragment  primary  secondary   recovery / bound         unprotected
 q.a       n1 → n2  n2 → none       – / 300 ms ✗  until a node comes
 q.b       n2       n1 → n3      190 ms / 300 ms        about 900 ms

Queries
 query    latency  latency / deadline    slack   recovery / bound
 q      40.0 ms →    40.0 ms / 100 ms  60.0 ms    180 ms / 300 ms

If it is lost
 what       bounds are kept by                        unprotected  cannot be healed
 ✗ node n1  1 takeover, 180 of 300 ms at most  until a node comes  q.a
  node n1: there is no n3
Refused: query r refused: deadline 1: too soon
q.a stays unprotected: there is no n3
The leader would say: q.a has no secondary

Nothing was changed."""
