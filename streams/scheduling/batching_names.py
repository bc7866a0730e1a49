"""Names and defaults of batching policies, for records, which clients read without numpy."""

from __future__ import annotations

MEASURED = "measured"
"""The policy where none is named."""

PATTERN = r"^(taat|bts-[1-9][0-9]{0,3}|ats|ats-printed|ats-algorithm|measured)$"
"""How a policy is written in manifests and records."""

DISPATCH_US = 400.0
"""Processor time of a batch beyond its tuples, at speed 1, with all that it causes elsewhere,
until it was measured."""
