"""The commands of `phalanx`, one a file."""
