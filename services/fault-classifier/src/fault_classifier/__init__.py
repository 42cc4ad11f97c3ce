"""Judges: conditions and evidence become one attributed fault of a job, with reasons."""
