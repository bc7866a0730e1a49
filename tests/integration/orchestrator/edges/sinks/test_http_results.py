"""Results over real HTTP: each tuple once, from memory and from the archive, whatever restarts."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc

import vivace
from orchestrator.edges.events import Deliver
from orchestrator.edges.listening import Endpoint
from orchestrator.edges.sinks import http as results
from orchestrator.edges.sinks.http import ARROW, HttpResults, OpenHttpResults
from orchestrator.edges.sinks.write_behind import WriteBehind
from orchestrator.records import SinkAssignment
from streams.vectors.chunk import Chunk, stream_schema

SCHEMA = stream_schema({"number": "int"})
TOKEN = "a-token-that-nobody-guesses"


def delivery(generation: int, first_seq: int, count: int) -> Deliver:
    """Tuples whose numbers and timestamps are their sequence numbers, and 1000 a generation."""
    stamps = np.arange(first_seq, first_seq + count) + 1000 * generation
    return Deliver(
        stream="alerts",
        epoch=1,
        generation=generation,
        chunk=Chunk(
            first_seq=first_seq,
            rows=pa.RecordBatch.from_pydict({"_ts": stamps, "number": stamps}, schema=SCHEMA),
            watermarks_ms=np.append(stamps[:-1], stamps[-1:]),
            ingestion_times_us=stamps,
        ),
        lost=0,
        arrived_us=0,
    )


class Site:
    """A sink as a site has it, with a flush when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.token_file: str | None = None
        self.open()

    def open(self, port: int = 0) -> None:
        assigned = SinkAssignment(
            stream="alerts", columns={"number": "int"}, deadline_ms=100.0, life=1
        )
        listen = Endpoint(port=port)
        options = HttpResults(listen=listen, token_file=self.token_file)
        self.sink = options.open(assigned, self.folder)

    def deliver(self, generation: int, first_seq: int, count: int, *, flush: bool = True) -> None:
        one = delivery(generation, first_seq, count)
        self.sink.arrived(one)
        self.sink.keep(one)
        if flush:
            self.sink.flush()

    def restart(self) -> None:
        self.sink.close()
        self.open()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    yield made
    made.sink.close()


def get(
    sink: OpenHttpResults, query: str = "", **headers: str
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    parts = urlsplit(sink.address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", parts.path + query, headers=named)
    return connection, connection.getresponse()


def events(sink: OpenHttpResults, count: int, query: str = "", **headers: str) -> list[str]:
    """Identities of the first events of a response."""
    connection, response = get(sink, query, **headers)
    assert response.status == 200
    found: list[str] = []
    while len(found) < count:
        line = response.readline().decode()
        assert line, "the response has ended"
        if line.startswith("id: "):
            found.append(line[4:].strip())
        elif line.startswith("data: "):
            generation, seq = map(int, found[-1].split("-"))
            number = seq + 1000 * generation
            assert json.loads(line[6:]) == {"_seq": seq, "_ts": number, "number": number}
    connection.close()
    return found


def identities(generation: int, *seqs: int) -> list[str]:
    return [f"{generation}-{seq}" for seq in seqs]


def test_results_come_when_they_arrive_before_they_are_flushed(site: Site) -> None:
    site.deliver(7, 0, 2, flush=False)
    assert events(site.sink, 2) == identities(7, 0, 1)


def test_a_client_continues_after_what_it_had_also_after_a_restart(site: Site) -> None:
    site.deliver(7, 0, 4)
    assert events(site.sink, 2, Last_Event_ID="7-1") == identities(7, 2, 3)
    assert events(site.sink, 1, "?after=7-2") == identities(7, 3)
    site.restart()
    site.deliver(7, 4, 2)
    assert events(site.sink, 5, Last_Event_ID="7-0") == identities(7, 1, 2, 3, 4, 5)
    assert events(site.sink, 3, "?from=3") == identities(7, 3, 4, 5)
    assert events(site.sink, 6) == identities(7, *range(6))


def test_a_stream_that_begins_anew_goes_on_with_its_new_generation(site: Site) -> None:
    site.deliver(7, 0, 3)
    site.deliver(9, 0, 2)
    assert events(site.sink, 4, Last_Event_ID="7-0") == ["7-1", "7-2", "9-0", "9-1"]
    site.restart()
    site.deliver(9, 2, 1, flush=False)
    assert events(site.sink, 4, Last_Event_ID="7-1") == ["7-2", "9-0", "9-1", "9-2"]


def test_memory_is_bounded_and_what_it_lacks_comes_from_the_archive(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "KEPT_BYTES", 1000)
    for first in range(0, 2000, 50):
        site.deliver(0, first, 50)
    site.deliver(0, 2000, 50, flush=False)
    held = sum(batch.nbytes for _, batch in site.sink._latest)  # pyright: ignore[reportPrivateUsage]
    assert held < 10_000
    assert events(site.sink, 2050) == identities(0, *range(2050))


def test_a_follower_gets_what_comes_later(site: Site) -> None:
    site.deliver(7, 0, 1)
    connection, response = get(site.sink, "?from=now")
    assert response.readline().startswith(b": results of alerts")
    site.deliver(7, 1, 1)
    while not (line := response.readline()).startswith(b"id"):
        pass
    assert line == b"id: 7-1\n"
    connection.close()


def test_arrow(site: Site) -> None:
    site.deliver(7, 0, 3)
    site.deliver(7, 3, 2, flush=False)
    connection, response = get(site.sink, Accept="application/vnd.apache.arrow.stream")
    reader = ipc.open_stream(response)
    rows: list[tuple[int, int, int, int]] = []
    while len(rows) < 5:
        rows += [tuple(row.values()) for row in reader.read_next_batch().to_pylist()]
    assert rows == [(7, n, 7000 + n, 7000 + n) for n in range(5)]
    connection.close()


@pytest.mark.parametrize(
    ("query", "accept", "kind"),
    [
        ("", "*/*", "text/event-stream"),
        ("", f"{ARROW}, */*", ARROW),
        ("", "application/json", None),
        ("?describe", "*/*", "application/json"),
        ("?describe", ARROW, None),
    ],
)
def test_what_comes_is_what_the_client_accepts(
    site: Site, query: str, accept: str, kind: str | None
) -> None:
    connection, response = get(site.sink, query, Accept=accept)
    if kind is None:
        assert response.status == 406
        assert json.loads(response.read())["error"].endswith(f", not as {accept}")
    else:
        assert (response.status, response.headers["Content-Type"]) == (200, kind)
    connection.close()


def test_responses_end_with_the_sink(site: Site) -> None:
    _, response = get(site.sink)
    response.readline()
    site.sink.close()
    while response.readline():
        pass
    site.open()


@pytest.mark.parametrize(
    ("query", "headers"),
    [("?from=-1", {}), ("?from=x", {}), ("?after=3", {}), ("", {"Last_Event_ID": "x-y"})],
)
def test_places_that_are_none(site: Site, query: str, headers: dict[str, str]) -> None:
    connection, response = get(site.sink, query, **headers)
    assert response.status == 400
    connection.close()


def test_an_unknown_parameter_is_named_with_those_that_are_known(site: Site) -> None:
    known = "describe, after, from, until, first, last, columns, where"
    for query, name in (("?form=5", "form"), ("?from=5&From=5", "From"), ("?describe&x", "x")):
        connection, response = get(site.sink, query)
        assert response.status == 400
        problem = f"an output has no parameter {name!r}; it has {known}"
        assert json.loads(response.read()) == {"error": problem}
        connection.close()


@pytest.mark.parametrize("place", ["after=9-0", "from=9-0"])
def test_a_generation_to_come_is_refused_by_who_knows_the_newest(site: Site, place: str) -> None:
    site.deliver(3, 0, 1)
    site.deliver(7, 0, 2)
    connection, response = get(site.sink, f"?{place}")
    assert response.status == 400
    problem = "there is no generation 9 yet; the newest is 7"
    assert json.loads(response.read()) == {"error": problem}
    connection.close()
    assert get(site.sink, Last_Event_ID="9-0")[1].status == 400
    assert events(site.sink, 2, "?after=3-0") == identities(7, 0, 1)


def test_a_site_that_was_killed_waits_for_a_generation_that_its_disk_does_not_have(
    site: Site,
) -> None:
    """A client had results of it before the disk."""
    site.deliver(7, 0, 2)
    site.deliver(9, 0, 2, flush=False)
    assert events(site.sink, 1, "?after=9-0") == ["9-1"]
    site.restart()
    connection, response = get(site.sink, "?after=9-1")
    assert response.status == 200
    site.deliver(9, 0, 3)
    while not (line := response.readline()).startswith(b"id"):
        pass
    assert line == b"id: 9-2\n"
    connection.close()


def test_a_parameter_without_a_value_counts(site: Site) -> None:
    site.deliver(1, 0, 3)
    connection, response = get(site.sink, "?describe")
    assert json.loads(response.read())["columns"] == {"number": "int"}
    connection.close()
    for query in ("?from=", "?after=", "?until="):
        connection, response = get(site.sink, query)
        assert response.status == 400
        connection.close()


def test_token(site: Site) -> None:
    site.sink.close()
    (site.folder / "token").write_text(TOKEN)
    site.token_file = str(site.folder / "token")
    site.open()
    assert get(site.sink)[1].status == 401
    site.deliver(7, 0, 1)
    assert events(site.sink, 1, Authorization=f"Bearer {TOKEN}") == ["7-0"]


def test_nothing_enters_by_a_stream_of_results(site: Site) -> None:
    parts = urlsplit(site.sink.address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    connection.request("POST", parts.path, b"number\n1\n")
    assert connection.getresponse().status == 405


def test_written_behind_it_shows_results_at_once(site: Site) -> None:
    behind = WriteBehind(lambda: site.sink)
    behind.wait_until_open()
    behind.keep(delivery(7, 0, 1))
    assert events(site.sink, 1) == ["7-0"]


def test_a_bounded_response_has_what_comes_between_a_look_and_its_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.deliver(7, 0, 2)
    look = OpenHttpResults.latest
    late = [True]

    def looked(sink: OpenHttpResults, at: tuple[int, int], most_bytes: int) -> object:
        found = look(sink, at, most_bytes)
        if at == (7, 2) and late:
            late.clear()
            site.deliver(7, 2, 2)
        return found

    monkeypatch.setattr(OpenHttpResults, "latest", looked)
    address = site.sink.address.rpartition("/streams/")[0]
    batches = vivace.site(address).results("alerts", times_ms=(None, 7003))
    assert [seq for each in batches for seq in each.column("_seq").to_pylist()] == [0, 1, 2, 3]


def test_a_number_to_begin_with_is_meant_in_the_first_generation_alone(site: Site) -> None:
    site.deliver(7, 0, 2)
    site.deliver(9, 0, 3)
    assert events(site.sink, 3, "?from=2") == identities(9, 0, 1, 2)


def test_a_reader_that_wants_none_of_many_results_gets_signs_of_life(site: Site) -> None:
    """Only then is it noticed that one has gone."""
    connection, response = get(site.sink, '?where=[["number","<",0]]'.replace('"', "%22"))
    assert response.readline() == b": results of alerts\n"
    site.deliver(7, 0, 1)
    assert response.readline() == b"\n"
    assert response.readline() == b": still here\n"
    connection.close()
