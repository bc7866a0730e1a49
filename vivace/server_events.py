"""Reading server-sent events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvent:
    """An event; without data it is none, and says only how far its client has come.

    Attributes
    ----------
    id
        With which a client that comes again says how far it has come; empty: it has none.
    """

    name: str
    data: bytes
    id: str = ""


def server_events(lines: Iterable[bytes]) -> Iterator[ServerEvent]:
    """The events in a response, as its lines come; one that is cut off is left out.

    >>> list(server_events([b": hello\\n", b"\\n", b"event: done\\n", b"data: 1\\n", b"\\n"]))
    [ServerEvent(name='done', data=b'1', id='')]
    """
    fields: dict[str, bytes] = {}
    for line in lines:
        text = line.rstrip(b"\r\n")
        if not text:
            data, number = fields.get("data", b""), fields.get("id", b"")
            if data or number:
                name = fields.get("event", b"message")
                yield ServerEvent(name=name.decode(), data=data, id=number.decode())
            fields = {}
            continue
        field, _, value = text.partition(b":")
        name, value = field.decode(), value.removeprefix(b" ")
        # Several lines of data are one text; a comment has no name.
        fields[name] = fields["data"] + b"\n" + value if name == "data" in fields else value
