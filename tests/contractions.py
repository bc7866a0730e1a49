"""Placements of contracted problems, as placements of the whole ones."""

from __future__ import annotations

from dataclasses import replace

from placement.deadline.contraction import Contraction
from placement.deadline.result import DeadlinePlacement


def expand(contraction: Contraction, placement: DeadlinePlacement) -> DeadlinePlacement:
    """A placement of the contracted problem as one of the whole."""
    pair_deadlines_ms = {
        (output, part): part_ms
        for (output, name), ms in placement.pair_deadlines_ms.items()
        for part, part_ms in contraction.shares(name, ms).items()
    }
    places = {
        part: node for name, node in placement.places.items() for part in contraction.parts[name]
    }
    return replace(
        placement,
        places={name: places[name] for name in contraction.whole.order},
        pair_deadlines_ms=pair_deadlines_ms,
    )
