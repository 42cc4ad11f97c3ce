"""Drills: a machine with GPUs that can be broken on purpose, and the orders that break it."""
