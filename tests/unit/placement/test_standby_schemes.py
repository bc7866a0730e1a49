from dataclasses import replace

import pytest

from placement.standby_schemes import (
    HYSTERESIS,
    MARGIN,
    NEVER,
    NO_CHECKPOINTS,
    Fed,
    Input,
    sent_share,
)

FED = Fed(
    inputs=[Input(tuples_s=100.0, bytes_s=2000.0)],
    cost_us=1000.0,
    detection_ms=0.0,
    transfer_ms=10.0,
    checkpoint_bytes=50.0,
    changes_bytes_s=0.0,
    ack_interval_ms=200.0,
    delay_ms=0.0,
)


@pytest.mark.parametrize(("batch", "share"), [(1, 1.0), (11, 0.55), (20, 1.0), (21, 0.0)])
def test_trimming_makes_traffic_fall_and_rise(batch: int, share: float) -> None:
    """Reliable placement, §4.6, with 20 tuples in an acknowledgement interval."""
    assert sent_share(100.0, 200.0, batch) == pytest.approx(share)


def test_some_intervals_have_a_tuple_more_than_others() -> None:
    """Two or three tuples between two coverings: one batch of two in each case."""
    assert sent_share(25.0, 100.0, 2) == pytest.approx(0.8)


def test_active_standby_sends_everything_and_takes_one_way() -> None:
    found = FED.with_batch(1, 0.0)
    assert (found.bytes_s, found.recovery_ms, found.covered_ms) == (2000.0, 10.0, 0.0)


def test_upstream_backup_sends_checkpoints_only_and_takes_a_round_trip() -> None:
    found = FED.with_batch(NEVER, 200.0)
    assert found.bytes_s == pytest.approx(250.0)
    assert found.recovery_ms == pytest.approx(2 * 10.0 + 20 * 1.0)


def test_no_more_than_a_batch_is_kept_back() -> None:
    assert FED.with_batch(6, 200.0).recovery_ms == pytest.approx(2 * 10.0 + 5 * 1.0)


def test_a_stream_that_flows_anyway_costs_nothing_and_is_not_kept_back() -> None:
    free = replace(FED, inputs=[Input(tuples_s=100.0, bytes_s=2000.0, is_free=True)])
    assert free.with_batch(NEVER, 200.0) == free.with_batch(1, 0.0)
    assert free.cheapest(1000.0).bytes_s == 0.0


def test_changes_of_the_state_count() -> None:
    assert replace(FED, changes_bytes_s=100.0).with_batch(NEVER, 200.0).bytes_s == 350.0


def test_chains_of_fragments_are_behind_by_all_their_intervals() -> None:
    deep = replace(FED, levels=3, delay_ms=100.0)
    found = deep.with_batch(NEVER, 200.0)
    # Cuts every 200 ms are acknowledged after 100, then every 400 after 400, every 900 after 900.
    assert found.covered_ms == 1800.0
    assert found.recovery_ms == pytest.approx(2 * 10.0 + 180 * 1.0)
    assert found.bytes_s == pytest.approx(50.0 / 0.9)


@pytest.mark.parametrize("bound_ms", [10.0, 20.0, 21.0, 30.5, 39.0, 40.0, 41.0, 100.0])
def test_the_largest_batch_keeps_the_bound_and_the_next_does_not(bound_ms: float) -> None:
    found = FED.largest(bound_ms, 200.0)
    assert found.batch == 1 or found.recovery_ms <= bound_ms
    if found.batch != NEVER:
        assert FED.with_batch(found.batch + 1, 200.0).recovery_ms > bound_ms


def test_a_stated_batch_is_as_large_as_the_bound_allows() -> None:
    assert FED.largest(1000.0, 200.0, most=7).batch == 7
    assert FED.largest(24.5, 200.0, most=7).batch == 5


def test_the_cheapest_is_no_dearer_than_the_largest_and_keeps_the_bound() -> None:
    for bound_ms in range(10, 400, 7):
        ours, theirs = FED.cheapest(bound_ms), FED.largest(bound_ms, 200.0)
        assert ours.bytes_s <= theirs.bytes_s
        assert ours.batch == 1 or ours.recovery_ms <= bound_ms


def test_longer_intervals_where_the_bound_leaves_room() -> None:
    assert FED.cheapest(60.0).checkpoint_ms < FED.cheapest(5000.0).checkpoint_ms


def test_active_standby_where_state_changes_more_than_comes_in() -> None:
    assert replace(FED, changes_bytes_s=2000.0).cheapest(1000.0).batch == 1


def test_another_scheme_must_save_enough() -> None:
    running = FED.with_batch(NEVER, 400.0)
    slightly = FED.cheapest(62.0, running)
    assert slightly.checkpoint_ms == running.checkpoint_ms
    best = FED.cheapest(5000.0, running)
    assert best.bytes_s <= (1 - HYSTERESIS) * running.bytes_s
    # What breaks the bound does not stay.
    assert FED.cheapest(15.0, running).batch == 1


def test_small_batches_need_no_checkpoints() -> None:
    """Of 20 tuples between two coverings, batches of 5 leave none to be trimmed."""
    found = FED.frugal(FED.with_batch(5, 200.0), bound_ms=100.0)
    assert (found.batch, found.checkpoint_ms) == (5, NO_CHECKPOINTS)
    assert found.bytes_s == FED.with_batch(1, NO_CHECKPOINTS).bytes_s
    assert found.covered_ms == pytest.approx(50.0)
    assert found.recovery_ms == pytest.approx(2 * 10.0 + 4 * 1.0)


def test_batches_that_are_trimmed_keep_their_checkpoints() -> None:
    for batch in (11, 21, NEVER):
        fed = FED.with_batch(batch, 200.0)
        assert FED.frugal(fed, bound_ms=1000.0) == fed


def test_batches_without_checkpoints_keep_the_bound() -> None:
    """Nothing is covered, so all of a batch but one may have to be reprocessed on each input."""
    fed = replace(FED, checkpoint_bytes=1000.0).with_batch(40, 200.0)
    model = replace(FED, checkpoint_bytes=1000.0)
    assert model.frugal(fed, bound_ms=50.0) == fed
    assert model.frugal(fed, bound_ms=60.0).recovery_ms == pytest.approx(2 * 10.0 + 39 * 1.0)


def test_another_scheme_than_the_running_one_leaves_a_margin() -> None:
    active = FED.with_batch(1, NO_CHECKPOINTS)
    upstream = FED.with_batch(NEVER, 200.0)
    assert FED.cheapest(upstream.recovery_ms).batch == NEVER
    assert FED.cheapest(upstream.recovery_ms, active).batch != NEVER
    ample_ms = active.recovery_ms + (upstream.recovery_ms - active.recovery_ms) / (1 - MARGIN)
    assert FED.cheapest(ample_ms + 0.1, active).batch == NEVER
    assert FED.cheapest(upstream.recovery_ms, upstream) == upstream
