"""Lines and events to findings, findings to a verdict; the same code live, in `phalanx diagnose` and in replay."""
