"""What a host decides: events in, commands out; no clock, socket or thread."""
