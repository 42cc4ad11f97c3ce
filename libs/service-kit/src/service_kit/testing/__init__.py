"""Fakes of the ports: a bus that loses, doubles, reorders and delays from a seed; a store; a clock."""
