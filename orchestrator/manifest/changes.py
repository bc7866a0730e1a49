"""Manifests that say something else than the stream or query that runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, cast

import msgspec

from orchestrator.errors import InvalidInput
from orchestrator.manifest.kinds import QueryManifest, StreamManifest
from orchestrator.records import QueryRecord, StreamRecord

NOT_SET = "not set"

YEAR_2000_MS = 946_684_800_000
"""Milliseconds beyond this are a point in time, not a duration."""

_renamed = {"recovery_bound_ms": "recovery_ms", "on_error": "onError"}
_units = {"_bytes_s": "B/s", "_ms": "ms", "_us": "us"}


@dataclass(eq=False)
class RunsOtherwise(InvalidInput):
    """A manifest wants to change a stream or query that runs.

    Attributes
    ----------
    running
        The field's value in the stream or query that runs, as a manifest would say it.
    """

    running: str


def refuse_change(
    manifest: StreamManifest | QueryManifest, known: StreamRecord | QueryRecord, remedy: str
) -> None:
    """Refuse a manifest that differs from the record that runs.

    Raises
    ------
    RunsOtherwise
        With the first field that differs.
    """
    wanted, running = in_words(manifest.record), in_words(known)
    for field in dict.fromkeys((*wanted, *running)):
        if wanted.get(field) != running.get(field):
            break
    else:
        return
    kind = "Query" if isinstance(manifest, QueryManifest) else "Stream"
    line, value = _written(manifest, field, wanted.get(field, NOT_SET))
    before = running.get(field, NOT_SET)
    if isinstance(manifest, QueryManifest) and field == "statements":
        pairs = zip_longest(value.splitlines(), before.splitlines(), fillvalue="")
        at, (value, before) = next((i, p) for i, p in enumerate(pairs) if p[0] != p[1])
        line = str(manifest.statements_line + at)
    raise RunsOtherwise(
        f"{manifest.file.rpartition(':')[0]}:{line}",
        f"{kind} {manifest.record.name}: {field}",
        value.strip(),
        f"is not what runs, which is {before.strip()!r}",
        remedy,
        running=before.strip(),
    )


def changed_fields(wanted: QueryRecord, running: QueryRecord) -> tuple[tuple[str, str, str], ...]:
    """Fields in which a query differs from the one that runs: name, value there, value here.

    Statements are told apart from these.
    """
    now, was = in_words(wanted), in_words(running)
    return tuple(
        (field, was.get(field, NOT_SET), now.get(field, NOT_SET))
        for field in dict.fromkeys((*was, *now))
        if field != "statements" and was.get(field) != now.get(field)
    )


def in_words(record: StreamRecord | QueryRecord) -> dict[str, str]:
    """A record as a manifest would say it: dotted field → value with its unit."""
    fields: dict[str, Any] = msgspec.to_builtins(record)
    if isinstance(record, StreamRecord):
        if (standby := fields.pop("standby")) is not None:
            fields["sites"] = [fields.pop("site"), standby]
        fields["from"] = _driver(fields.pop("source"))
    else:
        deadlines_ms, sinks = fields.pop("deadlines_ms"), fields.pop("sinks")
        overflow, late = fields.pop("overflow"), fields.pop("late")
        fields["outputs"] = {
            stream: {
                "site": site,
                "deadline_ms": deadlines_ms.get(stream),
                "to": _driver(sinks.get(stream)),
                "overflow": overflow.get(stream),
                "late": late.get(stream),
            }
            for stream, site in record.outputs.items()
        }
    return dict(_leaves(fields, ""))


def _driver(spec: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if spec is None else {spec["driver"]: spec["options"]}


def _leaves(fields: dict[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in fields.items():
        name = _renamed.get(key, key)
        suffix = next((each for each in _units if name.endswith(each)), "")
        path = prefix + name.removesuffix(suffix)
        if isinstance(value, dict):
            yield from _leaves(cast("dict[str, Any]", value), f"{path}.")
        elif value is not None:
            yield path, _text(value, suffix)


def _text(value: Any, suffix: str) -> str:
    if suffix == "_ms" and value >= YEAR_2000_MS:
        return datetime.fromtimestamp(value / 1e3, UTC).isoformat().replace("+00:00", "Z")
    if suffix == "_bytes_s" and value >= 1e3:
        return f"{value / 1e3:.12g} KB/s"
    if suffix:
        return f"{value:.12g} {_units[suffix]}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(str, cast('Sequence[Any]', value)))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _written(
    manifest: StreamManifest | QueryManifest, field: str, otherwise: str
) -> tuple[str, str]:
    """Line on which a manifest says a field, and its value there."""
    name = field
    while name and name not in manifest.written:
        name = name.rpartition(".")[0]
    if not name:
        return manifest.file.rpartition(":")[2], otherwise
    line, text = manifest.written[name]
    return str(line), text if text is not None and name == field != "statements" else otherwise
