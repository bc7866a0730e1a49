"""What the leader knows: one reading of the store, and what follows from it."""
