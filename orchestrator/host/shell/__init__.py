"""The process around a host's decisions: sockets, clock, store, processors."""
