"""What the planner takes to decide, to be heard, and to be written down, at 16 and at 12,500 nodes."""
