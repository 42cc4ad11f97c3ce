"""The parts of tools/bench_recovery.py."""
