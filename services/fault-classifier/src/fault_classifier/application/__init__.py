"""Use cases: load, decide, persist, publish, clear. Ports only."""
