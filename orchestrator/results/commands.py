"""Results that the command line shows under a name."""

from __future__ import annotations

import msgspec

from orchestrator.results.changes import Deleted
from orchestrator.results.moves import CordonDocument


class DeletedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `vivace delete --json` prints."""

    deleted: Deleted


class CordonedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `vivace cordon --json` and `vivace uncordon --json` print."""

    cordon: CordonDocument


class WithdrawnDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `vivace move --abort --json` prints: the names of the plans of moves."""

    withdrawn: tuple[str, ...]
