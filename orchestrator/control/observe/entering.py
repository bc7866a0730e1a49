"""Streams that enter from outside: what people wrote of them, with what has been decided."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.records import RunningStreamRecord, StreamRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class EnteringStream:
    """A stream that enters from outside."""

    spec: StreamRecord
    running: RunningStreamRecord

    @staticmethod
    def of(spec: StreamRecord, created: int, found: RunningStreamRecord | None) -> EnteringStream:
        """A stream of the store, or one that is to be applied.

        Parameters
        ----------
        created
            The store's number of its creation; 0: it is to be applied.
        found
            What is there of its name: perhaps of a former stream.
        """
        if found is None or found.generation < created:
            found = RunningStreamRecord(
                name=spec.name, primary=spec.site, generation=created, epoch=created
            )
        return EnteringStream(spec=spec, running=found)

    @property
    def feeding_site(self) -> str:
        """The site that feeds consumers."""
        return self.running.primary

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that bring it in, the one that feeds consumers first."""
        return tuple(sorted(self.spec.sites, key=lambda site: site != self.feeding_site))

    @property
    def opened_at(self) -> tuple[str, ...]:
        """Those that have its source open: a source that cannot resume enters at one at a time."""
        return self.sites if self.spec.resumes else (self.feeding_site,)
