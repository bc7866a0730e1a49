"""What a node does next, with what it takes in, what that costs, and whether it came in time."""
