"""Normalises: raw signals become conditions, each raised once per entity and check."""
