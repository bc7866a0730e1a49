"""Standby, failover and exactly-once delivery, as protocol state machines without I/O."""
