"""Edges: where streams enter and leave. Sources, sinks, and what they need of their site."""
