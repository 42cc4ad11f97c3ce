"""Rank arithmetic and the versioned rank table of a gang. Standard library only."""
