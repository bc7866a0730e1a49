"""Recursive streams: the example of §2 and 3, Fig. 8 to 10."""

from __future__ import annotations

from bench.papers.entries import Curve, Figure, Formula, Paper, Plot, Row, derived, value

WORKED, LOOPS = "worked_examples", "recursion"
TIMESTAMPS = {"a": "a timestamp each", "b": "four a timestamp"}
SUB_QUERIES = {1: "one sub-query", 2: "two sub-queries", 4: "four sub-queries"}
RUN_LIMITS = (10, 20, 100, 1000)


def _hb(part: str) -> Plot:
    curves: list[Curve] = []
    for number in SUB_QUERIES:
        curves += [
            Curve(
                label=f"HB, {number}",
                report=LOOPS,
                pattern=rf"fig8\.{part}\.{number}\.hb_(?P<x>\d+)\.relative",
            ),
            Curve(
                label=f"DTS, {number}",
                report=LOOPS,
                pattern=rf"fig8\.{part}\.{number}\.dts\.relative",
            ),
        ]
    return Plot(
        title=f"Time without recursion, {TIMESTAMPS[part]}",
        x="run limit of HB",
        y="of DTS with one sub-query",
        curves=tuple(curves),
        log_x=True,
    )


PAPER = Paper(
    name="Recursive streams",
    cited="Recursive Processing on Stream Data with Delay Operators",
    figures=(
        Figure(
            name="Fig. 4",
            title="Trading: what is bought at t₁, and the money that is left",
            where="§2 and 3",
            rests_on=(
                "The statements are as printed, but for `resource.value`, which the schema calls "
                "`val`. [NOW] lasts one instant in a loop; a millisecond of it would buy for ever."
            ),
            rows=(
                Row(label="bought", quoted=1000.0, ours=value(WORKED, "trading.bought")),
                Row(label="at the price", quoted=480.0, ours=value(WORKED, "trading.price")),
                Row(
                    label="resource, from t₁ + ε on",
                    quoted=2_520_000.0,
                    ours=value(WORKED, "trading.resource"),
                ),
            ),
        ),
        Figure(
            name="Fig. 6",
            title="Order of operators in nested loops",
            where="§3.2",
            rests_on=(
                "Any order in which producers precede consumers, delays left out, gives the same "
                "results."
            ),
            absent=(
                "The edges of its graph are lost. Property tests compare loops with a reference "
                "that evaluates every relation at every instant."
            ),
        ),
        Figure(
            name="Fig. 8",
            title="Without recursion: DTS beside HB",
            where="§4.2",
            rests_on=(
                "Times are relative, as in the paper; the curves are lost, and the text says that "
                "DTS is about as fast as HB with run limits of some tens. HB is a method of this "
                "benchmark alone, in the same language as the engine that it is compared with."
            ),
            rows=tuple(
                Row(
                    label=f"{TIMESTAMPS[part]}, {SUB_QUERIES[number]}: HB with run limit 20, of "
                    "DTS",
                    unit="%",
                    said="about the same",
                    ours=derived(
                        LOOPS,
                        Formula.PERCENT_OF,
                        f"fig8.{part}.{number}.hb_20.relative",
                        f"fig8.{part}.{number}.dts.relative",
                    ),
                )
                for part in TIMESTAMPS
                for number in SUB_QUERIES
            ),
            plots=(_hb("a"), _hb("b")),
        ),
        Figure(
            name="Fig. 9",
            title="Misses of the L1 data cache",
            where="§4.2",
            rests_on="The bars are lost as well.",
            absent="Containers and virtual machines seldom give performance counters.",
        ),
        Figure(
            name="Fig. 10",
            title="Recursion: time of the loop, of the same query without recursion",
            where="§4.3",
            rests_on=(
                "The other query reads from inputs of its own what the loop feeds back, and also "
                "gives out what the loop keeps to itself. The text says that both take about the "
                "same, the loop slightly less."
            ),
            rows=tuple(
                Row(
                    label=f"{TIMESTAMPS[part]}, {SUB_QUERIES[number]}",
                    quoted=1.0,
                    said="about 1, slightly less",
                    ours=value(LOOPS, f"fig10.{part}.{number}.recursive_vs_open"),
                )
                for part in TIMESTAMPS
                for number in SUB_QUERIES
            ),
        ),
        Figure(
            name="§6",
            title="Future work: execution that splits time inside loops alone",
            where="§6",
            rests_on=(
                "The paper names it and measures nothing. Without recursion, all statements are "
                "evaluated in bulk here, as fragments are; with it, the loop alone is split, and "
                "by compiled code. Throughput is of input tuples."
            ),
            rows=(
                *(
                    Row(
                        label=f"{SUB_QUERIES[number]}: DTS everywhere, times that in bulk",
                        ours=value(LOOPS, f"open.{number}.hybrid_vs_dts"),
                    )
                    for number in SUB_QUERIES
                ),
                Row(
                    label="throughput of the compiled loop, times that of the stepwise one",
                    vivace=value(LOOPS, "loop.1.vs_stepwise"),
                ),
                Row(
                    label="results of all methods are equal (1: yes)",
                    ours=value(LOOPS, "equal"),
                ),
            ),
        ),
    ),
)
