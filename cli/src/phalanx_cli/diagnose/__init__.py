"""`phalanx diagnose`: files, archives and dumps to evidence, and the engine's verdict for a person or as JSON."""
