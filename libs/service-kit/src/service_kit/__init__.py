"""The shell around every service: the bus, the key-value store, clocks, lifecycle, telemetry, and their fakes."""
