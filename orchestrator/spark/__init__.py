"""Spark as the place hosts live: a session, and a pool that keeps one host an executor."""
