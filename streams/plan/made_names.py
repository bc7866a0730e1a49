"""Names of fragments that Vivace makes of the statements that somebody wrote."""

from __future__ import annotations

from streams.language.loops import LOOP_INFIX
from streams.plan.partial import PARTIAL_INFIX

INFIXES = {PARTIAL_INFIX: "partial statements", LOOP_INFIX: "loops"}
"""Parts of names that no name that a user gives may contain, and whose names have them."""
