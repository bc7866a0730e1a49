"""What became of the tuples that were sent, in words."""

from __future__ import annotations

from orchestrator import api
from orchestrator.cli.send import _view  # pyright: ignore[reportPrivateUsage]


def said(*, accepted: int = 0, late: int = 0, ahead: int = 0, undecided: int = 0) -> list[str]:
    """The lines of the view."""
    sent = api.SentDocument(
        stream="north", accepted=accepted, late=late, ahead=ahead, undecided=undecided
    )
    return _view(sent).plain.splitlines()


def test_tuples_of_before_a_site_failed_are_told_apart_from_those_that_entered() -> None:
    assert said(accepted=1200, undecided=4) == [
        "✓ 1,200 tuples have entered north.",
        "! 4 tuples entered before the stream's site failed, or came too late and did not enter: "
        "nobody can tell which.",
    ]


def test_one_tuple_is_singular() -> None:
    assert said(accepted=1, late=1, ahead=1) == [
        "✓ 1 tuple has entered north.",
        "! 1 tuple came too late and did not enter.",
        "! 1 tuple lies too far ahead and did not enter.",
    ]
