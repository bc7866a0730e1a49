from bench.standby import SCHEMES, Measured, figures


def measured(standby_bytes_s: float, recovery_ms: float) -> Measured:
    return Measured(
        all_bytes_s=1000.0 + standby_bytes_s,
        tree_bytes_s=standby_bytes_s,
        deltas_bytes_s=standby_bytes_s,
        recoveries_ms={"selection0": recovery_ms, "joined": 2 * recovery_ms, "sums": recovery_ms},
        lost=0,
        repeated=0,
    )


def test_figures_are_of_the_tree_and_deltas_of_the_aggregate() -> None:
    found = {key: measured(500.0, 200.0) for key in SCHEMES}
    found["upstream"] = measured(100.0, 400.0)
    flat = figures(found)
    assert flat["sim.as.recovery_ms_mean"] == 300.0
    assert flat["sim.as.bound_kept_pct"] == 100.0
    assert flat["sim.upstream.recovery_ms_max"] == 800.0
    assert flat["sim.upstream.bound_kept_pct"] == 50.0
    assert flat["sim.deltas.saved_pct"] == 80.0
    assert flat["sim.deltas.bound_kept_pct"] == 100.0
