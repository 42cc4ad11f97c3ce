"""What the agent decides, without I/O: states, fences, verdicts over local ranks, environments."""
