"""Random faults in the simulated world: schedules, what must hold after each, and shrinking."""
