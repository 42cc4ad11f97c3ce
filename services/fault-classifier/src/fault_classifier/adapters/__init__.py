"""Translations to the key-value store."""
