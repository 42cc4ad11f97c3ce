"""The gang machine and everything a plan is decided by, without I/O."""
