"""Benchmarks of Vivace, the papers' and against its peers: `python -m bench list`."""
