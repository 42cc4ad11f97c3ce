"""The parts of `make bench-attribution`: labelled incidents, scoring, variants, healthy logs, speed."""
