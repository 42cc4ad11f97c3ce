"""The command `phalanx`: the embedded stack, the demo, and the door to everything else."""
