"""Deadline placement: §4.1 with Fig. 3 and 4, Fig. 6 and Fig. 7."""

from __future__ import annotations

from bench.papers.entries import Curve, Figure, Formula, Paper, Plot, Quote, Row, derived, value

WORKED = "worked_examples"

COMBINATIONS = {
    "deadline_edf": ("DeadlineAlloc.EDF", 2.11),
    "existing_edf": ("ExistingAlloc.EDF", 15.6),
    "deadline_fifo": ("DeadlineAlloc.FIFO", 40.9),
    "existing_fifo": ("ExistingAlloc.FIFO", 55.5),
}


def _worked(label: str, quoted: float, key: str, less: str = "", *, unit: str = "ms") -> Row:
    ours = derived(WORKED, Formula.MINUS, key, less) if less else value(WORKED, key)
    return Row(label=label, unit=unit, quoted=quoted, ours=ours)


PAPER = Paper(
    name="Deadline placement",
    cited="デッドラインを持つクエリプラン割り当てによる分散ストリーム処理のリアルタイムスケジューリング方式",
    figures=(
        Figure(
            name="Fig. 3",
            title="The existing placement misses one deadline or the other",
            where="§4.1",
            rests_on=(
                "Simulated hosts of the product, costs as stated. The graph of Fig. 2 is lost and "
                "follows from the sentences of §4.1. The paper preempts between any two tuples, as "
                "hosts do."
            ),
            rows=(
                _worked("p2 first: p1, bound 30", 50.0, "moment.existing_fifo.p1_ms"),
                _worked("p1 first: p2, bound 300", 310.0, "moment.existing_edf.p2_ms"),
            ),
        ),
        Figure(
            name="Fig. 4",
            title="Deadline placement with EDF keeps both",
            where="§4.1",
            rests_on="As Fig. 3; sub-deadlines are those of the deadline program for 20 tuples.",
            rows=(
                _worked("EDF: p1, bound 30", 30.0, "moment.deadline_edf.p1_ms"),
                _worked("EDF: p2, bound 300", 300.0, "moment.deadline_edf.p2_ms"),
                _worked(
                    "FIFO: p2 waits longer by",
                    180.0,
                    "moment.deadline_fifo.p2_ms",
                    "moment.deadline_edf.p2_ms",
                ),
            ),
        ),
        Figure(
            name="Fig. 6",
            title="EDF of two tasks: when instances are done",
            where="§5.4",
            rests_on=(
                "The product's run queue, by hand. The text gives (p2, T1) the deadline 3 + 1, "
                "which nothing could keep; T1's sub-deadline is 2, so it is 3 + 2."
            ),
            rows=(
                _worked("EDF: (p1, T1)", 3.0, "fig6.edf.p1.t1", unit=""),
                _worked("EDF: (p2, T1), due at 5", 5.0, "fig6.edf.p2.t1", unit=""),
                Row(
                    label="EDF: (p1, T2), due at 7",
                    said="kept",
                    ours=value(WORKED, "fig6.edf.p1.t2"),
                ),
                Row(
                    label="EDF: (p2, T2), due at 9",
                    said="kept",
                    ours=value(WORKED, "fig6.edf.p2.t2"),
                ),
                Row(
                    label="FIFO: (p2, T1), due at 5",
                    said="missed",
                    ours=value(WORKED, "fig6.fifo.p2.t1"),
                ),
            ),
        ),
        Figure(
            name="Fig. 7",
            title="Missed deadlines by number of V2V tuples, planned for 15",
            where="§6.2",
            rests_on=(
                "Reproduced by simulated hosts, beside it by Spark executors with emulated costs. "
                "Ratios are means over the three outputs: pooled as §6.1 defines them, they could "
                "not reach 40.9 %. The sub-deadlines that ExistingAlloc borrows are our reading, "
                "and the paper's machines are two Raspberry Pi."
            ),
            rows=tuple(
                Row(
                    label=f"{label}, 15 tuples",
                    unit="%",
                    quoted=quoted,
                    ours=value("deadline", f"sim.{key}.dmr_pct.15"),
                    vivace=value("deadline", f"real.{key}.dmr_pct.15"),
                )
                for key, (label, quoted) in COMBINATIONS.items()
            ),
            plots=(
                Plot(
                    title="Missed deadlines, simulated",
                    x="V2V tuples a round",
                    y="missed, %",
                    curves=tuple(
                        Curve(
                            label=label,
                            report="deadline",
                            pattern=rf"sim\.{key}\.dmr_pct\.(?P<x>\d+)",
                        )
                        for key, (label, _) in COMBINATIONS.items()
                    ),
                    quotes=tuple(
                        Quote(label=label, x=15, y=quoted)
                        for label, quoted in COMBINATIONS.values()
                    ),
                ),
            ),
        ),
        Figure(
            name="(2) to (11)",
            title="The program of placement and sub-deadlines",
            where="§5.2",
            rests_on=(
                "No figure is given. (4) is read with h⁺ − h⁻ on its right, and (6) charges an "
                "operator once a node; `make bench-deadline_scale` compares the printed program "
                "with Vivace's."
            ),
            absent="The paper measures neither its size nor its time.",
        ),
    ),
)
