"""Tests on the rig take minutes each: `make platform` runs them; those of the rig are quick."""

from __future__ import annotations

from tests.round_trip.conftest import say

__all__ = ["say"]
