"""Exact sums and elementary functions: the same bits on every machine, in any order."""
