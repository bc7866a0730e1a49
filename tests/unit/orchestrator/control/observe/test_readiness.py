"""What is missing of a cluster that starts, and when that is progress."""

from __future__ import annotations

from orchestrator.control.observe.readiness import Readiness, incomplete, readiness
from orchestrator.records import NodeCoordinate, NodeKind, NodeRecord


def host(
    name: str, latencies_ms: dict[str, float], *, error: float = 0.1, x_ms: float = 0.0
) -> NodeRecord:
    return NodeRecord(
        node=name,
        incarnation="1",
        kind=NodeKind.EXECUTOR,
        region="",
        endpoint="",
        public_key="",
        pid=1,
        machine="",
        coordinate=NodeCoordinate(position_ms=(x_ms, 0.0), cpu_ms=0.0, error=error),
        latencies_ms=latencies_ms,
    )


def test_absent_hosts_are_named() -> None:
    now = readiness(["a", "b", "c"], {"b": host("b", {})})
    assert now.absent == ("a", "c")


def test_host_that_has_not_probed_all_present_ones_is_named() -> None:
    nodes = {"a": host("a", {"b": 1.0}), "b": host("b", {})}
    assert readiness(["a", "b"], nodes).unprobed == {"b": ("a",)}


def test_host_that_is_not_part_of_the_cluster_does_not_matter() -> None:
    nodes = {"a": host("a", {"b": 1.0}), "b": host("b", {"a": 1.0}), "observer-1": host("o", {})}
    now = readiness(["a", "b"], nodes)
    assert not now.absent
    assert not now.unprobed
    assert not now.uncertain


def test_wrong_coordinate_has_not_settled() -> None:
    nodes = {
        "a": host("a", {"b": 30.0}, error=0.9, x_ms=0.0),
        "b": host("b", {"a": 30.0}, error=0.2, x_ms=5.0),
    }
    assert readiness(["a", "b"], nodes).uncertain == {"a": 0.9}


def test_short_links_settle_whatever_their_relative_error() -> None:
    nodes = {
        "a": host("a", {"b": 0.8}, error=0.9, x_ms=0.0),
        "b": host("b", {"a": 0.7}, error=1.2, x_ms=0.3),
    }
    assert not readiness(["a", "b"], nodes).uncertain


def lacking(absent: tuple[str, ...], unprobed: int = 0) -> Readiness:
    pairs = {str(number): ("x",) for number in range(unprobed)}
    return Readiness(expected=9, absent=absent, unprobed=pairs, uncertain={})


def test_whatever_comes_renews_patience() -> None:
    first = incomplete(None, lacking(("a", "b")), 1)
    assert first is not None
    same = incomplete(first, lacking(("a", "b")), 2)
    assert same is not None
    assert same.since_us == 1
    for now in (lacking(("a",), unprobed=7), lacking(("a", "b"), unprobed=0)):
        fewer = incomplete(same, now, 3)
        assert fewer is not None
        assert fewer.since_us == (3 if now.absent == ("a",) else 1)
    probed = incomplete(incomplete(None, lacking((), 3), 4), lacking((), 2), 5)
    assert probed is not None
    assert probed.since_us == 5
    assert incomplete(probed, lacking(()), 6) is None


def test_a_host_that_comes_and_goes_again_and_again_is_no_progress() -> None:
    waits = incomplete(None, lacking(("a", "b")), 0)
    for turn in range(1, 10):
        absent = ("a",) if turn % 2 else ("a", "b")
        waits = incomplete(waits, lacking(absent), turn)
    assert waits is not None
    assert waits.since_us == 1


def test_a_host_whose_process_has_started_is_half_a_step() -> None:
    nodes = {"b": host("b", {})}
    assert readiness(["a", "b"], nodes).steps_left > readiness(["a", "b"], nodes, ["a"]).steps_left
    assert str(readiness(["a", "b"], nodes, ["a"])) == ("1 of 2 registered, without a (a starting)")
