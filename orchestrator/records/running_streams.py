"""What the leader has decided of what people wrote; nobody else writes it."""

from __future__ import annotations

from orchestrator.records.base import Record


class RunningStreamRecord(Record, frozen=True, kw_only=True, omit_defaults=True):
    """`/running-streams/<name>`: what has been decided of a stream that enters from outside.

    A stream without this record has not started, and enters at its first site. One whose generation
    is less than the number of the stream's creation was decided of a former stream of that name.
    """

    name: str
    primary: str
    """The one of its sites that feeds consumers."""
    generation: int
    """Rises when the stream begins anew, because its site was started again or another one took its
    place and could not resume. The first one is the store's number of the stream's creation, which
    is greater than all that a former stream of that name ever had."""
    epoch: int
    """Rises with every takeover and every generation."""
    moved_us: int | None = None
    """When it last went to its other site because it could not be opened, cluster clock."""
    start_at_us: int | None = None
    """When the source starts, cluster clock: once every query that reads the stream has a warm
    secondary for each fragment. None: it waits for that."""
    incarnation: str | None = None
    """The incarnation of the site that the generation belongs to; None: the stream has not started,
    or resumes on any."""
    slipped_ms: float = 0.0
    """By how much its time axis has slipped so far, because its source had to wait for consumers: a
    site that is started again goes on from there."""
