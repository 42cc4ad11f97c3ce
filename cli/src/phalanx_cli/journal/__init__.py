"""A job's journal read back and told: runs, incidents, what they cost, and where the record has holes."""
