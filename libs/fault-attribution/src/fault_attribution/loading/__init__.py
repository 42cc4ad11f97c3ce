"""Rules from YAML."""
