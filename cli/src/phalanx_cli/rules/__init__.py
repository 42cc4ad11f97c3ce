"""What `phalanx rules` prints about the rules in force."""
