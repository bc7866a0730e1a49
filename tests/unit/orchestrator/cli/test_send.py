"""What became of the tuples that were sent, in words."""

from __future__ import annotations

from pathlib import Path

from orchestrator import api
from orchestrator.cli.send import _view  # pyright: ignore[reportPrivateUsage]


def said(*, is_sorted: bool = False, **counts: int) -> list[str]:
    """The lines of the view."""
    given = {"accepted": 0, "late": 0, "ahead": 0, **counts}
    sent = api.SentDocument(stream="north", **given)
    return _view(sent, is_sorted=is_sorted, skip_bad=Path("bad.csv")).plain.splitlines()


def test_tuples_of_before_a_site_failed_are_told_apart_from_those_that_were_accepted() -> None:
    assert said(accepted=1200, undecided=4) == [
        "✓ 1,200 tuples accepted by north.",
        "! 4 tuples entered before the stream's site failed, or came too late and did not enter: "
        "nobody can tell which.",
    ]


def test_the_first_line_says_that_tuples_were_refused_and_the_next_ones_what_to_do() -> None:
    assert said(accepted=38_266, late=298_510) == [
        "✗ 298,510 of 336,776 tuples refused by north.",
        "! 298,510 tuples came too late: send them in the order of event time (--sort), or give "
        "the stream more `slack`. A stream that was silent goes on by the clock, unless it has "
        "`idleAfter: off`.",
        "38,266 tuples accepted by north.",
    ]
    assert said(late=1, ahead=1, is_sorted=True) == [
        "✗ 2 of 2 tuples refused by north.",
        "! 1 tuple came too late: the stream had gone on to later timestamps before. A stream that "
        "was silent goes on by the clock, unless it has `idleAfter: off`.",
        "! 1 tuple lies too far ahead: are they in the unit that the stream's `format` names? "
        "`maxAhead` is the limit.",
    ]


def test_what_waits_and_what_was_left_out_is_told() -> None:
    assert said(accepted=1, waiting=1, skipped=1) == [
        "✓ 1 tuple accepted by north.",
        "! 1 line that cannot be read left out, and kept in bad.csv.",
        "· 1 tuple of north waits to enter: `vivace status` says for what.",
    ]
    assert said() == ["! There were no tuples to send to north."]
