"""Observes and acts on one node of a job: starts, watches and stops its ranks."""
