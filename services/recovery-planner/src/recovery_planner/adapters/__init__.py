"""How the planner stores and encodes its records."""
