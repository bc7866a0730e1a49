"""Results that the command line shows under a name."""

from __future__ import annotations

from orchestrator.results.changes import Deleted
from orchestrator.results.moves import CordonDocument
from orchestrator.results.result import Result


class DeletedDocument(Result, frozen=True, kw_only=True):
    """What `vivace delete --json` prints."""

    deleted: Deleted


class CordonedDocument(Result, frozen=True, kw_only=True):
    """What `vivace cordon --json` and `vivace uncordon --json` print."""

    cordon: CordonDocument


class WithdrawnDocument(Result, frozen=True, kw_only=True):
    """What `vivace move --abort --json` prints: the names of the plans of moves."""

    withdrawn: tuple[str, ...]
