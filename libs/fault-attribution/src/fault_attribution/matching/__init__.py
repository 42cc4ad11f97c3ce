"""Signatures on text, in linear time."""
