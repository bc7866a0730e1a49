"""The manifest of a query: its statements, outputs, promises and expectations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from foundation.bounds import MAX_NAME
from foundation.loop_limits import MOST_STEPS, Beyond
from orchestrator.documents.document import Field, Options, Section
from orchestrator.edges import sinks
from orchestrator.manifest.stream_kind import read_overdue
from orchestrator.records import (
    Estimate,
    Late,
    Loops,
    OnError,
    Overflow,
    Partial,
    QueryManifest,
    QueryRecord,
    Scheme,
    Standby,
)
from streams.language import QueryError, parse
from streams.language.names import is_plain
from streams.plan.program import REJECTED_SUFFIX
from streams.scheduling.batching import NAMES, PATTERN


def read_query(document: Field, section: Section) -> QueryManifest:
    """The rest of a document of this kind."""
    outputs = section.need("outputs")
    read = {_stream_out(key): _output(output) for key, output in outputs.entries()}
    if not read:
        outputs.refuse("names no output", "Name at least one stream and its site.")
    statements = section.need("statements")
    deadlines_ms = _deadlines_ms(statements, outputs, read)
    # A block scalar begins on the line after its `|`.
    style = getattr(statements.node, "style", None)
    return QueryManifest(
        file=document.where,
        written=document.written(),
        statements_line=statements.node.start_mark.line + (2 if style in ("|", ">") else 1),
        record=QueryRecord(
            name=section.need("name").slug(),
            statements=statements.text(),
            outputs={s: read[s]["site"] for s in read},
            sinks={s: read[s]["to"] for s in read if "to" in read[s]},
            deadline_ms=section.need("deadline").interval_ms(),
            deadlines_ms=deadlines_ms,
            overflow={s: read[s]["overflow"] for s in read if "overflow" in read[s]},
            late={s: read[s]["late"] for s in read if "late" in read[s]},
            recovery_bound_ms=section.need("recovery").interval_ms(),
            **section.given(_expectations),
        ),
    )


def _deadlines_ms(
    statements: Field, outputs: Field, read: dict[str, dict[str, Any]]
) -> dict[str, float]:
    """The deadlines of outputs that have their own; a periodic statement may state its one."""
    found = {name: one["deadline"] for name, one in read.items() if "deadline" in one}
    try:
        parsed = parse(statements.text())
    except QueryError:
        # Whoever compiles them says what is wrong.
        return found
    for statement in parsed:
        real_time, name = statement.body.real_time, statement.name
        if real_time is None or real_time.deadline_ms is None:
            continue
        if name not in read:
            statements.refuse(
                f"gives {name} a DEADLINE, which is no output",
                f"Leave DEADLINE out there, or name {name} in `outputs`: a deadline is that of "
                "results at a site.",
            )
        if found.setdefault(name, real_time.deadline_ms) != real_time.deadline_ms:
            field = next(field for key, field in outputs.entries() if key.text() == name)
            field.refuse(
                f"has a deadline of {found[name]:g} ms, and DEADLINE {real_time.deadline_ms} ms in "
                "its statement",
                "Write it in one of the two places.",
            )
    return found


def _stream_out(field: Field) -> str:
    """A stream that leaves: a statement's results, or the tuples that it has rejected."""
    name = field.text()
    of = name.removesuffix(REJECTED_SUFFIX)
    return name if of != name and is_plain(of) and len(name) <= MAX_NAME else field.identifier()


def _output(field: Field) -> dict[str, Any]:
    """An output's site; what it has of its own: deadline, sink, what becomes of late results and of
    those that the sink does not take."""
    if not field.is_mapping():
        return {"site": field.slug()}
    with field.section() as section:
        own = section.given(_own)
        return {"site": section.need("site").slug(), **own}


_own: Options = {
    "deadline": ("deadline", Field.interval_ms),
    "to": ("to", sinks.read),
    "late": ("late", lambda field: Late(field.choice([each.value for each in Late]))),
    "overflow": ("overflow", lambda field: Overflow(field.choice([o.value for o in Overflow]))),
}


def _nodes(field: Field) -> tuple[str, ...]:
    nodes = tuple(item.slug() for item in field.items())
    if not nodes:
        field.refuse("names no node", "Name the nodes that may run its primary.")
    return nodes


def _estimate(field: Field) -> Estimate:
    options: Options = {
        "selectivity": ("selectivity", Field.number),
        "cost_us": ("cost", lambda cost: 1000 * cost.duration_ms()),
    }
    with field.section() as section:
        return Estimate(**section.given(options))


def _by_fragment(read: Callable[[Field], object]) -> Callable[[Field], dict[str, object]]:
    """Reads a mapping of fragments to values."""
    return lambda field: {key.identifier(): read(value) for key, value in field.entries()}


def read_batching(field: Field) -> str:
    """A batching policy."""
    text = field.text()
    if not re.fullmatch(PATTERN, text):
        field.refuse(
            "is no batching policy", f"Write one of {', '.join(NAMES)}; bts with any k up to 9999."
        )
    return text


def _standby(field: Field) -> Standby:
    if not field.is_mapping():
        stated = [scheme.value for scheme in Scheme if scheme is not Scheme.BATCHES]
        return Standby(scheme=Scheme(field.choice(stated)))
    with field.section() as section:
        batch = section.need("batch").count()
        return Standby(scheme=Scheme.BATCHES, batch=batch) if batch > 1 else Standby()


def _loops(field: Field) -> Loops:
    options: Options = {
        "steps": ("steps", _steps),
        "tuples": ("tuples", Field.count),
        "beyond": ("beyond", lambda field: Beyond(field.choice([each.value for each in Beyond]))),
    }
    with field.section() as section:
        return Loops(**section.given(options))


def _steps(field: Field) -> int:
    steps = field.count()
    if steps > MOST_STEPS:
        field.refuse(f"is more than {MOST_STEPS}", "Write fewer: they are all in one millisecond.")
    return steps


_expectations: Options = {
    "standby": ("standby", _standby),
    "on_error": ("onError", lambda field: OnError(field.choice([each.value for each in OnError]))),
    "partial": ("partial", lambda field: Partial(field.choice([p.value for p in Partial]))),
    "batching": ("batching", read_batching),
    "overdue": ("overdue", read_overdue),
    "share": ("share", lambda field: field.boolean()),
    "loops": ("loops", _loops),
    "estimates": ("estimates", _by_fragment(_estimate)),
    "primaries": ("primaries", _by_fragment(_nodes)),
}
