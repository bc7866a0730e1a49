"""Names of new streams and outputs that would meet others where readers look for them.

What no stream may call a column is refused where columns are declared and selected
(`streams.vectors.reserved`). Here are names that only some readers take for one: those of files, on
systems that take no notice of case, and those of columns, by the sink that an output has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.control.observe.dataflow import Dataflow, InvalidQuery
from orchestrator.edges import sinks
from orchestrator.errors import InvalidInput
from orchestrator.manifest.kinds import QueryManifest, StreamManifest, place_of
from streams.vectors.reserved import alike, taken


def check_collisions(
    flow: Dataflow, streams: Iterable[StreamManifest], queries: Iterable[QueryManifest]
) -> None:
    """Check new streams and queries.

    Parameters
    ----------
    flow
        With all streams, those that run already among them.

    Raises
    ------
    InvalidInput, InvalidQuery
        The first collision.
    """
    named: dict[str, list[str]] = {}
    for name in flow.columns:
        named.setdefault(name.casefold(), []).append(name)
    for stream in streams:
        name = stream.record.name
        if (problem := _spelt_alike(name, named)) is not None:
            field = f"Stream {name}: name"
            raise InvalidInput(place_of(stream, "name"), field, name, problem, _OTHER_NAME)
    for query in queries:
        record = query.record
        for fragment in flow.of(record.name):
            if (problem := _spelt_alike(fragment.name, named)) is not None:
                raise InvalidQuery(record.name, "statements", fragment.name, problem, _OTHER_NAME)
        for output in record.outputs:
            _check_output(query, output, flow.columns[output])


_OTHER_NAME = "Choose another name."


def _spelt_alike(name: str, named: Mapping[str, list[str]]) -> str | None:
    others = [other for other in named[name.casefold()] if other != name]
    if not others:
        return None
    return f"differs from stream {others[0]} in case only, and names become names of files"


def _check_output(query: QueryManifest, output: str, columns: Iterable[str]) -> None:
    spec = query.record.sinks.get(output, sinks.DEFAULT)
    sink = sinks.restore(spec)
    place = place_of(query, f"outputs.{output}.to.{spec.driver}")
    field = f"Query {query.record.name}: outputs.{output}.to.{spec.driver}"
    for column in columns:
        if (reason := taken(column, sink.reserved)) is not None:
            raise InvalidInput(
                place, field, None, f"the output's column {column} {reason}",
                f"Rename it in SELECT: {column} AS ….",
            )  # fmt: skip
    if sink.ignores_case and (pair := alike(columns)) is not None:
        raise InvalidInput(
            place, field, None,
            f"the output's columns {pair[0]} and {pair[1]} differ in case only, which readers such "
            "as Spark take no notice of",
            f"Rename one in SELECT: {pair[1]} AS ….",
        )  # fmt: skip
