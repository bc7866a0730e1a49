"""Engines of fragments that feed each other, in one process and without numbers of others.

A host runs one engine a fragment, and numbers what it gives as the next fragment's input. A chain
does so for all fragments of a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streams.evaluate.engine import Evaluated, FragmentEngine
from streams.plan.program import Program
from streams.vectors.chunk import Chunk

AT_ONCE = 1 << 20
"""Watermarks that an engine advances by in one step, unless told otherwise."""


class FragmentChain:
    """The engines of some fragments.

    Parameters
    ----------
    programs
        Fragment → its program; producers before consumers.
    """

    def __init__(self, programs: Mapping[str, Program]) -> None:
        self._engines = {name: FragmentEngine(program) for name, program in programs.items()}
        self._sent = dict.fromkeys(programs, 0)
        self._readers: dict[str, list[FragmentEngine]] = {}
        for name, program in programs.items():
            for stream in program.inputs:
                self._readers.setdefault(stream, []).append(self._engines[name])

    def offer(self, stream: str, chunk: Chunk) -> None:
        """Add the next chunk of a stream for every fragment that reads it.

        Raises
        ------
        ChunkError
            As of `FragmentEngine.offer`.
        """
        for engine in self._readers.get(stream, ()):
            engine.offer(stream, chunk)

    def advance(self, limit: int = AT_ONCE) -> Iterator[tuple[str, Evaluated]]:
        """Evaluate all that is complete; what each fragment gives, part by part.

        Raises
        ------
        EvaluationError
            As of `FragmentEngine.advance`.
        """
        for name, engine in self._engines.items():
            while (made := engine.advance(limit)) is not None:
                chunk = Chunk(
                    first_seq=self._sent[name],
                    rows=made.rows,
                    watermarks_ms=made.watermarks_ms,
                    ingestion_times_us=made.ingestion_times_us,
                )
                self._sent[name] = chunk.next_seq
                self.offer(name, chunk)
                yield name, made
