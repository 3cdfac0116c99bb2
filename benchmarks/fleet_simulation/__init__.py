"""A night of a fleet, simulated: the planner's jobs, the real decisions, machines that fail."""
