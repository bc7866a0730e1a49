"""Live input: tuples that come when they come are ordered, numbered and kept."""
