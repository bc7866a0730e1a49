"""The use case of deadline placement (§4): collision warning from the sensors of other vehicles.

Figure 2 of the paper is missing from our text; the graph follows from the sentences of §4.1. Node 1
has the on-board sensors and the radio, node 2 the link to the centre and the displays:

    on-board → O1 → output 1, vehicle control, 30 ms                        node 1
    V2V      → O2 (node 1) → O3 (either) → O4 → O7 → … → O21 → output 2, collision warning, 300 ms
    centre   → O6 → O5 → output 3, information, 3 s                         node 2

Every operator takes 1 ms per tuple. O3 passes on half of its input, the others all of it. So 20 V2V
tuples take 20·2 ms in O2 and O3 and 10·16 ms in O4 and O7 to O21, which is the sum in §4.1. There,
"O2, O3, O4, O7 to O21" process V2V tuples and nothing else, and 100 tuples of the centre wait for
200 ms: so O4 has no input from O1, and O5 and O6 have input from the centre only.
"""

from __future__ import annotations

from placement.deadline.problem import DeadlineProblem
from placement.deadline.records import (
    DeadlineNode,
    DeadlineOperator,
    DeadlineOutput,
    DeadlineSource,
)

TUPLE_MS = 1.0
TUPLE_BYTES = 100.0
PERIOD_S = 0.3
"""Period of the rounds; only the ratios of rates matter here."""

WARNING_CHAIN = ("O4", *(f"O{i}" for i in range(7, 22)))
"""The operators after O3, on node 2."""


def collision_warning(
    v2v_tuples: float, *, onboard_tuples: float = 10.0, centre_tuples: float = 100.0
) -> DeadlineProblem:
    """The use case for a given input volume per round.

    Parameters
    ----------
    v2v_tuples, onboard_tuples, centre_tuples
        Tuples of a round, from which operator costs follow, > 0. §6 plans for 15, 10 and 100.
    """
    warned = v2v_tuples / 2
    tuples = {"onboard": onboard_tuples, "v2v": v2v_tuples, "centre": centre_tuples}
    operators: list[DeadlineOperator] = []

    def add(name: str, stream: str, volume: float, nodes: tuple[str, ...], passed: float) -> str:
        made = f"{name}.out"
        tuples[made] = passed
        operators.append(
            DeadlineOperator(
                name=name,
                cost_ms=TUPLE_MS * volume,
                inputs=(stream,),
                outputs=(made,),
                candidates=nodes,
            )
        )
        return made

    one, two, either = ("node1",), ("node2",), ("node1", "node2")
    control = add("O1", "onboard", onboard_tuples, one, onboard_tuples)
    heard = add("O2", "v2v", v2v_tuples, one, v2v_tuples)
    stream = add("O3", heard, v2v_tuples, either, warned)
    for name in WARNING_CHAIN:
        stream = add(name, stream, warned, two, warned)
    told = add("O6", "centre", centre_tuples, two, centre_tuples)
    told = add("O5", told, centre_tuples, two, centre_tuples)
    return DeadlineProblem(
        nodes=(DeadlineNode(name="node1"), DeadlineNode(name="node2")),
        operators=tuple(operators),
        sources=(
            DeadlineSource(stream="onboard", nodes=one),
            DeadlineSource(stream="v2v", nodes=one),
            DeadlineSource(stream="centre", nodes=two),
        ),
        outputs=(
            DeadlineOutput(stream=control, deadline_ms=30.0, sink="node1"),
            DeadlineOutput(stream=stream, deadline_ms=300.0, sink="node2"),
            DeadlineOutput(stream=told, deadline_ms=3000.0, sink="node2"),
        ),
        rates_bytes_s={name: TUPLE_BYTES * much / PERIOD_S for name, much in tuples.items()},
    )
