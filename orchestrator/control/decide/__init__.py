"""What the leader writes, given what it knows: pure functions over records."""
