"""`phalanx demo`: real processes, injected faults, and a table that says what each phase of a recovery cost."""
