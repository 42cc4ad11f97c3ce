"""Faults to plans: which level, which ranks where, which checkpoint."""
